/* Calls every function of functions.txt with ordinary and edge arguments, and prints a line per
 * call: result, errno, and changes. The test compares a run's lines with the kernel's.
 *
 *   plan: names, and a letter for each argument --> all combinations of the letters' values, or a
 *   sample of fixed seed --> one call on fresh files --> result errno | position length sum buffer
 *
 * Arguments: a seed and a number of combinations per function, optional.
 *
 * Files are longer than 128 KiB, so that they are managed even if only read. */
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum { LEN = 140000, AT = 10, ROOM = 1 << 16 };

/* Memory at fixed addresses. An inaccessible page follows `room`. */
static char *const room = (char *)0x200000000, *const hole = (char *)0x210000000;

/* ---- files and descriptors ---- */

enum kind { RW, READS, WRITES, APPENDS, AT_END, PAST_END, NO_FD, CLOSED, FOLDER, PIPE_IN, PIPE_OUT,
            PATH, SOCKET, NR_KINDS };
static const char *const kind_names[] = {"rw", "reads", "writes", "appends", "end", "past", "-1",
    "closed", "folder", "pipe-in", "pipe-out", "path", "socket"};
enum other { SAME, TWIN, OTHER, OTHER_READS, OTHER_WRITES, OTHER_NONE, OTHER_FOLDER, NR_OTHERS };
static const char *const other_names[] = {"same", "twin", "other", "other-reads", "other-writes",
    "-1", "folder"};

static int files[NR_KINDS], looks[2], others[NR_OTHERS], pipes[4], is_fresh, is_native, is_restorable;
static uint64_t all_before;
static long nr_stand_ins, nr_rows;

static long raw(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static int is_stand_in(int fd) { return fd >= 0 && raw(SYS_fcntl, fd, F_GETFL, 0) & O_PATH; }

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static char bytes[LEN];

static int make(const char *name) {
    if (unlink(name) && errno == EISDIR) rmdir(name);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, bytes, LEN) != LEN) fail("make");
    return fd;
}

static int reopen(const char *name, int flags, off_t at) {
    int fd = open(name, flags);
    off_t now = fd < 0 ? -1 : lseek(fd, at, SEEK_SET);
    if (now != at) {
        fprintf(stderr, "%s is at %ld and not at %ld\n", name, (long)now, (long)at);
        fail(name);
    }
    return fd;
}

static uint64_t state_of(int look, off_t *len);

static const off_t starts[] = {AT, AT, AT, AT, LEN, LEN + 5000};

/* Restores a file's bytes if they have changed. */
static void restore(int look) {
    off_t len;
    if (state_of(look, &len) == all_before) return;
    if (len != LEN && (ftruncate(look, 0) || ftruncate(look, LEN))) fail("ftruncate");
    if (pwrite(look, bytes, LEN, 0) != LEN) fail("pwrite");
}

/* Closes leftovers of a row, and makes fresh files. */
static void refresh(void) {
    if (is_fresh) return;
    close_range(3, 60, 0);
    close(0x7fff);
    int moved = unlink("none") && errno == EISDIR && rmdir("none");
    (void)moved;
    int flags[] = {O_RDWR, O_RDONLY, O_WRONLY, O_RDWR | O_APPEND, O_RDWR, O_RDWR};
    looks[0] = make("file");
    looks[1] = make("other");
    for (int kind = RW; kind <= PAST_END; kind++) files[kind] = reopen("file", flags[kind], starts[kind]);
    files[NO_FD] = -1;
    files[CLOSED] = 55;
    files[FOLDER] = open(".", O_RDONLY | O_DIRECTORY);
    if (pipe2(pipes, O_NONBLOCK) || pipe2(pipes + 2, O_NONBLOCK)) fail("pipe2");
    files[PIPE_IN] = pipes[0];
    files[PIPE_OUT] = pipes[3];
    files[PATH] = open("file", O_PATH);
    files[SOCKET] = socket(AF_UNIX, SOCK_STREAM, 0);
    others[SAME] = -2;
    others[TWIN] = reopen("file", O_RDWR, 50000);
    others[OTHER] = reopen("other", O_RDWR, 7);
    others[OTHER_READS] = reopen("other", O_RDONLY, LEN - 100);
    others[OTHER_WRITES] = reopen("other", O_WRONLY, 7);
    others[OTHER_NONE] = -1;
    others[OTHER_FOLDER] = files[FOLDER];
    off_t len;
    all_before = state_of(looks[0], &len);
    is_fresh = 1;
}

static uint64_t sum(uint64_t before, const char *bytes, long nr) {
    for (uint64_t word; nr > 0; bytes += 8, nr -= 8) {
        word = 0;
        memcpy(&word, bytes, nr < 8 ? nr : 8);
        before = (before ^ word) * 0x9e3779b97f4a7c15;
        before ^= before >> 29;
    }
    return before;
}

/* Returns length and checksum of a file, read by another descriptor. */
static uint64_t state_of(int look, off_t *len) {
    static char bytes[300000];
    struct stat stat;
    if (fstat(look, &stat)) fail("fstat");
    *len = stat.st_size;
    long nr = pread(look, bytes, sizeof bytes, 0);
    uint64_t all = sum(0xcbf29ce484222325, bytes, nr);
    if (stat.st_size > (off_t)sizeof bytes) {
        nr = pread(look, bytes, 8192, stat.st_size - 8192);
        all = sum(all, bytes, nr);
    }
    return all;
}

/* ---- arguments ---- */

struct value { const char *name; long is; };
#define END {0, 0}
static const struct value buffers[] = {{"room", 0x200000000}, {"null", 0}, {"one", 1},
    {"-1", -1}, {"kernel", (long)0xffff888000000000}, {"near-end", 0x200000000 + ROOM - 100},
    {"no-access", 0x200000000 + ROOM}, {"read-only", 0x210000000}, {"to-read-only", 0x210000000 - 50},
    {"nothing", 0x220000000}, END};
static const struct value lengths[] = {{"100", 100}, {"0", 0}, {"1", 1}, {"5000", 5000},
    {"rest", LEN}, {"max-rw", 0x7ffff000}, {"int-max", 0x7fffffff}, {"ssize-max", INT64_MAX},
    {"ssize-min", INT64_MIN}, {"-1", -1}, END};
static const struct value offsets[] = {{"100", 100}, {"0", 0}, {"4095", 4095}, {"last", LEN - 1},
    {"len", LEN}, {"past", LEN + 5000}, {"-1", -1}, {"-2", -2}, {"min", INT64_MIN}, {"max", INT64_MAX},
    {"near-max", INT64_MAX - 5000}, {"limit", (1L << 44) - 1}, END};
static const struct value spans[] = {{"5000", 5000}, {"0", 0}, {"1", 1}, {"len", LEN},
    {"more", LEN + 70000}, {"-1", -1}, {"min", INT64_MIN}, {"max", INT64_MAX}, END};
static const struct value whences[] = {{"set", 0}, {"cur", 1}, {"end", 2}, {"data", 3}, {"hole", 4},
    {"5", 5}, {"-1", -1}, END};
static const struct value modes[] = {{"0", 0}, {"keep", 1}, {"punch", 2}, {"punch-keep", 3},
    {"zero", 0x10}, {"zero-keep", 0x11}, {"collapse-keep", 9}, {"unknown", 0x4000}, {"-1", -1}, END};
static const struct value advices[] = {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}, {"5", 5},
    {"6", 6}, {"-1", -1}, END};
static const struct value small[] = {{"0", 0}, {"1", 1}, {"2", 2}, {"4", 4}, {"7", 7}, {"8", 8},
    {"16", 16}, {"-1", -1}, END};
static const struct value accesses[] = {{"0", 0}, {"1", 1}, {"4", 4}, {"-1", -1}, END};
static const struct value masks[] = {{"all", 0x7ff}, {"-1", -1}, END};
static const struct value locks[] = {{"4", 4}, {"shared", 5}, {"exclusive", 6}, {"unlock", 8},
    {"both", 7}, {"-1", -1}, {"0", 0}, END};
