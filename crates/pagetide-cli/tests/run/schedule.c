// Executes a schedule of file and memory operations, one after another, in several processes.
//
//   schedule SCHEDULE LOG [COMMAND...]   the coordinator; starts the processes by COMMAND
//   schedule group                       the parent of processes 0 to 2
//   schedule worker ...                  a process after exec
//
// A line of the schedule is a process, an operation and arguments. COMMAND starts processes 0 to 2.
// Process 3 is outside. `fork` makes processes 4 and 5. Each process has slots for descriptors and
// for mappings. A line of process `-` makes a file before the processes start. The log has a line
// for each line of the schedule, and then one for each file.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, NR_SLOTS = 8, NR_MAPS = 4, NR_PROCESSES = 6, OUTSIDE = 3, NR_WORDS = 12,
       ROOM = 1 << 20, SOCKETS = 900, LINE = 600, HANG_S = 240, ARENA = 1 << 26 };

typedef long number;
typedef unsigned long word64;

struct slot { int fd, is_direct; };
struct map { char *at; number len, offset; int look, can_read, can_store, is_whole, is_advised; };

static int self;
static struct slot slots[NR_SLOTS];
static struct map maps[NR_MAPS];
static int pipe_ends[2] = {-1, -1};
static char *words[NR_WORDS];
static int nr_words;
static char answer[LINE];
static int answer_len;
static __thread sigjmp_buf *before;

// ---- answers ----

static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    answer_len += vsnprintf(answer + answer_len, LINE - answer_len, format, list);
    va_end(list);
    if (answer_len >= LINE) answer_len = LINE - 1;
}

static void say_result(number result) {
    int error = errno;
    if (result < 0) say("-1 %s", strerrorname_np(error) ? strerrorname_np(error) : "?");
    else say("%ld", result);
}

static word64 hash(const char *bytes, number len) {
    word64 sum = 14695981039346656037ul;
    for (number at = 0; at < len; at++) sum = (sum ^ (unsigned char)bytes[at]) * 1099511628211ul;
    return sum;
}

static void say_descriptor(int fd) {
    if (fd >= 0) say("fd ");
    say_result(fd);
}

static void say_bytes(number result, const char *bytes) {
    say_result(result);
    if (result > 0) say(" %016lx", hash(bytes, result));
}

static void die(const char *what) {
    fprintf(stderr, "schedule: %s: %s\n", what, strerror(errno));
    exit(99);
}

// ---- arguments ----

static number num(int nth) { return nth < nr_words ? strtol(words[nth], NULL, 0) : 0; }
static int has(int nth, char letter) { return nth < nr_words && strchr(words[nth], letter) != NULL; }
static struct slot *slot(int nth) { return &slots[num(nth) & (NR_SLOTS - 1)]; }
static struct map *map_of(int nth) { return &maps[num(nth) & (NR_MAPS - 1)]; }

// Bytes for writes, different for each seed.
static char room[ROOM] __attribute__((aligned(4096)));

static number fill(char *bytes, number len, word64 seed) {
    if (len > ROOM) len = ROOM;
    word64 state = seed * 0x9e3779b97f4a7c15ul + 1;
    for (number at = 0; at < len; at++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        bytes[at] = state >> 56;
    }
    return len;
}

static number clipped(number len) { return len < 0 ? 0 : len > ROOM ? ROOM : len; }

// O_DIRECT: the kernel accepts only aligned offsets, lengths and memory. A run accepts all.
static number aligned(const struct slot *at, number value) {
    return at->is_direct && value >= 0 ? value & ~(number)(PAGE - 1) : value;
}

static number aligned_up(const struct slot *at, number value) {
    return at->is_direct ? (value + PAGE - 1) & ~(number)(PAGE - 1) : value;
}

static void align_position(const struct slot *at) {
    if (!at->is_direct) return;
    number position = lseek(at->fd, 0, SEEK_CUR);
    if (position > 0) lseek(at->fd, aligned(at, position), SEEK_SET);
}

static int vectors(const struct slot *at, struct iovec *parts, number len, int nr) {
    if (nr < 1) nr = 1;
    if (nr > 8) nr = 8;
    number done = 0;
    for (int nth = 0; nth < nr; nth++) {
        number end = nth == nr - 1 ? len : aligned(at, len * (nth * nth + 1) / (nr * nr));
        if (end < done) end = done;
        parts[nth] = (struct iovec){room + done, end - done};
        done = end;
    }
    return nr;
}

// ---- descriptors ----

static int open_flags(int nth) {
    int flags = has(nth, '+') ? O_RDWR : has(nth, 'w') ? O_WRONLY : O_RDONLY;
    static const struct { char letter; int flag; } all[] = {
        {'c', O_CREAT}, {'x', O_EXCL}, {'t', O_TRUNC}, {'a', O_APPEND}, {'d', O_DIRECT},
        {'e', O_CLOEXEC}, {'s', O_SYNC}, {'y', O_DSYNC}, {'n', O_NONBLOCK}, {'f', O_NOFOLLOW},
        {'m', O_NOATIME}, {'D', O_DIRECTORY}, {'P', O_PATH}, {'T', O_TMPFILE}};
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++)
        if (has(nth, all[at].letter)) flags |= all[at].flag;
    return flags;
}

static void put(struct slot *at, int fd, int is_direct) {
    if (at->fd >= 0 && at->fd != fd) {
        say(" closes");
        if (close(at->fd)) say_result(-1);
    }
    *at = (struct slot){fd, is_direct};
}

