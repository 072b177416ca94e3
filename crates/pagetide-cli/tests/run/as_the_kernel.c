/* Prints the results of rare calls, a line each. The test compares a run's lines with the
 * kernel's. */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints the call, its result, and errno on failure. */
#define SAY(call) say(#call, (errno = 0, (long)(call)))

static void say(const char *what, long result) {
    int why = result < 0 ? errno : 0;
    printf("%s = %ld %d\n", what, result, why);
}

static int fresh(const char *name, int nr_bytes) {
    char *bytes = malloc(nr_bytes + 1);
    for (int at = 0; at < nr_bytes; at++) bytes[at] = 'a' + at % 23;
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(fd, bytes, nr_bytes) != nr_bytes || lseek(fd, 0, SEEK_SET) != 0) exit(1);
    free(bytes);
    return fd;
}

static void show(const char *name) {
    static unsigned char bytes[1 << 20];
    int fd = open(name, O_RDONLY);
    long nr_bytes = read(fd, bytes, sizeof bytes), sum = 0;
    for (long at = 0; at < nr_bytes; at++) sum = sum * 31 + bytes[at];
    printf("%s: %ld of %ld bytes, %lx\n", name, nr_bytes, lseek(fd, 0, SEEK_END), sum);
    close(fd);
}

/* Returns true if another process could take the lock. */
static int is_free(const char *name, long start, long len) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
        _exit(fcntl(open(name, O_RDWR), F_SETLK, &lock) == 0);
    }
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* Locks relative to the position or to the end. */
static void locks(void) {
    int fd = fresh("locks", 5000);
    SAY(lseek(fd, 100, SEEK_SET));
    SAY(lockf(fd, F_TLOCK, 10));
    SAY(lockf(fd, F_TEST, 10));
    SAY(is_free("locks", 0, 100));
    SAY(is_free("locks", 109, 1));
    SAY(is_free("locks", 110, 0));
    SAY(truncate("locks", 4000));
    SAY(is_free("locks", 109, 1));
    SAY(lockf(fd, F_ULOCK, 10));
    struct flock here = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 3, .l_len = 10};
    SAY(fcntl(fd, F_OFD_SETLK, &here));
    SAY(is_free("locks", 100, 3));
    SAY(is_free("locks", 112, 1));
    struct flock question = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -100};
    SAY(fcntl(fd, F_GETLK, &question));
    printf("%d %d %ld %ld\n", question.l_type, question.l_whence, (long)question.l_start, (long)question.l_len);
    struct flock nobody = {.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_start = 500, .l_len = 7};
    SAY(fcntl(fd, F_GETLK, &nobody));
    printf("%d %d %ld %ld\n", nobody.l_type, nobody.l_whence, (long)nobody.l_start, (long)nobody.l_len);
    struct flock before = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -1000};
    SAY(fcntl(fd, F_SETLK, &before));
    struct flock end = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -10, .l_len = 10};
    SAY(fcntl(fd, F_SETLK, &end));
    SAY(is_free("locks", 3995, 1));
    close(fd);
}

static void prints(void) {
    char *line = malloc(5000);
    memset(line, 'l', 4999);
    line[4999] = 0;
    int fd = fresh("prints", 0);
    SAY(dprintf(fd, "%s %d %ld %c %.3f %g %.2f %d %d\n", "words", -7, 1L << 40, 'c', 3.14159, 1e100, 2.5, 8, 9));
    SAY(write(fd, "written", 7));
    SAY(dprintf(fd, "%s %.1f", line, 0.5));
    SAY(lseek(fd, 0, SEEK_CUR));
    show("prints");
    SAY(dprintf(fd, "%s", ""));
    SAY(dprintf(open("prints", O_RDONLY), "x"));
    void *here[1] = {(void *)prints};
    backtrace_symbols_fd(here, 1, fd);
    SAY(lseek(fd, 0, SEEK_CUR) > 5000 && lseek(fd, 0, SEEK_END) < 10000);
    close(fd);
}

static long modified(int fd) {
    struct stat stat;
    return fstat(fd, &stat) == 0 ? stat.st_mtime : -1;
}

/* The modification time is that of the write, not of write-back. */
static void times(void) {
    struct timespec old[2] = {{1, 0}, {1, 0}};
    int fd = fresh("times", 10000);
    SAY(futimens(fd, old));
    SAY(pwrite(fd, "x", 1, 5));
    SAY(modified(fd) == 1);
    SAY(futimens(fd, old));
    SAY(pwrite(fd, "x", 1, 6));
    SAY(modified(fd) == 1);
    SAY(utimensat(AT_FDCWD, "times", old, 0));
    SAY(pwrite(fd, "x", 0, 6));
    SAY(modified(fd));
    close(fd);
    SAY(modified(open("times", O_RDONLY)));
}