static const struct value targets[] = {{"50", 50}, {"0x7fff", 0x7fff}, {"-1", -1}, {"int-max", INT32_MAX}, END};
static const struct value dup_flags[] = {{"0", 0}, {"cloexec", O_CLOEXEC}, {"append", O_APPEND}, {"-1", -1}, END};
static const struct value commands[] = {{"dupfd", 0}, {"getfd", 1}, {"setfd", 2}, {"getfl", 3}, {"setfl", 4},
    {"getlk", 5}, {"setlk", 6}, {"setlkw", 7}, {"setown", 8}, {"getown", 9}, {"ofd-getlk", 36}, {"ofd-setlk", 37},
    {"getlease", 1025}, {"notify", 1026}, {"dupfd-cloexec", 1030}, {"pipe-size", 1032}, {"seals", 1034},
    {"rw-hint", 1035}, {"500", 500}, {"-1", -1}, END};
static const struct value command_args[] = {{"0", 0}, {"1", 1}, {"40", 40}, {"append", O_APPEND}, {"-1", -1},
    {"room", 0x200000000}, END};
static const struct value lock_commands[] = {{"lock", 1}, {"unlock", 0}, {"try", 2}, {"test", 3}, {"4", 4}, {"-1", -1}, END};
static const struct value requests[] = {{"unread", 0x541b}, {"nonblock", 0x5421}, {"cloexec", 0x5451},
    {"keep", 0x5450}, {"terminal", 0x5401}, {"clone", 0x40049409}, {"clone-range", 0x4020940d},
    {"dedupe", (long)0xc0189436}, {"disk-size", (long)0x80081272}, {"flags", (long)0x80086601}, {"block", 2},
    {"0", 0}, {"-1", -1}, END};
static const struct value request_args[] = {{"room", 0x200000000}, {"0", 0}, {"1", 1}, {"-1", -1}, END};
static const struct value attributes[] = {{"user.one", (long)"user.one"}, {"none", (long)"user.none"}, {"odd", (long)"odd"},
    {"empty", (long)""}, {"null", 0}, {"one", 1}, END};
static const struct value attribute_lens[] = {{"5", 5}, {"0", 0}, {"100", 100}, {"70000", 70000}, {"-1", -1}, END};
static const struct value attribute_flags[] = {{"0", 0}, {"create", 1}, {"replace", 2}, {"3", 3}, {"8", 8}, END};
static const struct value file_modes[] = {{"600", 0600}, {"0", 0}, {"7777", 07777}, {"-1", -1}, END};
static const struct value owners[] = {{"-1", -1}, {"0", 0}, {"1234", 1234}, END};
static struct timespec time_values[5][2] = {{{5, 6}, {7, 8}}, {{0, UTIME_NOW}, {0, UTIME_OMIT}}, {{5, -1}, {7, 8}},
    {{5, 1000000}, {7, 8}}, {{-5, 6}, {7, 8}}};
static const struct value times[] = {{"given", (long)time_values[0]}, {"null", 0}, {"now-omit", (long)time_values[1]},
    {"negative", (long)time_values[2]}, {"million", (long)time_values[3]}, {"before", (long)time_values[4]},
    {"one", 1}, END};
static const struct value paths[] = {{"file", (long)"file"}, {"none", (long)"none"}, {"empty", (long)""}, {"null", 0},
    {"one", 1}, {"folder", (long)"."}, {"below", (long)"file/x"}, {"other", (long)"other"}, END};
static const struct value folders[] = {{"here", AT_FDCWD}, {"-1", -1}, {"file", -100000}, END};
static const struct value at_flags[] = {{"0", 0}, {"no-follow", AT_SYMLINK_NOFOLLOW}, {"empty", AT_EMPTY_PATH},
    {"remove", AT_REMOVEDIR}, {"-1", -1}, END};
static const struct value open_flags[] = {{"reads", O_RDONLY}, {"rw", O_RDWR}, {"writes", O_WRONLY}, {"both", 3},
    {"create", O_RDWR | O_CREAT}, {"excl", O_WRONLY | O_CREAT | O_EXCL}, {"trunc", O_RDWR | O_TRUNC},
    {"append", O_WRONLY | O_APPEND}, {"folder", O_DIRECTORY}, {"no-follow", O_NOFOLLOW}, {"path", O_PATH},
    {"tmpfile", O_TMPFILE | O_RDWR}, {"direct", O_RDONLY | O_DIRECT}, {"trunc-reads", O_TRUNC},
    {"create-folder", O_CREAT | O_DIRECTORY}, {"sync", O_RDWR | O_DSYNC}, {"-1", -1}, END};
static const struct value plain_flags[] = {{"reads", O_RDONLY}, {"rw", O_RDWR}, {"writes", O_WRONLY}, {"append", O_RDWR | O_APPEND}, END};
static const struct value constant[] = {{"room", -1}, END};
static const struct value zero[] = {{"0", 0}, END};
static const struct value rw_flags[] = {{"0", 0}, {"hipri", 1}, {"dsync", 2}, {"append", 16}, {"unknown", 0x40000000}, {"-1", -1}, END};
static const struct value protections[] = {{"rw", 3}, {"none", 0}, {"r", 1}, {"w", 2}, {"rx", 5},
    {"16", 16}, END};
static const struct value map_flags[] = {{"shared", 1}, {"private", 2}, {"0", 0}, {"validate", 3},
    {"anonymous", 0x22}, {"locked", 0x2001}, END};
static const struct value map_offsets[] = {{"0", 0}, {"4096", 4096}, {"1", 1}, {"past", 1 << 20},
    {"-4096", -4096}, {"max", INT64_MAX & ~4095L}, END};

/* Sets of buffers with lengths. */
static struct iovec part_sets[9][1030];
static const struct value parts[] = {{"two", 0}, {"none", 1}, {"-1", 2}, {"1025", 3}, {"1024", 4},
    {"null-0", 5}, {"null-5", 6}, {"too-long", 7}, {"negative", 8}, {"at-null", 9}, {"at-1", 10},
    {"int-max", 11}, {"at-null-0", 12}, {"second-bad", 13}, {"at-kernel", 14}, {"int-min", 15},
    {"at-nothing", 16}, {"second-read-only", 17}, END};

static void set_parts(long which, long *at, long *nr) {
    static const long counts[] = {2, 0, -1, 1025, 1024, 2, 2, 2, 2, 2, 2, INT32_MAX, 0, 2, 2, INT32_MIN, 2, 2};
    static const int sets[] = {0, 0, 0, 1, 1, 2, 3, 4, 5, -1, -2, 1, -1, 6, -3, 0, -4, 7};
    int set = sets[which];
    *nr = counts[which];
    *at = set == -1 ? 0 : set == -2 ? 1 : set == -3 ? (long)0xffff888000000000 : set == -4 ? 0x220000000 : (long)part_sets[set];
}

static void make_parts(void) {
    part_sets[0][0] = (struct iovec){room, 70};
    part_sets[0][1] = (struct iovec){room + 1000, 5000};
    for (int nth = 0; nth < 1030; nth++) part_sets[1][nth] = (struct iovec){room + nth * 9, 3};
    part_sets[2][0] = (struct iovec){NULL, 0};
    part_sets[2][1] = (struct iovec){room, 10};
    part_sets[3][0] = (struct iovec){NULL, 5};
    part_sets[3][1] = (struct iovec){room, 10};
    part_sets[4][0] = (struct iovec){room, 100};
    part_sets[4][1] = (struct iovec){room, INT64_MAX};
    part_sets[5][0] = (struct iovec){room, 100};
    part_sets[5][1] = (struct iovec){room, -1};
    part_sets[6][0] = (struct iovec){room, 100};
    part_sets[6][1] = (struct iovec){NULL, 100};
    part_sets[7][0] = (struct iovec){room, 100};
    part_sets[7][1] = (struct iovec){hole - 50, 100};
}

/* Offsets that a call moves. */
static long at_places[2];
static const struct value ats[] = {{"none", INT64_MIN + 1}, {"0", 0}, {"4096", 4096}, {"last", LEN - 1},
    {"len", LEN}, {"past", LEN + 5000}, {"-1", -1}, {"max", INT64_MAX}, {"bad", INT64_MIN + 2},
    {"nothing", INT64_MIN + 3}, {"read-only", INT64_MIN + 4}, END};