static void op_open(void) {
    int flags = open_flags(3), fd;
    if (has(3, '@')) fd = openat(AT_FDCWD, words[2], flags, 0644);
    else fd = open(words[2], flags, 0644);
    say_descriptor(fd);
    if (fd >= 0) put(slot(1), fd, has(3, 'd'));
}

static void op_close(void) {
    int fd = slot(1)->fd;
    *slot(1) = (struct slot){-1, 0};
    say_result(close(fd));
}

static void op_dup(void) {
    struct slot *from = slot(1);
    int fd = dup(from->fd);
    say_descriptor(fd);
    if (fd >= 0) put(slot(2), fd, from->is_direct);
}

static void onto(int is_three, int flags) {
    struct slot *from = slot(1), *to = slot(2);
    int fd = is_three ? dup3(from->fd, to->fd, flags) : dup2(from->fd, to->fd);
    say_descriptor(fd);
    if (fd >= 0) to->is_direct = from->is_direct;
}

static void op_dup2(void) { onto(0, 0); }
static void op_dup3(void) { onto(1, num(3) ? O_CLOEXEC : 0); }

static void op_dupfd(void) {
    struct slot *from = slot(1);
    int fd = fcntl(from->fd, num(4) ? F_DUPFD_CLOEXEC : F_DUPFD, (int)num(3));
    say_descriptor(fd);
    if (fd >= 0) put(slot(2), fd, from->is_direct);
}

static void op_closerange(void) {
    int first = slot(1)->fd;
    if (first < 0) return say("none");
    say_result(close_range(first, first + num(2), num(3) ? CLOSE_RANGE_CLOEXEC : 0));
    for (int nth = 0; nth < NR_SLOTS && !num(3); nth++)
        if (slots[nth].fd >= first && slots[nth].fd <= first + num(2)) slots[nth] = (struct slot){-1, 0};
}

static void op_getfl(void) {
    number flags = fcntl(slot(1)->fd, F_GETFL), error = errno, own = fcntl(slot(1)->fd, F_GETFD);
    errno = error;
    if (flags < 0) return say_result(flags);
    // In calls.md: a file that was handed over does not show O_NOFOLLOW or O_TMPFILE.
    say("%lx %ld", flags & ~(O_NOFOLLOW | O_TMPFILE), own);
}

static void op_setfl(void) {
    if (slot(1)->is_direct) return say("direct");
    say_result(fcntl(slot(1)->fd, F_SETFL, open_flags(2) & (O_APPEND | O_NONBLOCK | O_NOATIME)));
}

static void op_setfd(void) { say_result(fcntl(slot(1)->fd, F_SETFD, (int)num(2))); }

// ---- reads and writes ----

static void op_read(void) {
    struct slot *at = slot(1);
    align_position(at);
    number result = read(at->fd, room, aligned_up(at, clipped(num(2))));
    say_bytes(result, room);
}

static void op_pread(void) {
    struct slot *at = slot(1);
    number result = pread(at->fd, room, aligned_up(at, clipped(num(2))), aligned(at, num(3)));
    say_bytes(result, room);
}

static void op_readv(void) {
    struct slot *at = slot(1);
    struct iovec parts[8];
    align_position(at);
    number result = readv(at->fd, parts, vectors(at, parts, aligned_up(at, clipped(num(2))), num(3)));
    say_bytes(result, room);
}

static void op_preadv(void) {
    struct slot *at = slot(1);
    struct iovec parts[8];
    int nr = vectors(at, parts, aligned_up(at, clipped(num(2))), num(4));
    say_bytes(preadv(at->fd, parts, nr, aligned(at, num(3))), room);
}

static void op_preadv2(void) {
    struct slot *at = slot(1);
    struct iovec parts[8];
    int nr = vectors(at, parts, aligned_up(at, clipped(num(2))), num(4));
    if (num(3) == -1) align_position(at);
    say_bytes(preadv2(at->fd, parts, nr, aligned(at, num(3)), 0), room);
}

static void op_write(void) {
    struct slot *at = slot(1);
    align_position(at);
    say_result(write(at->fd, room, fill(room, aligned_up(at, clipped(num(2))), num(3))));
}

static void op_pwrite(void) {
    struct slot *at = slot(1);
    number len = fill(room, aligned_up(at, clipped(num(2))), num(4));
    say_result(pwrite(at->fd, room, len, aligned(at, num(3))));
}

static void op_writev(void) {
    struct slot *at = slot(1);
    struct iovec parts[8];
    align_position(at);
    number len = fill(room, aligned_up(at, clipped(num(2))), num(3));
    say_result(writev(at->fd, parts, vectors(at, parts, len, num(4))));
}

static void op_pwritev(void) {
    struct slot *at = slot(1);
    struct iovec parts[8];
    number len = fill(room, aligned_up(at, clipped(num(2))), num(4));
    say_result(pwritev(at->fd, parts, vectors(at, parts, len, num(5)), aligned(at, num(3))));
}

static void op_pwritev2(void) {
    struct slot *at = slot(1);
    struct iovec parts[8];
    int flags = (has(6, 'a') ? RWF_APPEND : 0) | (has(6, 's') ? RWF_SYNC : 0) | (has(6, 'y') ? RWF_DSYNC : 0);
    if (at->is_direct) flags &= ~RWF_APPEND;
    if (num(3) == -1) align_position(at);
    number len = fill(room, aligned_up(at, clipped(num(2))), num(4));
    say_result(pwritev2(at->fd, parts, vectors(at, parts, len, num(5)), aligned(at, num(3)), flags));
}

static void op_seek(void) { say_result(lseek(slot(1)->fd, num(2), num(3))); }

