/* Calls on files with a full descriptor table: native successes must succeed in a run.
 *
 *   full_table KIND SOFT HARD [lowered|threads]
 *     open, lock, map, flock   the number of files that can be opened, and each locked or mapped,
 *                              until EMFILE
 *     calls                    each call on a file with a full table, in this thread, a new one,
 *                              a child
 *
 * Prints "count N", and a line for each call. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 150000, NR_MAX = 5000 };

static char bytes[LEN];
static int fds[NR_MAX], nr;
static const char *where = "first";

static void fail(const char *what) {
    perror(what);
    exit(1);
}

#define SAY(call) do { \
        errno = 0; \
        long result_ = (long)(call); \
        printf("%s: %s = %ld %d\n", where, #call, result_, result_ == -1 ? errno : 0); \
    } while (0)

static int make(int number) {
    char name[30];
    sprintf(name, "file-%d", number);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    return fd;
}

static void set_limit(long soft, long hard) {
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard})) fail("setrlimit");
}

static void say_limit(void) {
    struct rlimit limit, other;
    getrlimit(RLIMIT_NOFILE, &limit);
    prlimit(0, RLIMIT_NOFILE, NULL, &other);
    printf("limit %ld %ld %ld %ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max, (long)other.rlim_cur,
           (long)other.rlim_max, sysconf(_SC_OPEN_MAX));
}

static void lock_all_of(int fd) {
    struct flock lock = {.l_type = F_WRLCK};
    if (fcntl(fd, F_SETLK, &lock)) fail("F_SETLK");
}

static void count(int locks, int maps) {
    for (nr = 0; nr < NR_MAX; nr++) {
        int fd = fds[nr] = make(nr);
        if (fd < 0) break;
        if (pwrite(fd, bytes, LEN, 0) != LEN) fail("pwrite");
        if (locks) lock_all_of(fd);
        if (maps) {
            char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (at == MAP_FAILED) fail("mmap");
            at[LEN - 1] = 'm';
            if (maps == 2 && flock(fd, LOCK_EX)) fail("flock");
        }
    }
    if (errno != EMFILE) fail("open");
    printf("count %d\n", nr);
    for (int nth = 0; nth < nr; nth++) {
        char last;
        if (pread(fds[nth], &last, 1, LEN - 1) != 1 || last != (maps ? 'm' : bytes[LEN - 1])) fail("pread");
        int is_looked_at = locks && (nth % 10 == 0 || nth == nr - 1);
        if (is_looked_at && fork() == 0) {
            struct flock lock = {.l_type = F_WRLCK};
            if (fcntl(fds[nth], F_GETLK, &lock) || lock.l_type != F_WRLCK || lock.l_pid != getppid()) {
                fprintf(stderr, "file %d of %d is not locked\n", nth, nr);
                _exit(1);
            }
            _exit(0);
        }
        int status = 0;
        if (is_looked_at && (wait(&status) < 0 || status)) exit(1);
    }
    say_limit();
}

static void calls_on(int fd, int other, int *pipe_) {
    char got[100];
    struct flock lock = {.l_type = F_WRLCK, .l_start = 10, .l_len = 5};
    struct iovec part = {got, sizeof got};
    struct pollfd poll_ = {fd, POLLIN | POLLOUT};
    off_t at = 5;
    SAY(pread(fd, got, 100, 300));
    SAY(pwrite(fd, "written", 7, 400));
    SAY(fcntl(fd, F_SETLK, &lock));
    SAY(pread(fd, got, 100, 300));
    SAY(lockf(fd, F_TEST, 10));
    SAY(posix_fallocate(fd, 0, LEN + 100));
    SAY(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 4096, 4096));
    SAY(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    SAY(readahead(fd, 0, 10));
    SAY(read(fd, got, 100));
    SAY(write(fd, "more", 4));
    SAY(readv(fd, &part, 1));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(ftruncate(fd, LEN - 5));
    SAY(fdatasync(fd));
    SAY(sendfile(other, fd, &at, 1000));
    SAY(copy_file_range(fd, NULL, other, NULL, 1000, 0));
    SAY(lseek(other, 0, SEEK_CUR));
    SAY(dup(fd));
    SAY(open("file-0", O_RDONLY));
    SAY(open("new", O_RDWR | O_CREAT, 0600));
    SAY(access("new", F_OK));
    SAY(fchmod(fd, 0600));
    SAY(futimens(fd, NULL));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    SAY(map == MAP_FAILED);
    if (map != MAP_FAILED) {
        SAY(map[5000]);
        map[1] = 'x';
        SAY(msync(map, 8192, MS_SYNC));
        SAY(munmap(map, 8192));
    }
    SAY(pread(fd, got, 100, 4090));
    SAY(got[7]);
    SAY(poll(&poll_, 1, 0));
    SAY(splice(fd, &at, pipe_[1], NULL, 500, 0));
    SAY(read(pipe_[0], got, 100));
    SAY(flock(other, LOCK_EX));
    SAY(write(other, "locked", 6));
    SAY(pread(fd, got, 100, 300));
    SAY(pwrite(fd, "written", 7, 400));
    SAY(access("file-0", R_OK));
}

static int pipes[4][2];

static void *of_thread(void *number) {
    long first = (long)number;
    calls_on(fds[first], fds[first + 1], pipes[first / 10]);
    return NULL;
}

static void in_thread(long first) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, of_thread, (void *)first)) fail("pthread_create");
    pthread_join(thread, NULL);
}

static pthread_barrier_t barrier;

static void *waits(void *nothing) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return nothing;
}

static void calls(int lowered, int threads) {
    for (int nth = 0; nth < 4; nth++) {
        if (pipe2(pipes[nth], O_NONBLOCK)) fail("pipe2");
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    if (threads) {
        pthread_create(&thread, NULL, waits, NULL);
        pthread_barrier_wait(&barrier);
    }
    for (nr = 0; nr < 60; nr++) {
        fds[nr] = make(nr);
        if (fds[nr] < 0) fail("open");
        if (pwrite(fds[nr], bytes, LEN, 0) != LEN) fail("pwrite");
    }
    for (int nth = 0; nth < 6; nth++) {
        fds[nth] = dup3(fds[nth], 140 + nth, O_CLOEXEC);
        if (fds[nth] < 0) fail("dup3");
    }
    while (open("/dev/null", O_RDONLY) >= 0) continue;
    if (lowered) set_limit(lowered, limit.rlim_max);
    calls_on(fds[0], fds[1], pipes[0]);
    where = "thread";
    in_thread(10);
    where = "child";
    fflush(stdout);
    if (fork() == 0) {
        calls_on(fds[20], fds[21], pipes[2]);
        where = "child's thread";
        in_thread(30);
        where = "child's program";
        fflush(stdout);
        execl("/bin/sh", "sh", "-c", "ulimit -Sn; ulimit -Hn; exec cat <&9 | head -c 30", NULL);
        fail("exec");
    }
    int status;
    wait(&status);
    printf("status %x\n", status);
    say_limit();
    if (threads) pthread_barrier_wait(&barrier);
}

int main(int nr_arguments, char **arguments) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    for (int at = 0; at < LEN; at++) bytes[at] = 'a' + at % 23;
    close_range(3, 100, 0);
    set_limit(atoi(arguments[2]), atoi(arguments[3]));
    const char *kind = arguments[1];
    int lowered = nr_arguments > 4 ? atoi(arguments[4]) : 0, threads = nr_arguments > 5;
    if (strcmp(kind, "calls") == 0) calls(lowered, threads);
    else count(strcmp(kind, "lock") == 0, strcmp(kind, "flock") == 0 ? 2 : strcmp(kind, "map") == 0);
    return 0;
}