static const struct value *values_of(char letter) {
    static struct value kinds[NR_KINDS + 1], other_kinds[NR_OTHERS + 1];
    for (int kind = 0; kind < NR_KINDS; kind++) kinds[kind] = (struct value){kind_names[kind], kind};
    for (int kind = 0; kind < NR_OTHERS; kind++) other_kinds[kind] = (struct value){other_names[kind], kind};
    switch (letter) {
    case 'D': return kinds;
    case 'E': return other_kinds;
    case 'B': return buffers;
    case 'N': return lengths;
    case 'O': return offsets;
    case 'S': return spans;
    case 'W': return whences;
    case 'M': return modes;
    case 'A': return advices;
    case 'F': return small;
    case 'R': return rw_flags;
    case 'V': return parts;
    case 'P': case 'Q': return ats;
    case 'l': return locks;
    case 's': return accesses;
    case 'n': return masks;
    case 'T': return targets;
    case 'c': return dup_flags;
    case 'C': return commands;
    case 'G': return command_args;
    case 'L': return lock_commands;
    case 'r': return requests;
    case 'g': return request_args;
    case 'a': return attributes;
    case 'b': return attribute_lens;
    case 'd': return attribute_flags;
    case 'm': return file_modes;
    case 'u': return owners;
    case 't': return times;
    case 'H': case 'K': return paths;
    case 'h': return folders;
    case 'e': return at_flags;
    case 'x': return open_flags;
    case 'y': return plain_flags;
    case 'k': return constant;
    case 'z': return zero;
    case 'p': return protections;
    case 'f': return map_flags;
    case 'o': return map_offsets;
    }
    fail("no such letter");
    return NULL;
}

static int nr_values(const struct value *values) {
    int nr = 0;
    while (values[nr].name) nr++;
    return nr;
}

/* ---- rows ---- */

static sigjmp_buf out;
static volatile sig_atomic_t nr_file_signals;

static void on_signal(int signal) {
    if (signal == SIGXFSZ || signal == SIGPIPE) {
        nr_file_signals++;
        return;
    }
    siglongjmp(out, signal);
}

typedef long function(long, long, long, long, long, long, long);

/* Inodes and times differ between runs. Kind and length do not. */
static void keep_of_stat(const char *name) {
    int is_statx = strcmp(name, "statx") == 0;
    char kept[16] = "";
    memcpy(kept, room + (is_statx ? 28 : 24), is_statx ? 2 : 4);
    memcpy(kept + 8, room + (is_statx ? 40 : 48), 8);
    /* A folder's length depends on the file system. */
    if ((*(unsigned *)kept & S_IFMT) != S_IFREG) memset(kept + 8, 0, 8);
    memset(room, '.', ROOM);
    memcpy(room, kept, sizeof kept);
}

/* One call. `chosen` has the index of a value per letter. */
static void row(const char *name, const char *letters, const int *chosen, const char *world) {
    function *call = dlsym(RTLD_DEFAULT, name);
    if (!call) fail(name);
    refresh();
    memset(room, '.', ROOM);
    memset(hole - 4096, '.', 4096);
    int is_descriptor = letters[0] == 'n';
    is_restorable = letters[0] >= 'a' && !is_descriptor && strcmp(name, "flock") != 0;
    long arguments[8] = {0};
    int nr = 0, fd = -1, other = -1;
    char text[300] = "";
    for (int nth = 0; letters[2 + nth]; nth++) {
        char letter = letters[2 + nth];
        struct value value = values_of(letter)[chosen[nth]];
        sprintf(text + strlen(text), "%s%s", nth ? ", " : "", value.name);
        if (letter == 'D') {
            fd = files[value.is];
            arguments[nr++] = fd;
        } else if (letter == 'E') {
            other = others[value.is] == -2 ? fd : others[value.is];
            arguments[nr++] = other;
        } else if (letter == 'V') {
            set_parts(value.is, &arguments[nr], &arguments[nr + 1]);
            nr += 2;
        } else if (letter == 'P' || letter == 'Q') {
            long *place = &at_places[letter == 'Q'];
            *place = value.is;
            arguments[nr++] = value.is == INT64_MIN + 1 ? 0 : value.is == INT64_MIN + 2 ? 8
                : value.is == INT64_MIN + 3 ? 0x220000000 : value.is == INT64_MIN + 4 ? (long)hole : (long)place;
        } else {
            arguments[nr++] = value.is == -100000 ? files[RW] : value.is;
        }
    }
    nr_stand_ins += is_stand_in(fd);
    long at_before = fd >= 0 ? lseek(fd, 0, SEEK_CUR) : -1, other_before = other >= 0 ? lseek(other, 0, SEEK_CUR) : -1;
    nr_rows++;
    nr_file_signals = 0;
    int signal = sigsetjmp(out, 1);
    long result = -1;
    if (signal == 0) {
        errno = 0;
        result = call(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], 0);
    }
    int why = errno;
    if (strstr(name, "stat")) keep_of_stat(name);
    if (letters[0] == 'i' || letters[0] == 'I' || is_descriptor) result = (int)result;
    printf("%s%s(%s) = ", world, name, text);
    if (signal) {
        printf("SIGNAL %d |", signal);
    } else if (letters[0] == 'p') {
        printf("%s %d |", result == -1 ? "-1" : "there", result == -1 ? why : 0);
        if (result != -1) {
            if (arguments[2] & 1 && arguments[5] < LEN) printf(" %x", *(unsigned char *)result);
            munmap((void *)result, arguments[1]);
        }
    } else {
        printf("%ld %d |", result, result == -1 ? why : 0);
    }
    if (is_descriptor && result >= 0) {
        printf(" flags %x", fcntl(result, F_GETFL));
        printf(" reads %ld", (long)read(result, room, 50));
        printf(" writes %ld", (long)write(result, "written", 7));
    }
    off_t len, other_len;
    uint64_t all = state_of(looks[0], &len), other_all = state_of(looks[1], &other_len);
    long at = fd >= 0 ? lseek(fd, 0, SEEK_CUR) : -1, other_at = other >= 0 ? lseek(other, 0, SEEK_CUR) : -1;
    printf(" at %ld %ld, len %ld %ld, bytes %lx %lx, room %lx, places %ld %ld, signals %d\n", at, other_at, len,
           other_len, (long)all, (long)other_all, (long)sum(0, room, ROOM), at_places[0], at_places[1],
           (int)nr_file_signals);
    /* Restore a row's changes if the files are still managed. */
    is_fresh = !signal && result == -1 || is_restorable;
    if (is_fresh && (is_native || is_stand_in(looks[0]) && is_stand_in(looks[1]))) {
        for (char byte[4096]; read(pipes[2], byte, sizeof byte) > 0;) continue;
        restore(looks[0]);
        restore(looks[1]);
        if (at != at_before) lseek(fd, at_before, SEEK_SET);
        if (other >= 0 && other_at != other_before) lseek(other, other_before, SEEK_SET);
    } else {
        is_fresh = 0;
    }
}

static uint64_t seed, first_seed = 7;
static long nr_random;