// ---- lengths, holes, names ----

static void op_trunc(void) { say_result(truncate(words[1], num(2))); }
static void op_ftrunc(void) { say_result(ftruncate(slot(1)->fd, num(2))); }
static void op_sync(void) { say_result(fsync(slot(1)->fd)); }
static void op_dsync(void) { say_result(fdatasync(slot(1)->fd)); }
static void op_advise(void) { say_result(posix_fadvise(slot(1)->fd, num(2), num(3), num(4))); }
static void op_ahead(void) { say_result(readahead(slot(1)->fd, num(2), num(3))); }
static void op_range(void) { say_result(sync_file_range(slot(1)->fd, num(2), num(3), 7)); }

static void op_falloc(void) {
    int mode = has(2, 'p') ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        : (has(2, 'k') ? FALLOC_FL_KEEP_SIZE : 0) | (has(2, 'z') ? FALLOC_FL_ZERO_RANGE : 0);
    say_result(fallocate(slot(1)->fd, mode, num(3), num(4)));
}

// Finds data and holes of a file without dirty or cached pages. With a cached page of reserved
// blocks, the kernel would report these blocks as data.
static void op_holes(void) {
    int fd = slot(1)->fd;
    number position = lseek(fd, 0, SEEK_CUR);
    say_result(fsync(fd));
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    say(" data ");
    say_result(lseek(fd, num(2), SEEK_DATA));
    say(" hole ");
    say_result(lseek(fd, num(2), SEEK_HOLE));
    if (position >= 0) lseek(fd, position, SEEK_SET);
}

static void say_stat(int result, const struct stat *is) {
    if (result) return say_result(result);
    say("mode %o links %ld", is->st_mode, (number)is->st_nlink);
    if (S_ISREG(is->st_mode)) say(" length %ld", (number)is->st_size);
}

static void op_fstat(void) {
    struct stat is;
    say_stat(fstat(slot(1)->fd, &is), &is);
}

static void op_stat(void) {
    struct stat is;
    say_stat(num(2) ? lstat(words[1], &is) : stat(words[1], &is), &is);
}

static void op_statx(void) {
    struct statx is;
    int result = statx(slot(1)->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &is);
    if (result) return say_result(result);
    say("mode %o links %u length %ld", is.stx_mode, is.stx_nlink, (number)is.stx_size);
}

static void op_rename(void) {
    int flags = has(3, 'n') ? RENAME_NOREPLACE : has(3, 'x') ? RENAME_EXCHANGE : 0;
    say_result(flags ? renameat2(AT_FDCWD, words[1], AT_FDCWD, words[2], flags) : rename(words[1], words[2]));
}

static void op_link(void) { say_result(link(words[1], words[2])); }
static void op_symlink(void) { say_result(symlink(words[1], words[2])); }
static void op_unlink(void) { say_result(unlink(words[1])); }

// ---- copies ----

static number inode(int fd) {
    struct stat is;
    return fstat(fd, &is) ? -1 : (number)is.st_ino;
}

static int overlap(number a, number b, number len) { return a < b + len + PAGE && b < a + len + PAGE; }

// sendfile TO FROM LEN OFFSET POSITION: -1 as OFFSET or POSITION means the descriptor's position.
static void op_sendfile(void) {
    struct slot *to = slot(1), *from = slot(2);
    off_t offset = num(4), *given = offset < 0 ? NULL : &offset;
    if (to->is_direct || from->is_direct) return say("direct");
    number at = num(5) < 0 ? lseek(to->fd, 0, SEEK_CUR) : lseek(to->fd, num(5), SEEK_SET);
    number source = given ? offset : lseek(from->fd, 0, SEEK_CUR);
    if (inode(to->fd) == inode(from->fd) && overlap(given || to->fd != from->fd ? source : at, at, num(3)))
        return say("overlap");
    number result = sendfile(to->fd, from->fd, given, clipped(num(3)));
    say_result(result);
    if (given) say(" at %ld", (number)offset);
}

// copy TO FROM LEN TO-OFFSET FROM-OFFSET
static void op_copy(void) {
    struct slot *to = slot(1), *from = slot(2);
    loff_t there = num(4), here = num(5);
    if (to->is_direct || from->is_direct) return say("direct");
    number result = copy_file_range(from->fd, here < 0 ? NULL : &here, to->fd, there < 0 ? NULL : &there,
                                    clipped(num(3)), 0);
    say_result(result);
    say(" at %ld %ld", (number)there, (number)here);
}

static void need_pipe(void) {
    if (pipe_ends[0] >= 0) return;
    int ends[2];
    if (pipe2(ends, O_NONBLOCK)) die("pipe2");
    for (int nth = 0; nth < 2; nth++) {
        pipe_ends[nth] = fcntl(ends[nth], F_DUPFD_CLOEXEC, 700);
        close(ends[nth]);
    }
}

static number drain(void) {
    number len = 0, part;
    while ((part = read(pipe_ends[0], room + len, ROOM - len)) > 0) len += part;
    return len;
}

// A pipe gets at most half of its capacity.
static number for_pipe(number len) { return len < 0 ? 0 : len > 32768 ? 32768 : len; }

static void op_splicefrom(void) {
    struct slot *from = slot(1);
    loff_t offset = num(3);
    if (from->is_direct) return say("direct");
    need_pipe();
    say_result(splice(from->fd, offset < 0 ? NULL : &offset, pipe_ends[1], NULL, for_pipe(num(2)), 0));
    number len = drain();
    say(" at %ld %ld %016lx", (number)offset, len, hash(room, len));
}