static void cuts(void) {
    char byte;
    int fd = fresh("cuts", 9000);
    SAY(pread(fd, &byte, 1, 0));
    SAY(truncate("cuts", 8000));
    SAY(lseek(fd, 0, SEEK_END));
    SAY(open("cuts", O_RDONLY | O_TRUNC) >= 0);
    SAY(pread(fd, &byte, 1, 0));
    SAY(pwrite(fd, "end", 3, 4000));
    SAY(truncate("cuts", 4001));
    show("cuts");
    SAY(truncate("cuts", -1));
    SAY(truncate(".", 0));
    SAY(truncate("none", 0));
    close(fd);
}

static int has_blocks(int fd) {
    struct stat stat;
    return fstat(fd, &stat) == 0 && stat.st_blocks > 0;
}

static void holes(void) {
    int fd = fresh("holes", 0), keep = FALLOC_FL_KEEP_SIZE;
    SAY(ftruncate(fd, 10 << 20));
    SAY(has_blocks(fd));
    SAY(pwrite(fd, "data", 4, 4 << 20));
    SAY(has_blocks(fd));
    SAY(fsync(fd));
    SAY(lseek(fd, 0, SEEK_DATA));
    SAY(lseek(fd, 4 << 20, SEEK_HOLE));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(lseek(fd, 5 << 20, SEEK_DATA));
    SAY(lseek(fd, 10 << 20, SEEK_HOLE));
    SAY(lseek(fd, -1, SEEK_HOLE));
    SAY(fallocate(fd, FALLOC_FL_PUNCH_HOLE | keep, 4 << 20, 4096));
    SAY(lseek(fd, 0, SEEK_DATA));
    SAY(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 4 << 20, 4096));
    SAY(posix_fadvise(fd, 0, -1, POSIX_FADV_DONTNEED));
    SAY(posix_fadvise(fd, -1, 10, POSIX_FADV_WILLNEED));
    SAY(readahead(open("holes", O_WRONLY), 0, 4096));
    show("holes");
    close(fd);
}

static void flags(void) {
    struct iovec parts[2] = {{"abc", 3}, {"de", 2}};
    int fd = fresh("flags", 100), nr_unread = 0;
    SAY(lseek(fd, 10, SEEK_SET));
    SAY(pwritev2(fd, parts, 2, 0, RWF_APPEND));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(pwritev2(fd, parts, 2, -1, RWF_APPEND));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(pwritev2(fd, parts, 2, 3, RWF_SYNC));
    SAY(pwritev2(fd, parts, 2, 3, 0x40000000));
    SAY(preadv2(fd, parts, 2, 3, 0x40000000));
    SAY(lseek(fd, 20, SEEK_SET));
    SAY(ioctl(fd, FIONREAD, &nr_unread));
    SAY(nr_unread);
    SAY(write(open("flags", O_RDONLY), parts, 0));
    SAY(fcntl(fd, F_SETFL, O_APPEND));
    SAY(pwrite(fd, "z", 1, 5));
    SAY(lseek(fd, 0, SEEK_CUR));
    show("flags");
    close(fd);
}

static void copies(void) {
    int from = fresh("from", 200000), to = fresh("to", 0), ends[2];
    int appends = open("to", O_WRONLY | O_APPEND);
    off_t source = 0, target = 3000;
    SAY(copy_file_range(from, &source, from, &target, 5000, 0));
    target = 100000;
    SAY(copy_file_range(from, &source, from, &target, 5000, 0));
    SAY(copy_file_range(from, 0, from, 0, 10, 0));
    SAY(copy_file_range(from, 0, to, 0, 300000, 0));
    SAY(copy_file_range(from, &source, appends, 0, 10, 0));
    SAY(sendfile(appends, from, &source, 10));
    SAY(pipe(ends));
    SAY(copy_file_range(ends[0], 0, to, 0, 10, 0));
    SAY(copy_file_range(from, &source, ends[1], 0, 10, 0));
    SAY(sendfile(ends[1], from, &source, 10));
    SAY(copy_file_range(open(".", O_RDONLY), 0, to, 0, 10, 0));
    printf("%ld %ld\n", (long)source, (long)target);
    show("from");
    show("to");
}

static void limited(int is_ignored) {
    struct rlimit limit = {20000, 20000};
    static char bytes[30000];
    if (is_ignored) signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int fd = fresh("limited", 0);
    SAY(write(fd, bytes, 15000));
    SAY(write(fd, bytes, 15000));
    fflush(stdout);
    SAY(write(fd, bytes, 15000));
    SAY(pwrite(fd, bytes, 10, 25000));
    SAY(ftruncate(fd, 30000));
    SAY(truncate("limited", 30000));
    SAY(posix_fallocate(fd, 0, 30000));
    SAY(ftruncate(fd, 10));
    SAY(fcntl(fd, F_SETFL, O_APPEND));
    SAY(write(fd, bytes, 30000));
    show("limited");
}

static void limits(void) {
    for (int is_ignored = 0; is_ignored < 2; is_ignored++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            limited(is_ignored);
            fflush(stdout);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("%x\n", status);
    }
}

int main(void) {
    locks();
    prints();
    times();
    cuts();
    holes();
    flags();
    copies();
    limits();
    return 0;
}