static unsigned next_random(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

/* All combinations or a sample, and each value once beside ordinary ones. */
static void rows_of(const char *name, const char *letters, int is_alias, const char *world) {
    int nr_letters = strlen(letters) - 2, counts[8], chosen[8] = {0};
    long nr_all = 1;
    for (int nth = 0; nth < nr_letters; nth++) {
        counts[nth] = nr_values(values_of(letters[2 + nth]));
        nr_all *= counts[nth];
    }
    row(name, letters, chosen, world);
    for (int nth = 0; nth < nr_letters; nth++) {
        for (chosen[nth] = 1; chosen[nth] < counts[nth]; chosen[nth]++) row(name, letters, chosen, world);
        chosen[nth] = 0;
    }
    if (is_alias) return;
    seed = first_seed;
    /* Rows with fresh files take longer. */
    long nr_sampled = nr_random ? nr_random : letters[0] == 'I' || letters[0] == 'n' ? 30 : 120;
    for (long nr = 0; nr < (nr_all <= nr_sampled ? nr_all : nr_sampled); nr++) {
        long rest = nr;
        for (int nth = 0; nth < nr_letters; nth++) {
            chosen[nth] = nr_all <= nr_sampled ? rest % counts[nth] : next_random() % counts[nth];
            rest /= counts[nth];
        }
        row(name, letters, chosen, world);
    }
}

/* Names of one function, its result type, and its arguments. */
static const struct { const char *names, *letters; } plans[] = {
    {"read __read", "l:DBN"},
    {"__read_chk", "l:DBNk"},
    {"pread64 pread __pread64", "l:DBNO"},
    {"__pread_chk __pread64_chk", "l:DBNOk"},
    {"readv", "l:DV"},
    {"preadv64 preadv", "l:DVO"},
    {"preadv64v2 preadv2", "l:DVOR"},
    {"write __write", "l:DBN"},
    {"pwrite64 pwrite __pwrite64", "l:DBNO"},
    {"writev", "l:DV"},
    {"pwritev64 pwritev", "l:DVO"},
    {"pwritev64v2 pwritev2", "l:DVOR"},
    {"lseek64 lseek __lseek", "l:DOW"},
    {"sendfile64 sendfile", "l:DEPN"},
    {"copy_file_range", "l:DPEQNz"},
    {"ftruncate64 ftruncate", "i:DS"},
    {"fallocate64 fallocate", "i:DMSS"},
    {"posix_fallocate64 posix_fallocate", "i:DSS"},
    {"posix_fadvise64 posix_fadvise", "i:DOSA"},
    {"readahead", "l:DON"},
    {"sync_file_range", "i:DOSF"},
    {"fsync", "i:D"},
    {"fdatasync", "i:D"},
    {"syncfs", "i:D"},
    {"isatty", "i:D"},
    {"flock", "i:Dl"},
    {"mmap64 mmap", "p:zNpfDo"},
    {"recv", "l:DBNz"},
    {"__recv_chk", "l:DBNkz"},
    {"recvfrom", "l:DBNzzz"},
    {"__recvfrom_chk", "l:DBNkzzz"},
    {"send", "l:DBNz"},
    {"sendto", "l:DBNzzz"},
    {"close __close", "I:D"},
    {"dup", "n:D"},
    {"dup2 __dup2", "n:DT"},
    {"dup3", "n:DTc"},
    {"fcntl64 fcntl __fcntl", "I:DCG"},
    {"lockf64 lockf", "I:DLS"},
    {"ioctl", "I:Drg"},
    {"fgetxattr", "l:DaBb"},
    {"fsetxattr", "I:DaBbd"},
    {"flistxattr", "l:DBb"},
    {"fremovexattr", "i:Da"},
    {"fchmod", "I:Dm"},
    {"fchown", "I:Duu"},
    {"futimens", "I:Dt"},
    {"futimes", "I:Dt"},
    {"utimensat", "I:hHte"},
    {"futimesat", "I:hHt"},
    {"utimes", "I:Ht"},
    {"utime", "I:Hz"},
    {"truncate64 truncate", "I:HS"},
    {"open64 open __open __open64", "n:Hxm"},
    {"__open_2 __open64_2", "n:Hy"},
    {"openat64 openat", "n:hHxm"},
    {"__openat_2 __openat64_2", "n:hHy"},
    {"creat64 creat", "n:Hm"},
    {"access", "i:Hs"},
    {"faccessat", "i:hHse"},
    {"stat stat64 lstat lstat64", "i:HB"},
    {"fstatat fstatat64", "i:hHBe"},
    {"statx", "i:hHenB"},
    {"readlink", "l:HBb"},
    {"readlinkat", "l:hHBb"},
    {"unlink", "I:H"},
    {"unlinkat", "I:hHe"},
    {"rename", "I:HK"},
    {"renameat", "I:hHhK"},
    {"renameat2", "I:hHhKs"},
    {"link", "I:HK"},
    {"linkat", "I:hHhKe"},
    {"symlink", "I:HK"},
    {"symlinkat", "I:HhK"},
    {"mkdir", "I:Hm"},
    {"mkdirat", "I:hHm"},
    {"rmdir", "I:H"},
    {"chdir", "I:H"},
    {"chmod", "I:Hm"},
    {"chown lchown", "I:Huu"},
    {"fchownat", "I:hHuue"},
    {"connect bind", "I:DBb"},
    {"setsockopt", "I:DssBb"},
};
enum { NR_PLANS = sizeof plans / sizeof *plans };

static int has_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += len) {
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len])) return 1;
    }
    return 0;
}

/* Runs the plans of `only`, or all plans without a limit. */
static void run_plans(const char *world, const char *only) {
    for (int nth = 0; nth < NR_PLANS; nth++) {
        char names[100];
        strcpy(names, plans[nth].names);
        int is_alias = 0;
        for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
            int is_copy = strchr(plans[nth].letters, 'E') != NULL;
            if (only ? has_word(only, name) : !is_copy) {
                rows_of(name, plans[nth].letters, is_alias || world[0], world);
            }
            is_alias = 1;
        }
    }
}


/* ---- calls that need more than letters ---- */

/* Returns the function of that name with the type of `like`. */
#define FIND(name, like) ((__typeof__(&like))find(name))

static void *find(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) fail(name);
    return found;
}

/* Returns true if this C library has the function. */
static int is_there(const char *name) {
    int is = dlsym(dlopen("libc.so.6", RTLD_NOW), name) != NULL;
    if (!is) printf("%s() = absent\n", name);
    return is;
}

static void said(const char *name, const char *what, long result, int why) {
    nr_rows++;
    printf("%s(%s) = %ld %d\n", name, what, result, result < 0 ? why : 0);
}

/* Prints a call with its result and errno. */
#define SAY(name, what, call) do { \
        int signal_ = sigsetjmp(out, 1); \
        errno = 0; \
        long result_ = signal_ ? -1000 - signal_ : (long)(call); \
        said(name, what, result_, errno); \
    } while (0)

static void show(const char *name) {
    off_t len, other_len;
    uint64_t all = state_of(looks[0], &len), other = state_of(looks[1], &other_len);
    printf("%s() = %ld %ld, %lx %lx, %lx\n", name, (long)len, (long)other_len, (long)all, (long)other, (long)sum(0, room, ROOM));
}

static void begin(void) {
    fflush(stdout);
    is_fresh = 0;
    refresh();
    memset(room, '.', ROOM);
}