static void op_spliceto(void) {
    struct slot *to = slot(1);
    loff_t offset = num(3);
    if (to->is_direct) return say("direct");
    need_pipe();
    number len = fill(room, for_pipe(num(2)), num(4));
    if (len && write(pipe_ends[1], room, len) != len) return say("the pipe is full");
    say_result(splice(pipe_ends[0], NULL, to->fd, offset < 0 ? NULL : &offset, len, 0));
    say(" at %ld left %ld", (number)offset, drain());
}

static void op_sendpipe(void) {
    struct slot *from = slot(1);
    off_t offset = num(3);
    if (from->is_direct) return say("direct");
    need_pipe();
    say_result(sendfile(pipe_ends[1], from->fd, offset < 0 ? NULL : &offset, for_pipe(num(2))));
    number len = drain();
    say(" at %ld %ld %016lx", (number)offset, len, hash(room, len));
}

// ---- locks ----

static short lock_kind(int nth) { return has(nth, 'r') ? F_RDLCK : has(nth, 'w') ? F_WRLCK : F_UNLCK; }

static void op_flock(void) {
    int how = has(2, 'r') ? LOCK_SH : has(2, 'w') ? LOCK_EX : LOCK_UN;
    say_result(flock(slot(1)->fd, how | LOCK_NB));
}

static void op_lock(void) {
    struct flock lock = {.l_type = lock_kind(3), .l_whence = num(6), .l_start = num(4), .l_len = num(5)};
    say_result(fcntl(slot(1)->fd, has(2, 'o') ? F_OFD_SETLK : F_SETLK, &lock));
}

static void op_getlock(void) {
    struct flock lock = {.l_type = lock_kind(3), .l_start = num(4), .l_len = num(5)};
    number result = fcntl(slot(1)->fd, has(2, 'o') ? F_OFD_GETLK : F_GETLK, &lock);
    if (result) return say_result(result);
    if (lock.l_type == F_UNLCK) return say("free");
    say("type %d whence %d %ld %ld pid %d", lock.l_type, lock.l_whence, (number)lock.l_start,
        (number)lock.l_len, lock.l_pid);
}

static void op_lockf(void) {
    int how = has(2, 'w') ? F_TLOCK : has(2, 't') ? F_TEST : F_ULOCK;
    say_result(lockf(slot(1)->fd, how, num(3)));
}

// ---- mappings ----

// Opens the kernel's O_PATH descriptor of a file, which keeps no file open.
static int look_at(int fd) {
    char path[40];
    sprintf(path, "/proc/self/fd/%d", fd);
    int look = syscall(SYS_open, path, O_PATH | O_CLOEXEC);
    if (look < 0) return -1;
    int high = fcntl(look, F_DUPFD_CLOEXEC, 600);
    close(look);
    return high;
}

static void forget(struct map *map) {
    if (map->look >= 0) close(map->look);
    *map = (struct map){.look = -1};
}

// Returns the number of bytes of a mapping within the file, at most LEN, from an offset on.
static number in_file(const struct map *map, number from, number len) {
    struct stat is;
    if (!map->at || fstat(map->look, &is)) return 0;
    number end = is.st_size - map->offset < map->len ? is.st_size - map->offset : map->len;
    return from >= end ? 0 : len > end - from ? end - from : len;
}

// map MAP SLOT OFFSET LEN PROTECTION FLAGS
static void op_map(void) {
    struct map *map = map_of(1);
    struct slot *at = slot(2);
    int protection = (has(5, 'r') ? PROT_READ : 0) | (has(5, 'w') ? PROT_WRITE : 0);
    int sharing = has(6, 's') ? MAP_SHARED : MAP_PRIVATE;
    if (map->at) {
        say(" unmaps ");
        say_result(munmap(map->at, map->len));
        forget(map);
    }
    // Separate addresses: a part that is unmapped stays free, and no other mapping is put there.
    char *hint = (char *)(has(6, 'f') ? 0x300000000 : 0x500000000) + (map - maps) * (word64)ARENA;
    if (has(6, 'f')) sharing |= MAP_FIXED;
    char *got = mmap(hint, num(4), protection, sharing, at->fd, num(3));
    if (got == MAP_FAILED) return say_result(-1);
    say("there");
    if (got != hint) say(" elsewhere");
    *map = (struct map){got, num(4), num(3), look_at(at->fd), has(5, 'r'), has(5, 'w'), 1};
}

// Returns a part of a mapping that begins at a page.
static int part_of(struct map *map, int nth, number *from, number *len) {
    *from = num(nth);
    *len = num(nth + 1);
    if (!map->at || *from >= map->len || *len <= 0) return say("none"), 0;
    if (*len > map->len - *from) *len = map->len - *from;
    return 1;
}

static void op_unmap(void) {
    struct map *map = map_of(1);
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    int is_all = from == 0 && len == map->len;
    say_result(munmap(map->at + from, len));
    map->is_whole = 0;
    if (is_all) forget(map);
}

static void op_load(void) {
    struct map *map = map_of(1);
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    memcpy(room, map->at + from, clipped(len));
    say("%016lx", hash(room, clipped(len)));
}

static void op_store(void) {
    struct map *map = map_of(1);
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    // The kernel drops bytes stored past the end of the file at an unknown time.
    if ((len = in_file(map, from, len)) == 0) return say("past");
    fill(room, len, num(4));
    memcpy(map->at + from, room, clipped(len));
    say("stored %ld", len);
}

static void op_protect(void) {
    struct map *map = map_of(1);
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    map->is_whole = 0;
    say_result(mprotect(map->at + from, len, (has(4, 'r') ? PROT_READ : 0) | (has(4, 'w') ? PROT_WRITE : 0)));
}

static void op_msync(void) {
    struct map *map = map_of(1);
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    say_result(msync(map->at + from, len, has(4, 'a') ? MS_ASYNC : has(4, 'i') ? MS_SYNC | MS_INVALIDATE : MS_SYNC));
}

static void op_madvise(void) {
    struct map *map = map_of(1);
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    map->is_advised |= num(4) < MADV_WILLNEED;
    say_result(madvise(map->at + from, len, num(4)));
}

static void op_remap(void) {
    struct map *map = map_of(1);
    if (!map->at) return say("none");
    // In calls.md: advice divides the kernel's mappings, but not a run's.
    if (map->is_advised) return say("none");
    char *target = (char *)0x400000000 + (map - maps) * (word64)ARENA;
    char *got = has(3, 'f') && map->at != target
        ? mremap(map->at, map->len, num(2), MREMAP_MAYMOVE | MREMAP_FIXED, target)
        : mremap(map->at, map->len, num(2), MREMAP_MAYMOVE);
    if (got == MAP_FAILED) return say_result(-1);
    say("there");
    map->at = got;
    map->len = num(2);
}

// Returns the length of a mapping's memory that a call may use. All of this memory can be touched.
static number touchable(struct map *map, int nth, number *from, int is_filled) {
    number len;
    if (!part_of(map, nth, from, &len)) return 0;
    len = map->is_whole && map->can_read && (map->can_store || !is_filled) ? in_file(map, *from, len) : 0;
    if (len == 0) say("cannot be touched");
    return len;
}

// readinto SLOT MAP FROM LEN OFFSET, and writefrom
static void op_readinto(void) {
    struct slot *at = slot(1);
    struct map *map = map_of(2);
    number from, len;
    if (at->is_direct || inode(at->fd) == inode(map->look)) return say("same");
    if ((len = touchable(map, 3, &from, 1)) == 0) return;
    number result = num(5) < 0 ? read(at->fd, map->at + from, len) : pread(at->fd, map->at + from, len, num(5));
    say_result(result);
    if (result > 0) {
        memcpy(room, map->at + from, clipped(result));
        say(" %016lx", hash(room, clipped(result)));
    }
}

static void op_writefrom(void) {
    struct slot *at = slot(1);
    struct map *map = map_of(2);
    number from, len;
    if (at->is_direct || inode(at->fd) == inode(map->look)) return say("same");
    if ((len = touchable(map, 3, &from, 0)) == 0) return;
    say_result(num(5) < 0 ? write(at->fd, map->at + from, len) : pwrite(at->fd, map->at + from, len, num(5)));
}

// ---- threads and processes ----

enum { NR_THREADS = 4 };
struct share { int fd, nth; number len, offset, seed; char *at; number result; word64 sum; pthread_t thread; };

static void *writes_a_share(void *argument) {
    struct share *share = argument;
    char *bytes = malloc(share->len + 1);
    fill(bytes, share->len, share->seed);
    share->result = pwrite(share->fd, bytes, share->len, share->offset);
    if (share->result < 0) share->result = -errno;
    number back = pread(share->fd, bytes, share->len, share->offset);
    share->sum = back < 0 ? (word64)errno : hash(bytes, back);
    free(bytes);
    return NULL;
}

static void *stores_a_share(void *argument) {
    struct share *share = argument;
    sigjmp_buf here;
    before = &here;
    int signal = sigsetjmp(here, 1);
    if (signal) return share->sum = signal, NULL;
    char *bytes = malloc(share->len + 1);
    fill(bytes, share->len, share->seed);
    if (share->nth % 2) memcpy(share->at, bytes, share->len);
    else memcpy(bytes, share->at, share->len);
    share->sum = hash(bytes, share->len);
    free(bytes);
    return NULL;
}

static void *opens_for_itself(void *argument) {
    struct share *share = argument;
    char name[8], *bytes = malloc(5001);
    sprintf(name, "f%d", share->nth);
    int fd = open(name, O_RDONLY);
    if (fd < 0) return share->result = -errno, NULL;
    share->result = pread(fd, bytes, 5000, share->offset);
    share->sum = share->result < 0 ? 0 : hash(bytes, share->result);
    close(fd);
    free(bytes);
    return NULL;
}

static void all_together(struct share *shares, void *(*does)(void *)) {
    for (int nth = 0; nth < NR_THREADS; nth++)
        if (pthread_create(&shares[nth].thread, NULL, does, &shares[nth])) die("pthread_create");
    for (int nth = 0; nth < NR_THREADS; nth++) {
        pthread_join(shares[nth].thread, NULL);
        say(" %ld %lx", shares[nth].result, shares[nth].sum);
    }
}

// together SLOT LEN OFFSET SEED: threads write and read parts that do not overlap.
static void op_together(void) {
    struct slot *at = slot(1);
    struct share shares[NR_THREADS] = {{0}};
    if (at->is_direct || fcntl(at->fd, F_GETFL) & O_APPEND) return say("not in any order");
    for (int nth = 0; nth < NR_THREADS; nth++)
        shares[nth] = (struct share){.fd = at->fd, .nth = nth, .len = clipped(num(2)) / NR_THREADS,
            .offset = num(3) + nth * (clipped(num(2)) / NR_THREADS), .seed = num(4) + nth};
    all_together(shares, writes_a_share);
}