/* Runs `act` in a child and returns its exit. */
static int in_child(void (*act)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        act();
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void streams(const char *open_name, const char *reopen_name, const char *on_name) {
    __typeof__(&fopen) open_ = find(open_name);
    const char *modes[] = {"r", "r+", "w", "a", "a+", "rx", "wx", "", "z", "re", "rm"};
    for (int nth = 0; nth < 11; nth++) {
        begin();
        FILE *stream = open_("other", modes[nth]);
        SAY(open_name, modes[nth], stream ? 1 : -1);
        if (!stream) continue;
        SAY("fread", modes[nth], FIND("fread", fread)(room, 3, 5, stream));
        SAY("fread_unlocked", modes[nth], FIND("fread_unlocked", fread)(room, 0, 5, stream));
        long (*checked)(void *, size_t, size_t, size_t, FILE *) = find("__fread_chk");
        SAY("__fread_chk", modes[nth], checked(room, ROOM, 1, 7, stream));
        checked = find("__fread_unlocked_chk");
        SAY("__fread_unlocked_chk", modes[nth], checked(room, ROOM, 1, 7, stream));
        SAY("fseek", modes[nth], fseek(stream, 4000, SEEK_SET));
        SAY("fwrite", modes[nth], FIND("fwrite", fwrite)("written", 2, 3, stream));
        SAY("fwrite_unlocked", modes[nth], FIND("fwrite_unlocked", fwrite)("more", 1, 0, stream));
        SAY("ftell", modes[nth], ftell(stream));
        SAY("fileno", modes[nth], fileno(stream));
        show("fflush");
        stream = FIND(reopen_name, freopen)("file", "r+", stream);
        SAY(reopen_name, modes[nth], stream ? 1 : -1);
        SAY("fputs", modes[nth], fputs("reopened", stream) >= 0);
        SAY("fclose", modes[nth], FIND("fclose", fclose)(stream));
        show("fclose");
    }
    SAY(open_name, "none", open_("none/none", "r") ? 1 : -1);
    for (int nth = 0; nth < 5; nth++) {
        for (int kind = RW; kind <= SOCKET; kind++) {
            begin();
            FILE *stream = FIND(on_name, fdopen)(files[kind], modes[nth]);
            SAY(on_name, modes[nth], stream ? 1 : -1);
            if (!stream) continue;
            SAY("fgetc", kind_names[kind], fgetc(stream));
            SAY("fputc", kind_names[kind], fputc('x', stream));
            SAY("fflush", kind_names[kind], fflush(stream));
            SAY("ftell", kind_names[kind], ftell(stream));
        }
    }
}

static void temporaries(void) {
    const char *names[] = {"mkstemp", "mkstemp64", "mkstemps", "mkstemps64", "mkostemp", "mkostemp64", "mkostemps", "mkostemps64"};
    const char *templates[] = {"t-XXXXXX", "t-XXXXXX.c", "t-XXXXX", "", "none/t-XXXXXX"};
    for (int nth = 0; nth < 8; nth++) {
        for (int which = 0; which < 10; which++) {
            begin();
            char template[30];
            strcpy(template, templates[which % 5]);
            long (*make_)(char *, long, long) = find(names[nth]);
            int with_suffix = strchr(names[nth] + 5, 's') != NULL, fd;
            long flags = which > 5 ? O_APPEND : 0;
            SAY(names[nth], templates[which % 5], fd = with_suffix ? make_(template, which < 5 ? 2 : 0, flags) : make_(template, flags, 0));
            if (fd < 0) continue;
            SAY("fcntl", "getfl", fcntl(fd, F_GETFL));
            SAY("write", "made", write(fd, room, 5000));
            SAY("pread", "made", pread(fd, room, 100, 4950));
            unlink(template);
        }
    }
    const char *others_[] = {"tmpfile", "tmpfile64"};
    for (int nth = 0; nth < 2; nth++) {
        FILE *stream = FIND(others_[nth], tmpfile)();
        SAY(others_[nth], "", fputs("text", stream) >= 0);
        SAY("rewind", "", (rewind(stream), fgetc(stream)));
    }
}

static int print_to(const char *name, int fd, const char *format, ...) {
    va_list all;
    va_start(all, format);
    int nr = name[2] == '_' || name[3] == '_' ? ((int (*)(int, int, const char *, va_list))find(name))(fd, 1, format, all)
        : ((int (*)(int, const char *, va_list))find(name))(fd, format, all);
    va_end(all);
    return nr;
}

static int print_wide(const char *name, FILE *stream, const wchar_t *format, ...) {
    va_list all;
    va_start(all, format);
    int nr = name[0] == '_' ? ((int (*)(FILE *, int, const wchar_t *, va_list))find(name))(stream, 1, format, all)
        : ((int (*)(FILE *, const wchar_t *, va_list))find(name))(stream, format, all);
    va_end(all);
    return nr;
}

static int scan_wide(const char *name, FILE *stream, const wchar_t *format, ...) {
    va_list all;
    va_start(all, format);
    int nr = ((int (*)(FILE *, const wchar_t *, va_list))find(name))(stream, format, all);
    va_end(all);
    return nr;
}

static void prints(void) {
    for (int kind = RW; kind <= SOCKET; kind++) {
        begin();
        SAY("dprintf", kind_names[kind], FIND("dprintf", dprintf)(files[kind], "%d %s", 5, "x"));
        SAY("__dprintf_chk", kind_names[kind], ((int (*)(int, int, const char *, ...))find("__dprintf_chk"))(files[kind], 1, "%d", 5));
        SAY("vdprintf", kind_names[kind], print_to("vdprintf", files[kind], "%ld %.1f", 5L, 2.5));
        SAY("__vdprintf_chk", kind_names[kind], ((int (*)(int, int, const char *, va_list))find("__vdprintf_chk"), print_to("vdprintf", files[kind], "%d", 6)));
        void *here[1] = {NULL};
        const char *names[] = {"backtrace_symbols_fd", "__backtrace_symbols_fd"};
        for (int nth = 0; nth < 2; nth++) SAY(names[nth], kind_names[kind], (((void (*)(void **, int, int))find(names[nth]))(here, 1, files[kind]), 0));
        show("dprintf");
    }
}

static FILE *wide_stream(void) {
    begin();
    return fopen("other", "r+");
}

static void wide(void) {
    const char *reads[] = {"fgetwc", "getwc", "fgetwc_unlocked", "getwc_unlocked"};
    for (int nth = 0; nth < 4; nth++) SAY(reads[nth], "", FIND(reads[nth], fgetwc)(wide_stream()));
    const char *writes[] = {"fputwc", "putwc", "fputwc_unlocked", "putwc_unlocked"};
    for (int nth = 0; nth < 4; nth++) {
        FILE *stream = wide_stream();
        SAY(writes[nth], "", FIND(writes[nth], fputwc)(L'w', stream));
        SAY("fclose", "", fclose(stream));
        show(writes[nth]);
    }
    const char *lines[] = {"fgetws", "fgetws_unlocked"}, *checked[] = {"__fgetws_chk", "__fgetws_unlocked_chk"};
    wchar_t text[20];
    for (int nth = 0; nth < 2; nth++) {
        SAY(lines[nth], "", FIND(lines[nth], fgetws)(text, 20, wide_stream()) ? text[18] : -1);
        SAY(checked[nth], "", ((wchar_t * (*)(wchar_t *, size_t, int, FILE *)) find(checked[nth]))(text, 20, 20, wide_stream()) ? text[18] : -1);
    }
    const char *puts_[] = {"fputws", "fputws_unlocked"};
    for (int nth = 0; nth < 2; nth++) {
        FILE *stream = wide_stream();
        SAY(puts_[nth], "", FIND(puts_[nth], fputws)(L"wide", stream) >= 0);
        SAY("fclose", "", fclose(stream));
        show(puts_[nth]);
    }
    SAY("ungetwc", "", FIND("ungetwc", ungetwc)(L'u', wide_stream()));
    SAY("fwide", "", FIND("fwide", fwide)(wide_stream(), 1) > 0);
    const char *formats[] = {"vfwprintf", "__vfwprintf_chk"};
    for (int nth = 0; nth < 2; nth++) {
        FILE *stream = wide_stream();
        SAY(formats[nth], "", print_wide(formats[nth], stream, L"%d %ls", 5, L"wide"));
        SAY("fclose", "", fclose(stream));
        show(formats[nth]);
    }
    FILE *stream = wide_stream();
    SAY("fwprintf", "", FIND("fwprintf", fwprintf)(stream, L"%d %.1f", 5, 2.5));
    SAY("__fwprintf_chk", "", ((int (*)(FILE *, int, const wchar_t *, ...))find("__fwprintf_chk"))(stream, 1, L"%d", 5));
    SAY("fclose", "", fclose(stream));
    show("fwprintf");
    const char *scans[] = {"fwscanf", "__isoc99_fwscanf", "__isoc23_fwscanf"};
    for (int nth = 0; nth < 3; nth++) if (is_there(scans[nth])) SAY(scans[nth], "", FIND(scans[nth], fwscanf)(wide_stream(), L"%9ls", text));
    const char *vscans[] = {"vfwscanf", "__isoc99_vfwscanf", "__isoc23_vfwscanf"};
    for (int nth = 0; nth < 3; nth++) if (is_there(vscans[nth])) SAY(vscans[nth], "", scan_wide(vscans[nth], wide_stream(), L"%9ls", text));
}

static void polls(void) {
    struct timespec none = {0, 0};
    for (int kind = RW; kind <= SOCKET; kind++) {
        if (kind == PATH) continue;
        struct pollfd one = {.events = POLLIN | POLLOUT};
        const char *names[] = {"poll", "ppoll", "__poll_chk", "__ppoll_chk"};
        for (int nth = 0; nth < 4; nth++) {
            begin();
            one.fd = files[kind];
            one.revents = 0;
            long (*poll_)(void *, long, void *, void *, long) = find(names[nth]);
            long time = nth % 2 ? (long)&none : 0;
            SAY(names[nth], kind_names[kind], (int)poll_(&one, 1, (void *)time, nth == 2 ? (void *)sizeof one : NULL, sizeof one));
            printf("revents() = %x\n", one.revents);
        }
        for (int nth = 0; nth < 2; nth++) {
            begin();
            if (files[kind] < 0) continue;
            fd_set reads, writes;
            FD_ZERO(&reads);
            FD_SET(files[kind], &reads);
            writes = reads;
            struct timeval zero_ = {0, 0};
            if (nth == 0) SAY("select", kind_names[kind], FIND("select", select)(64, &reads, &writes, NULL, &zero_));
            else SAY("pselect", kind_names[kind], FIND("pselect", pselect)(64, &reads, &writes, NULL, &none, NULL));
        }
        begin();
        struct epoll_event event = {.events = EPOLLIN};
        int queue = epoll_create1(0);
        SAY("epoll_ctl", kind_names[kind], FIND("epoll_ctl", epoll_ctl)(queue, EPOLL_CTL_ADD, files[kind], &event));
        SAY("epoll_ctl", "bad", FIND("epoll_ctl", epoll_ctl)(queue, 99, files[kind], NULL));
    }
    SAY("poll", "null", poll(NULL, 1, 0));
    SAY("poll", "one", poll((void *)1, 1, 0));
    SAY("poll", "many", poll(NULL, -1, 0));
    SAY("select", "-1", select(-1, NULL, NULL, NULL, NULL));
    SAY("select", "one", select(10, (void *)1, NULL, NULL, NULL));
}

static long finished(struct aiocb *block) {
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS) aio_suspend(list, 1, NULL);
    return aio_error(block) ? -aio_error(block) : aio_return(block);
}