// storetogether MAP FROM LEN SEED
static void op_storetogether(void) {
    struct map *map = map_of(1);
    struct share shares[NR_THREADS] = {{0}};
    number from, len;
    if (!part_of(map, 2, &from, &len)) return;
    if ((len = in_file(map, from, len) / NR_THREADS) == 0) return say("past");
    for (int nth = 0; nth < NR_THREADS; nth++)
        shares[nth] = (struct share){.at = map->at + from + nth * len, .nth = nth, .len = len, .seed = num(4) + nth};
    all_together(shares, stores_a_share);
}

static void op_opentogether(void) {
    struct share shares[NR_THREADS] = {{0}};
    for (int nth = 0; nth < NR_THREADS; nth++) shares[nth] = (struct share){.nth = nth, .offset = num(1)};
    all_together(shares, opens_for_itself);
}

// apart SLOT LEN OFFSET SEED: several processes write at the same time, each a separate part.
static void op_apart(void) {
    struct slot *at = slot(1);
    number len = clipped(num(2));
    if (at->is_direct || fcntl(at->fd, F_GETFL) & O_APPEND) return say("not in any order");
    fill(room, len, num(4) + self);
    say_result(pwrite(at->fd, room, len, num(3) + self * len));
}

static void serve(void) __attribute__((noreturn));

static void op_fork(void) {
    pid_t child = fork();
    if (child < 0) return say_result(-1);
    if (child == 0) {
        self = num(1);
        char hello[30];
        int len = sprintf(hello, "%d\n", getpid());
        if (write(SOCKETS + self, hello, len) != len) _exit(98);
        serve();
    }
    say("forked");
}

static void op_wait(void) {
    int status = 0;
    if (waitpid(num(1), &status, 0) < 0) return say_result(-1);
    say("status %x", status);
}

static void op_exit(void) {
    if (has(1, 'k')) kill(getpid(), SIGKILL);
    if (has(1, 'q')) _exit(7);
    exit(7);
}

static void op_exec(void) {
    static char text[2 + 2 * NR_SLOTS][24];
    char *arguments[4 + 2 * NR_SLOTS] = {"schedule", "worker", text[0]};
    sprintf(text[0], "%d", self);
    for (int nth = 0; nth < NR_SLOTS; nth++) {
        sprintf(text[1 + nth], "%d", slots[nth].fd);
        sprintf(text[1 + NR_SLOTS + nth], "%d", slots[nth].is_direct);
        arguments[3 + nth] = text[1 + nth];
        arguments[3 + NR_SLOTS + nth] = text[1 + NR_SLOTS + nth];
    }
    execv("/proc/self/exe", arguments);
    say_result(-1);
}

// Another program reads a file as standard input and appends to a second file.
static void op_shell(void) {
    char line[200];
    snprintf(line, sizeof line, "cksum < %s 2>&1; printf %s >> %s", words[1], words[3], words[2]);
    FILE *output = popen(line, "r");
    number len = output ? fread(room, 1, 200, output) : 0;
    room[len] = 0;
    for (char *at = room; *at; at++)
        if (*at == '\n') *at = ' ';
    say("%s", room);
    say("%d", pclose(output));
}

static void op_quit(void) { _exit(0); }

// ---- a process ----

static const struct { const char *name; void (*does)(void); int nr_arguments; } ops[] = {
    {"open", op_open, 3}, {"close", op_close, 1}, {"dup", op_dup, 2}, {"dup2", op_dup2, 2},
    {"dup3", op_dup3, 3}, {"dupfd", op_dupfd, 4}, {"closerange", op_closerange, 3},
    {"getfl", op_getfl, 1}, {"setfl", op_setfl, 2}, {"setfd", op_setfd, 2}, {"read", op_read, 2},
    {"pread", op_pread, 3}, {"readv", op_readv, 3}, {"preadv", op_preadv, 4},
    {"preadv2", op_preadv2, 4}, {"write", op_write, 3}, {"pwrite", op_pwrite, 4},
    {"writev", op_writev, 4}, {"pwritev", op_pwritev, 5}, {"pwritev2", op_pwritev2, 6},
    {"seek", op_seek, 3}, {"trunc", op_trunc, 2}, {"ftrunc", op_ftrunc, 2}, {"sync", op_sync, 1},
    {"dsync", op_dsync, 1}, {"advise", op_advise, 4}, {"ahead", op_ahead, 3},
    {"range", op_range, 3}, {"falloc", op_falloc, 4}, {"holes", op_holes, 2},
    {"fstat", op_fstat, 1}, {"stat", op_stat, 2}, {"statx", op_statx, 1},
    {"rename", op_rename, 3}, {"link", op_link, 2}, {"symlink", op_symlink, 2},
    {"unlink", op_unlink, 1}, {"sendfile", op_sendfile, 5}, {"copy", op_copy, 5},
    {"splicefrom", op_splicefrom, 3}, {"spliceto", op_spliceto, 4}, {"sendpipe", op_sendpipe, 3},
    {"flock", op_flock, 2}, {"lock", op_lock, 6}, {"getlock", op_getlock, 5},
    {"lockf", op_lockf, 3}, {"map", op_map, 6}, {"unmap", op_unmap, 3}, {"load", op_load, 3},
    {"store", op_store, 4}, {"protect", op_protect, 4}, {"msync", op_msync, 4},
    {"madvise", op_madvise, 4}, {"remap", op_remap, 3}, {"readinto", op_readinto, 5},
    {"writefrom", op_writefrom, 5}, {"together", op_together, 4},
    {"storetogether", op_storetogether, 4}, {"opentogether", op_opentogether, 1},
    {"apart", op_apart, 4}, {"fork", op_fork, 1}, {"wait", op_wait, 1}, {"exit", op_exit, 1},
    {"exec", op_exec, 0}, {"shell", op_shell, 3}, {"quit", op_quit, 0}};

static void on_fault(int signal) {
    if (before) siglongjmp(*before, signal);
    _exit(97);
}

static void split(char *line, char **into, int *nr) {
    char *rest = NULL;
    *nr = 0;
    for (char *one = strtok_r(line, " \n", &rest); one && *nr < NR_WORDS; one = strtok_r(NULL, " \n", &rest))
        into[(*nr)++] = one;
}

static void execute(void) {
    sigjmp_buf here;
    const char *name = words[0] + (strncmp(words[0], "t:", 2) ? 0 : 2);
    for (unsigned nth = 0; nth < sizeof ops / sizeof *ops; nth++) {
        if (strcmp(name, ops[nth].name)) continue;
        if (nr_words <= ops[nth].nr_arguments) return say("too few arguments");
        before = &here;
        int signal = sigsetjmp(here, 1);
        if (signal) say("signal %d", signal);
        else ops[nth].does();
        before = NULL;
        return;
    }
    say("no such operation");
}

static void *execute_in_thread(void *argument) {
    execute();
    return argument;
}

static void serve(void) {
    for (;;) {
        char line[LINE];
        number len = read(SOCKETS + self, line, LINE - 1);
        if (len <= 0) _exit(96);
        line[len] = 0;
        split(line, words, &nr_words);
        answer_len = 0;
        pthread_t thread;
        if (strncmp(words[0], "t:", 2)) execute();
        else if (pthread_create(&thread, NULL, execute_in_thread, NULL)) die("pthread_create");
        else pthread_join(thread, NULL);
        say("\n");
        if (write(SOCKETS + self, answer, answer_len) != answer_len) _exit(95);
    }
}

static void begin(int process) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    self = process;
    for (int nth = 0; nth < NR_SLOTS; nth++) slots[nth].fd = -1;
    for (int nth = 0; nth < NR_MAPS; nth++) maps[nth].look = -1;
}

static void greet_and_serve(int process) {
    char hello[30];
    int len = sprintf(hello, "%d\n", getpid());
    begin(process);
    if (write(SOCKETS + self, hello, len) != len) die("hello");
    serve();
}

static int group(void) {
    for (int process = 0; process < OUTSIDE; process++)
        if (fork() == 0) greet_and_serve(process);
    int status, worst = 0;
    while (wait(&status) > 0) worst |= status;
    return worst ? 94 : 0;
}

static void after_exec(char **arguments) {
    begin(atoi(arguments[0]));
    for (int nth = 0; nth < NR_SLOTS; nth++) {
        int fd = atoi(arguments[1 + nth]);
        if (fd >= 0 && fcntl(fd, F_GETFD) >= 0)
            slots[nth] = (struct slot){fd, atoi(arguments[1 + NR_SLOTS + nth])};
    }
    if (write(SOCKETS + self, "executed\n", 9) != 9) die("executed");
    serve();
}

// ---- the coordinator ----

static int ours[NR_PROCESSES], pids[NR_PROCESSES], parents[NR_PROCESSES];
static pid_t command;
static FILE *report;

static void give_up(const char *why, int process) {
    fprintf(report, "%s\n", why);
    fclose(report);
    fprintf(stderr, "schedule: process %d: %s\n", process, why);
    for (int nth = 0; nth < NR_PROCESSES; nth++)
        if (pids[nth] > 0) kill(pids[nth], SIGKILL);
    kill(command, SIGKILL);
    exit(1);
}

static int is_gone(int pid) {
    char path[40], line[200] = "";
    sprintf(path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 1;
    size_t len = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[len] = 0;
    const char *state = strrchr(line, ')');
    return !state || state[2] == 'Z' || state[2] == 'X';
}

static void hear(int process, char *line) {
    struct pollfd ready = {.fd = ours[process], .events = POLLIN};
    for (int half_s = 0; poll(&ready, 1, 500) == 0; half_s++) {
        if (pids[process] > 0 && is_gone(pids[process]) && poll(&ready, 1, 0) == 0)
            give_up("the process ended", process);
        if (half_s > 2 * HANG_S) give_up("no answer", process);
    }
    number len = read(ours[process], line, LINE - 1);
    if (len <= 0) give_up("no process answers", process);
    if (line[len - 1] == '\n') len--;
    line[len] = 0;
}

static void tell(int process, const char *line) {
    if (write(ours[process], line, strlen(line)) < 0) give_up("cannot be told", process);
}

static void hear_hello(int process, int parent) {
    char line[LINE];
    hear(process, line);
    pids[process] = atoi(line);
    parents[process] = parent;
}

// Replaces the pid of a lock's holder by the number of the process.
static void name_holder(char *line) {
    char *at = strstr(line, " pid ");
    int pid = at ? atoi(at + 5) : -1;
    for (int process = 0; process < NR_PROCESSES && pid > 0; process++)
        if (pids[process] == pid) sprintf(at, " process %d", process);
}

static int has_children(int process) {
    for (int nth = 0; nth < NR_PROCESSES; nth++)
        if (pids[nth] > 0 && parents[nth] == process) return 1;
    return 0;
}

static void end_child(int process, const char *how, char *line) {
    if (parents[process] < 0 || has_children(process)) {
        strcpy(line, "not a child, or has some");
        return;
    }
    char wait[40];
    sprintf(wait, "wait %d", pids[process]);
    tell(process, how);
    tell(parents[process], wait);
    hear(parents[process], line);
    pids[process] = 0;
}

static void start(char **prefix, int nr_prefix) {
    char *arguments[40] = {0};
    for (int nth = 0; nth < nr_prefix; nth++) arguments[nth] = prefix[nth];
    char self_path[500];
    number len = readlink("/proc/self/exe", self_path, sizeof self_path - 1);
    self_path[len < 0 ? 0 : len] = 0;
    arguments[nr_prefix] = self_path;
    arguments[nr_prefix + 1] = "group";
    for (int process = 0; process < NR_PROCESSES; process++) {
        int both[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both)) die("socketpair");
        ours[process] = fcntl(both[0], F_DUPFD_CLOEXEC, SOCKETS + 20);
        dup2(both[1], SOCKETS + process);
        close(both[0]);
        close(both[1]);
    }
    if ((pids[OUTSIDE] = fork()) == 0) {
        for (int process = 0; process < NR_PROCESSES; process++) close(ours[process]);
        greet_and_serve(OUTSIDE);
    }
    if ((command = fork()) == 0) {
        execvp(arguments[0], arguments);
        die(arguments[0]);
    }
    for (int process = 0; process <= OUTSIDE; process++) hear_hello(process, -1);
}