static void asynchronous(void) {
    const char *names[] = {"aio_read", "aio_write", "aio_read64", "aio_write64"};
    for (int kind = RW; kind <= FOLDER; kind++) {
        for (int nth = 0; nth < 4; nth++) {
            begin();
            struct aiocb block = {.aio_fildes = files[kind], .aio_buf = room, .aio_nbytes = 5000, .aio_offset = 300};
            int (*act)(struct aiocb *) = find(names[nth]);
            SAY(names[nth], kind_names[kind], act(&block));
            SAY("aio_return", kind_names[kind], finished(&block));
            show(names[nth]);
        }
        const char *syncs[] = {"aio_fsync", "aio_fsync64"}, *lists[] = {"lio_listio", "lio_listio64"};
        for (int nth = 0; nth < 2; nth++) {
            begin();
            struct aiocb block = {.aio_fildes = files[kind], .aio_buf = room, .aio_nbytes = 50, .aio_lio_opcode = LIO_WRITE}, *list[] = {&block};
            SAY(lists[nth], kind_names[kind], ((int (*)(int, struct aiocb **, int, void *))find(lists[nth]))(LIO_WAIT, list, 1, NULL));
            struct aiocb sync = {.aio_fildes = files[kind]};
            int (*act)(int, struct aiocb *) = find(syncs[nth]);
            SAY(syncs[nth], kind_names[kind], act(O_SYNC, &sync));
            SAY("aio_return", kind_names[kind], finished(&sync));
        }
    }
}

static void sockets(void) {
    for (int kind = RW; kind <= PATH; kind++) {
        begin();
        struct iovec part = {room, 10};
        struct mmsghdr many = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
        SAY("sendmsg", kind_names[kind], FIND("sendmsg", sendmsg)(files[kind], &many.msg_hdr, 0));
        begin();
        SAY("recvmsg", kind_names[kind], FIND("recvmsg", recvmsg)(files[kind], &many.msg_hdr, MSG_DONTWAIT));
        SAY("sendmmsg", kind_names[kind], FIND("sendmmsg", sendmmsg)(files[kind], &many, 1, 0));
    }
    begin();
    SAY("sendmsg", "null", sendmsg(files[SOCKET], NULL, 0));
    SAY("sendmsg", "one", sendmsg(files[SOCKET], (void *)1, 0));
    SAY("recvmsg", "null", recvmsg(files[SOCKET], NULL, 0));
    SAY("recvmsg", "one", recvmsg(files[SOCKET], (void *)1, 0));
}

/* Mappings of two pages, with the second page protected, and so on. */
static void mappings(void) {
    for (int kind = RW; kind <= APPENDS; kind++) {
        for (int is_shared = 0; is_shared < 2; is_shared++) {
            begin();
            int how = is_shared ? MAP_SHARED : MAP_PRIVATE;
            int protection = kind == RW || kind == APPENDS || !is_shared ? PROT_READ | PROT_WRITE : PROT_READ;
            char *at = mmap(NULL, 5 * 4096, protection, how, files[kind], 4096);
            SAY("mmap", kind_names[kind], at == MAP_FAILED ? -1 : at[4095]);
            if (at == MAP_FAILED) continue;
            if (protection & PROT_WRITE) memcpy(at + 4090, "stored here", 11);
            SAY("msync", "sync", FIND("msync", msync)(at, 8192, MS_SYNC));
            SAY("msync", "both", msync(at, 8192, MS_SYNC | MS_ASYNC));
            SAY("msync", "odd", msync(at + 1, 8192, MS_SYNC));
            show("msync");
            SAY("mlock", "", FIND("mlock", mlock)(at, 4096));
            SAY("mlock2", "", FIND("mlock2", mlock2)(at, 4096, 0));
            SAY("mlock2", "bad", mlock2(at, 4096, 8));
            SAY("munlock", "", FIND("munlock", munlock)(at, 4096));
            SAY("madvise", "will-need", FIND("madvise", madvise)(at, 8192, MADV_WILLNEED));
            SAY("madvise", "dont-need", madvise(at, 8192, MADV_DONTNEED));
            SAY("madvise", "bad", madvise(at, 8192, 999));
            SAY("madvise", "odd", madvise(at + 1, 8192, MADV_WILLNEED));
            SAY("posix_madvise", "", FIND("posix_madvise", posix_madvise)(at, 8192, POSIX_MADV_RANDOM));
            SAY("posix_madvise", "bad", posix_madvise(at, 8192, 999));
            printf("bytes() = %.12s\n", at + 4085);
            SAY("mprotect", "none", FIND("mprotect", mprotect)(at + 4096, 4096, PROT_NONE));
            SAY("load", "none", at[4096]);
            SAY("mprotect", "r", mprotect(at + 4096, 4096, PROT_READ));
            SAY("load", "r", at[4096]);
            SAY("store", "r", at[4096] = 1);
            SAY("mprotect", "odd", mprotect(at + 1, 4096, PROT_READ));
            SAY("mprotect", "huge", mprotect(at, SIZE_MAX, PROT_READ));
            char *moved = FIND("mremap", mremap)(at + 8192, 8192, 3 * 4096, MREMAP_MAYMOVE);
            SAY("mremap", "moved", moved == MAP_FAILED ? -1 : moved[4096]);
            SAY("mremap", "zero", mremap(at, 4096, 0, 0) == MAP_FAILED ? -1 : 1);
            SAY("mremap", "odd", mremap(at + 1, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 1);
            SAY("mremap", "fixed", mremap(at, 8192, 4096, MREMAP_FIXED, at + (1 << 24)) == MAP_FAILED ? -1 : 1);
            SAY("load", "fixed", *(volatile char *)(at + 4096));
            munmap(at, 4096);
            SAY("mremap", "hole", mremap(at, 8192, 4096, 0) == MAP_FAILED ? -1 : 1);
            SAY("mremap", "hole moved", mremap(at, 8192, 3 * 4096, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 1);
            SAY("load", "behind a hole", *(volatile char *)(at + 4096));
            SAY("munmap", "odd", FIND("munmap", munmap)(at + 1, 4096));
            SAY("munmap", "zero", munmap(at, 0));
            SAY("munmap", "huge", munmap(at, SIZE_MAX));
            SAY("munmap", "", munmap(at, 8192));
            SAY("load", "unmapped", *(volatile char *)at);
        }
    }
    begin();
    SAY("mlockall", "0", FIND("mlockall", mlockall)(0));
    SAY("mlockall", "99", mlockall(99));
    SAY("munlockall", "", FIND("munlockall", munlockall)());
}

static void signals_(void) {
    struct sigaction action;
    int numbers[] = {SIGUSR1, SIGSEGV, SIGBUS, SIGKILL, 0, -1, 65, 64};
    for (int nth = 0; nth < 8; nth++) {
        struct sigaction before;
        int is_known = sigaction(numbers[nth], NULL, &before) == 0;
        SAY("sigaction", "ask", FIND("sigaction", sigaction)(numbers[nth], NULL, &action));
        SAY("signal", "ignore", (long)FIND("signal", signal)(numbers[nth], SIG_IGN) == -1 ? -1 : 1);
        SAY("signal", "default", (long)signal(numbers[nth], SIG_DFL) == -1 ? -1 : 1);
        if (is_known && numbers[nth] != SIGKILL) sigaction(numbers[nth], &before, NULL);
    }
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGSEGV);
    for (int how = -1; how < 4; how++) {
        SAY("sigprocmask", "", FIND("sigprocmask", sigprocmask)(how, &set, &old));
        SAY("pthread_sigmask", "", FIND("pthread_sigmask", pthread_sigmask)(how, &set, NULL));
        SAY("sigismember", "", sigprocmask(0, NULL, &old) == 0 && sigismember(&old, SIGUSR2));
    }
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
}

static void leave(void) { ((void (*)(int))find("_Exit"))(5); }
static void leave_too(void) { ((void (*)(int))find("_exit"))(6); }

static void waits(void) {
    const char *names[] = {"wait", "__wait", "waitpid", "__waitpid", "wait3", "wait4", "waitid"};
    for (int nth = 0; nth < 8; nth++) {
        int status = 0;
        for (int turn = 0; turn < 2; turn++) {
            pid_t child = turn == 0 ? fork() : 1;
            if (child == 0) _exit(nth);
            siginfo_t info;
            long result;
            errno = 0;
            switch (nth) {
            case 0: case 1: result = ((pid_t(*)(int *))find(names[nth]))(&status); break;
            case 2: case 3: result = ((pid_t(*)(pid_t, int *, int))find(names[nth]))(-1, &status, 0); break;
            case 4: result = ((pid_t(*)(int *, int, void *))find("wait3"))(NULL, 0, NULL); break;
            case 5: result = ((pid_t(*)(pid_t, int *, int, void *))find("wait4"))(child, &status, 0, NULL); break;
            case 6: result = ((int (*)(int, pid_t, siginfo_t *, int))find("waitid"))(P_ALL, 0, &info, WEXITED); break;
            default: result = waitpid(child, (int *)1, 0);
            }
            said(nth < 7 ? names[nth] : "waitpid", turn ? "none" : "child", result > 0 ? 1 : result, errno);
            printf("status() = %x\n", status);
            while (waitpid(-1, NULL, 0) > 0) continue;
        }
    }
    SAY("waitpid", "bad", waitpid(-1, NULL, 0x8000));
    SAY("_Exit", "", in_child(leave));
    SAY("_exit", "", in_child(leave_too));
    const char *forks[] = {"vfork", "__vfork"};
    for (int nth = 0; nth < 2; nth++) {
        fflush(stdout);
        pid_t child = ((pid_t(*)(void))find(forks[nth]))();
        if (child == 0) _exit(3);
        int status;
        said(forks[nth], "", waitpid(child, &status, 0) == child ? status : -1, errno);
    }
}

/* Sets and gets limits by all names, in a child. */
static void set_limits(void) {
    struct rlimit limit, old;
    const char *gets[] = {"getrlimit", "getrlimit64"}, *sets[] = {"setrlimit", "setrlimit64"}, *both[] = {"prlimit", "prlimit64"};
    long values[][2] = {{300, 400}, {400, 300}, {200, 400}, {400, 400}, {100, 500}, {64, 64}, {1 << 30, 1 << 30}, {40, 60}, {-1, -1}};
    int resources[] = {RLIMIT_NOFILE, RLIMIT_CORE};
    for (int nth = 0; nth < 36; nth++) {
        int resource = resources[nth / 18];
        long *value = values[nth % 9];
        limit = (struct rlimit){value[0], value[1]};
        int name = nth % 2;
        SAY(sets[name], "", FIND(sets[name], setrlimit)(resource, &limit));
        SAY(gets[name], "", FIND(gets[name], getrlimit)(resource, &limit));
        SAY(both[name], "", FIND(both[name], prlimit)(0, resource, nth % 3 ? NULL : &limit, &old));
        printf("limits() = %ld %ld %ld %ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max, (long)old.rlim_cur, (long)old.rlim_max, sysconf(_SC_OPEN_MAX));
        SAY("open", "limited", open("file", O_RDWR) < 0);
        SAY("dup2", "limited", dup2(1, 62));
    }
    SAY("getrlimit", "null", getrlimit(RLIMIT_NOFILE, NULL));
    SAY("setrlimit", "null", setrlimit(RLIMIT_NOFILE, NULL));
    SAY("setrlimit", "one", setrlimit(RLIMIT_NOFILE, (void *)1));
    SAY("getrlimit", "99", getrlimit(99, &limit));
    SAY("prlimit", "null", prlimit(0, RLIMIT_NOFILE, NULL, NULL));
    SAY("prlimit", "one", prlimit(getpid(), RLIMIT_NOFILE, NULL, (void *)1));
    SAY("prlimit", "parent", prlimit(getppid(), RLIMIT_NOFILE, NULL, &old));
    SAY("prlimit", "none", prlimit(-5, RLIMIT_NOFILE, NULL, &old));
    execl("/bin/sh", "sh", "-c", "exit $(ulimit -Hn)", NULL);
}

static void limits(void) {
    begin();
    SAY("prctl", "get-seccomp", FIND("prctl", prctl)(PR_GET_SECCOMP));
    SAY("prctl", "seccomp 0", prctl(PR_SET_SECCOMP, 0, NULL));
    SAY("prctl", "seccomp null", prctl(PR_SET_SECCOMP, 2, NULL));
    SAY("prctl", "seccomp one", prctl(PR_SET_SECCOMP, 2, 1));
    SAY("prctl", "seccomp 9", prctl(PR_SET_SECCOMP, 9, NULL));
    SAY("prctl", "name", prctl(PR_GET_NAME, room));
    SAY("prctl", "-1", prctl(-1));
    SAY("syscall", "seccomp null", syscall(SYS_seccomp, 1, 0, NULL));
    SAY("syscall", "seccomp 99", syscall(SYS_seccomp, 99, 0, NULL));
    SAY("pwrite64", "unfiltered", pwrite(files[RW], "written", 7, 100));
    show("prctl");
    SAY("setrlimit", "child", in_child(set_limits));
}

static const char *exec_name, *exec_path;

static void execute(void) {
    char *const arguments[] = {"true", NULL}, *const *environment = environ;
    void *call = find(exec_name);
    int is_list = exec_name[4] == 'l', result;
    if (strcmp(exec_name, "fexecve") == 0) {
        result = ((int (*)(int, char *const *, char *const *))call)(open(exec_path, O_RDONLY), arguments, environment);
    } else if (strcmp(exec_name, "execveat") == 0) {
        result = ((int (*)(int, const char *, char *const *, char *const *, int))call)(AT_FDCWD, exec_path, arguments, environment, 0);
    } else if (is_list) {
        result = ((int (*)(const char *, const char *, ...))call)(exec_path, "true", NULL, environment);
    } else {
        result = ((int (*)(const char *, char *const *, char *const *))call)(exec_path, arguments, environment);
    }
    _exit(100 + (result == -1 ? errno : 0));
}

static void programs(void) {
    const char *names[] = {"execl", "execle", "execlp", "execv", "execve", "execveat", "execvp", "execvpe", "fexecve"};
    const char *paths_[] = {"/bin/true", "/bin/false", "none", "true", "", ".", "./file", "other/x"};
    begin();
    chmod("file", 0755);
    for (int nth = 0; nth < 9; nth++) {
        for (int which = 0; which < 8; which++) {
            exec_name = names[nth];
            exec_path = paths_[which];
            SAY(names[nth], paths_[which], in_child(execute));
        }
    }
    const char *spawns[] = {"posix_spawn", "posix_spawnp"};
    for (int nth = 0; nth < 2; nth++) {
        for (int which = 0; which < 8; which++) {
            begin();
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            SAY("posix_spawn_file_actions_adddup2", "", FIND("posix_spawn_file_actions_adddup2", posix_spawn_file_actions_adddup2)(&actions, files[RW], 60));
            SAY("posix_spawn_file_actions_adddup2", "-1", posix_spawn_file_actions_adddup2(&actions, -1, 60));
            char *const arguments[] = {"true", NULL};
            pid_t child = -1;
            int status = -1;
            SAY(spawns[nth], paths_[which], FIND(spawns[nth], posix_spawn)(&child, paths_[which], &actions, NULL, arguments, environ));
            if (child > 0) waitpid(child, &status, 0);
            printf("status() = %x\n", status);
            posix_spawn_file_actions_destroy(&actions);
        }
    }
}

static const char *id_name;
static long id_wanted;

static void change_identity(void) {
    int (*change)(long, long, long) = find(id_name);
    int result = strcmp(id_name, "setgroups") ? change(id_wanted, id_wanted, id_wanted) : change(1, (long)&id_wanted, 0);
    said(id_name, id_wanted == -1 ? "-1" : "", result, errno);
    SAY("read", "after", read(files[RW], room, 100));
    SAY("pwrite", "after", pwrite(files[RW], "after", 5, 9));
    SAY("mmap", "after", mmap(NULL, 4096, PROT_READ, MAP_SHARED, files[RW], 0) == MAP_FAILED ? -1 : 1);
}

static void identities(void) {
    const char *names[] = {"setuid", "seteuid", "setreuid", "setresuid", "setfsuid", "setgid", "setegid",
        "setregid", "setresgid", "setfsgid", "setgroups"};
    long wanted[] = {0, 1234, -1};
    for (int nth = 0; nth < 11; nth++) {
        for (int which = 0; which < 3; which++) {
            begin();
            id_name = names[nth];
            id_wanted = wanted[which];
            SAY(names[nth], "child", in_child(change_identity));
            show(names[nth]);
        }
    }
}

/* A call's store also grows a stack. */
static long __attribute__((noinline)) read_to_stack(void) {
    volatile char bytes[3 << 20];
    long nr = pread(files[RW], (char *)bytes, LEN, 0);
    return nr < 0 ? nr : nr + bytes[LEN - 1];
}

static void descriptors(void) {
    begin();
    SAY("pread64", "stack", read_to_stack());
    SAY("close_range", "reversed", FIND("close_range", close_range)(9, 5, 0));
    SAY("close_range", "bad", close_range(40, 41, 99));
    SAY("close_range", "one", close_range(files[RW], files[RW], 0));
    SAY("read", "closed", read(files[RW], room, 10));
    SAY("close_range", "cloexec", close_range(files[READS], files[READS], CLOSE_RANGE_CLOEXEC));
    SAY("fcntl", "getfd", fcntl(files[READS], F_GETFD));
    SAY("closefrom", "", (FIND("closefrom", closefrom)(3), 0));
    SAY("read", "closed", read(files[READS], room, 10));
    SAY("open", "again", open("file", O_RDWR));
    begin();
    off_t at = 100;
    SAY("splice", "file", FIND("splice", splice)(files[RW], &at, files[PIPE_OUT], NULL, 500, 0));
    SAY("splice", "position", splice(files[READS], NULL, files[PIPE_OUT], NULL, 500, 0));
    SAY("splice", "to", splice(files[PIPE_IN], NULL, files[WRITES], NULL, 500, SPLICE_F_NONBLOCK));
    SAY("splice", "files", splice(files[RW], NULL, others[OTHER], NULL, 500, 0));
    show("splice");
    SAY("sync", "", (FIND("sync", sync)(), 0));
}

/* The system calls intercepted in `syscall`. */
static void by_number(void) {
    long (*call)(long, ...) = find("syscall");
    for (int kind = RW; kind <= SOCKET; kind++) {
        begin();
        int fd = files[kind];
        SAY("syscall", "read", call(SYS_read, fd, room, 100));
        SAY("syscall", "read null", call(SYS_read, fd, NULL, 100));
        SAY("syscall", "write", call(SYS_write, fd, room, 100));
        SAY("syscall", "pread64", call(SYS_pread64, fd, room, 100, 5L));
        SAY("syscall", "pread64 -1", call(SYS_pread64, fd, room, 100, -1L));
        SAY("syscall", "pwrite64", call(SYS_pwrite64, fd, room, 100, 5L));
        SAY("syscall", "lseek", call(SYS_lseek, fd, -5L, SEEK_END));
        SAY("syscall", "fsync", call(SYS_fsync, fd));
        SAY("syscall", "fdatasync", call(SYS_fdatasync, fd));
        SAY("syscall", "ftruncate", call(SYS_ftruncate, fd, 9000L));
        SAY("syscall", "copy_file_range", call(SYS_copy_file_range, fd, NULL, others[OTHER], NULL, 100L, 0));
        SAY("syscall", "fcntl", call(SYS_fcntl, fd, F_GETFL));
        SAY("syscall", "dup", call(SYS_dup, fd));
        SAY("syscall", "dup3", call(SYS_dup3, fd, 58, O_CLOEXEC));
        SAY("syscall", "dup3 same", call(SYS_dup3, fd, fd, 0));
        SAY("syscall", "close", call(SYS_close, fd));
        SAY("syscall", "close_range", call(SYS_close_range, 58, 58, 0));
        SAY("syscall", "openat", call(SYS_openat, AT_FDCWD, "file", O_RDWR));
        show("syscall");
    }
    SAY("syscall", "none", call(5000L));
}

int main(int nr_arguments, char **arguments) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(room, ROOM, PROT_READ | PROT_WRITE, how, -1, 0) != room) fail("mmap");
    if (mmap(room + ROOM, 4096, PROT_NONE, how, -1, 0) != room + ROOM) fail("mmap");
    /* A page, then a read-only page, then none. */
    if (mmap(hole - 4096, 8192, PROT_READ | PROT_WRITE, how, -1, 0) != hole - 4096) fail("mmap");
    memset(hole, 'r', 4096);
    if (mprotect(hole, 4096, PROT_READ)) fail("mprotect");
    make_parts();
    for (int at = 0; at < LEN; at++) bytes[at] = 'a' + at % 23;
    is_native = !getenv("LD_PRELOAD");
    struct sigaction action = {.sa_handler = on_signal};
    int signals[] = {SIGSEGV, SIGBUS, SIGXFSZ, SIGPIPE};
    for (int nth = 0; nth < 4; nth++) sigaction(signals[nth], &action, NULL);
    /* Descriptors may send these signals. */
    signal(SIGIO, SIG_IGN);
    signal(SIGURG, SIG_IGN);
    if (nr_arguments > 2) {
        first_seed = atol(arguments[1]);
        nr_random = atol(arguments[2]);
    }
    run_plans("", NULL);
    /* Copies of a file to itself would run up to 2 GiB. */
    is_fresh = 0;
    refresh();
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){3 * LEN, RLIM_INFINITY});
    run_plans("", "sendfile64 sendfile copy_file_range");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){LEN + 1000, RLIM_INFINITY});
    run_plans("short-files: ", "write pwrite64 writev pwritev64 ftruncate64 fallocate64 posix_fallocate64");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    streams("fopen", "freopen", "fdopen");
    streams("fopen64", "freopen64", "_IO_fdopen");
    streams("_IO_fopen", "freopen", "fdopen");
    temporaries();
    prints();
    wide();
    polls();
    asynchronous();
    sockets();
    mappings();
    signals_();
    waits();
    programs();
    identities();
    limits();
    descriptors();
    by_number();
    fflush(stdout);
    fprintf(stderr, "%ld rows, %ld on stand-ins\n", nr_rows, nr_stand_ins);
    return 0;
}