// Executes a line in one process, and does the coordinator's part.
static void execute_in(int process, char *operation, char *line) {
    char name[20] = "", argument[20] = "";
    sscanf(operation, "%19s %19s", name, argument);
    strcpy(line, "no such process");
    if (process < 0 || process >= NR_PROCESSES || pids[process] <= 0) return;
    if (!strcmp(name, "exit")) return end_child(process, operation, line);
    int child = atoi(argument);
    if (!strcmp(name, "fork") && (child <= OUTSIDE || child >= NR_PROCESSES || pids[child] > 0)) {
        strcpy(line, "is there already");
        return;
    }
    tell(process, operation);
    hear(process, line);
    if (!strcmp(name, "fork") && !strcmp(line, "forked")) hear_hello(child, process);
    name_holder(line);
}

// Executes a line such as "0|1|2 apart ..." in several processes at the same time.
static void execute_in_several(const char *list, char *operation) {
    char line[LINE];
    int told[NR_PROCESSES] = {0};
    for (const char *at = list; *at; at++) {
        int process = *at - '0';
        if (*at == '|' || process < 0 || process >= NR_PROCESSES || pids[process] <= 0 || told[process]) continue;
        told[process] = 1;
        tell(process, operation);
    }
    for (int process = 0; process < NR_PROCESSES; process++) {
        if (!told[process]) continue;
        hear(process, line);
        fprintf(report, "%s, ", line);
    }
}

static void make_file(char *operation) {
    char name[20];
    number len, seed;
    if (sscanf(operation, "file %19s %ld %ld", name, &len, &seed) != 3) die("file NAME LENGTH SEED");
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, room, fill(room, len, seed)) != len) die(name);
    close(fd);
}

static void execute_line(char *text) {
    char line[LINE], list[20];
    int skipped = 0;
    text[strcspn(text, "\n")] = 0;
    if (sscanf(text, "%19s %n", list, &skipped) != 1) return;
    fprintf(report, "%s -> ", text);
    if (list[0] == '-') fprintf(report, "made\n");
    else if (list[1]) execute_in_several(list, text + skipped), fprintf(report, "\n");
    else {
        execute_in(list[0] - '0', text + skipped, line);
        fprintf(report, "%s\n", line);
    }
    fflush(report);
}

static void end_all(void) {
    char line[LINE];
    for (int process = NR_PROCESSES - 1; process > OUTSIDE; process--)
        for (int nth = NR_PROCESSES - 1; nth > OUTSIDE; nth--)
            if (pids[nth] > 0) end_child(nth, "exit q", line);
    for (int process = 0; process <= OUTSIDE; process++) tell(process, "quit");
    int status = 0;
    waitpid(pids[OUTSIDE], &status, 0);
    waitpid(command, &status, 0);
    fprintf(report, "the command ended with %x\n", status);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void report_files(void) {
    struct dirent **names;
    int nr = scandir(".", &names, NULL, by_name);
    for (int nth = 0; nth < nr; nth++) {
        struct stat is;
        const char *name = names[nth]->d_name;
        if (name[0] == '.' || lstat(name, &is)) continue;
        int fd = open(name, O_RDONLY | O_NOFOLLOW);
        word64 sum = 14695981039346656037ul;
        number part;
        while (fd >= 0 && (part = read(fd, room, ROOM)) > 0) sum = sum * 31 + hash(room, part);
        if (fd >= 0) close(fd);
        fprintf(report, "at the end %s: mode %o links %ld length %ld %016lx\n", name, is.st_mode,
                (number)is.st_nlink, (number)is.st_size, sum);
    }
}

int main(int nr_arguments, char **arguments) {
    if (nr_arguments > 1 && !strcmp(arguments[1], "group")) return group();
    if (nr_arguments > 1 && !strcmp(arguments[1], "worker")) after_exec(arguments + 2);
    if (nr_arguments < 3) return 2;
    signal(SIGPIPE, SIG_IGN);
    close_range(3, 1 << 20, 0);
    FILE *schedule = fopen(arguments[1], "re");
    report = fopen(arguments[2], "we");
    if (!schedule || !report) die(arguments[1]);
    char text[LINE];
    while (fgets(text, LINE, schedule))
        if (!strncmp(text, "- file ", 7)) make_file(text + 2);
    rewind(schedule);
    start(arguments + 3, nr_arguments - 3);
    while (fgets(text, LINE, schedule)) execute_line(text);
    end_all();
    report_files();
    fclose(report);
    return 0;
}
