// All operations on a file mapped for writing. Ends with "ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, NR = 1500 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

typedef unsigned long word;
static volatile word *map;
static sigjmp_buf before;
static volatile int last;
static word page[WORDS];

static word value(long index, word round) { return index * 0x9e3779b97f4a7c15ul + round; }
static void on_signal(int signal, siginfo_t *info, void *context) { last = signal; siglongjmp(before, 1); }

static int store_faults(long index, word with)
{
    last = 0;
    if (!sigsetjmp(before, 1)) map[index * WORDS + 1] = with;
    return last;
}

static int load_faults(long index)
{
    last = 0;
    if (!sigsetjmp(before, 1)) (void)map[index * WORDS];
    return last;
}

static void store_all(word round)
{
    for (long index = 0; index < NR; index++)
        map[index * WORDS] = map[index * WORDS + 511] = value(index, round);
}

static void check_all(int fd, long end, word round)
{
    for (long index = 0; index < end; index++) {
        CHECK(map[index * WORDS] == value(index, round) && map[index * WORDS + 511] == value(index, round));
        CHECK(pread(fd, page, PAGE, index * PAGE) == PAGE);
        CHECK(page[0] == value(index, round) && page[511] == value(index, round));
    }
}

static void in_children(void)
{
    int status;
    if (!fork()) {
        for (long index = 0; index < NR; index += 3) {
            CHECK(map[index * WORDS] == value(index, 3));
            map[index * WORDS + 2] = index;
        }
        if (!fork()) { map[5 * WORDS + 3] = 53; _exit(0); }
        wait(&status);
        _exit(status != 0);
    }
    wait(&status);
    CHECK(status == 0 && map[5 * WORDS + 3] == 53);
    for (long index = 0; index < NR; index += 3) CHECK(map[index * WORDS + 2] == index);
    // Killed after stores.
    int child = fork();
    if (!child) {
        for (long index = 1; index < NR; index += 7) map[index * WORDS + 4] = index + 9;
        raise(SIGKILL);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    for (long index = 1; index < NR; index += 7) CHECK(map[index * WORDS + 4] == index + 9);
}

static volatile long nr_stored;

static void *store_on(void *from)
{
    for (long index = (long)from;; index = (index + 7) % NR) map[index * WORDS + 5] = ++nr_stored;
}

// The process ends while threads store.
static void in_threads(void)
{
    for (int nth = 0, status; nth < 8; nth++) {
        pthread_t thread;
        if (!fork()) {
            for (long from = 0; from < 3; from++) pthread_create(&thread, 0, store_on, (void *)(from * 300));
            while (nr_stored < 2000) sched_yield();
            exit(7);
        }
        wait(&status);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
}

// Calls fill mapped buffers.
static void filled(int fd)
{
    int ends[2], sockets[2];
    char *target = (char *)&map[700 * WORDS] + 100;
    CHECK(pipe(ends) == 0 && write(ends[1], "through a pipe", 14) == 14);
    CHECK(madvise((void *)map, NR * PAGE, MADV_DONTNEED) == 0);
    CHECK(read(ends[0], target, 4 * PAGE) == 14 && !memcmp(target, "through a pipe", 14));
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0 && send(sockets[1], "datagram", 8, 0) == 8);
    CHECK(recv(sockets[0], target + 3 * PAGE, 100, 0) == 8 && !memcmp(target + 3 * PAGE, "datagram", 8));
    CHECK(pread(fd, target + 5 * PAGE, 3 * PAGE, 10 * PAGE) == 3 * PAGE);
    CHECK(!memcmp(target + 5 * PAGE, (char *)&map[10 * WORDS], 3 * PAGE));
    FILE *stream = fopen("/proc/self/cmdline", "r");
    CHECK(fread(target + 9 * PAGE, 1, 9, stream) == 9 && !memcmp(target + 9 * PAGE, "./written", 9));
    CHECK(pread(fd, page, 14, 700 * PAGE + 100) == 14 && !memcmp(page, "through a pipe", 14));
}

int main(int nr_arguments, char **arguments)
{
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    struct stat status;
    CHECK(fd >= 0 && ftruncate(fd, NR * PAGE) == 0);
    map = mmap(0, (NR + 3) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    store_all(1);
    check_all(fd, NR, 1);
    store_all(2);
    CHECK(msync((void *)map, NR * PAGE, MS_SYNC) == 0 && fsync(fd) == 0);
    check_all(fd, NR, 2);
    store_all(3);
    check_all(fd, NR, 3);
    // Written by calls and stores.
    CHECK(pwrite(fd, "written", 8, 9 * PAGE + 64) == 8 && !strcmp((char *)&map[9 * WORDS + 8], "written"));
    strcpy((char *)&map[9 * WORDS + 8], "stored");
    CHECK(pread(fd, page, 8, 9 * PAGE + 64) == 8 && !strcmp((char *)page, "stored"));
    in_children();
    in_threads();
    filled(fd);
    // Cut under the mapping, and stores past the end.
    store_all(4);
    CHECK(store_faults(NR, 1) == SIGBUS && load_faults(NR + 1) == SIGBUS);
    CHECK(ftruncate(fd, (NR - 4) * PAGE + 100) == 0);
    CHECK(store_faults(NR - 3, 1) == SIGBUS && load_faults(NR - 2) == SIGBUS && load_faults(NR - 4) == 0);
    memset((char *)&map[(NR - 4) * WORDS] + 90, 'x', 200);
    CHECK(ftruncate(fd, NR * PAGE) == 0 && store_faults(NR - 3, 5) == 0);
    CHECK(((char *)&map[(NR - 4) * WORDS])[99] == 'x' && ((char *)&map[(NR - 4) * WORDS])[100] == 0);
    CHECK(pread(fd, page, PAGE, (NR - 3) * PAGE) == PAGE && page[1] == 5 && page[0] == 0);
    memset((char *)&map[(NR - 4) * WORDS], 'y', PAGE);
    CHECK(ftruncate(fd, (NR - 4) * PAGE + 10) == 0);
    memset((char *)&map[(NR - 4) * WORDS], 'z', 20);
    CHECK(pwrite(fd, "end", 3, (NR - 3) * PAGE) == 3);
    CHECK(((char *)&map[(NR - 4) * WORDS])[9] == 'z' && ((char *)&map[(NR - 4) * WORDS])[10] == 0);
    CHECK(fstat(fd, &status) == 0 && status.st_size == (NR - 3) * PAGE + 3);
    CHECK(ftruncate(fd, NR * PAGE) == 0);
    // Protected in parts.
    CHECK(mprotect((void *)&map[20 * WORDS], PAGE, PROT_READ) == 0 && store_faults(20, 1) == SIGSEGV);
    CHECK(store_faults(21, 1) == 0 && load_faults(20) == 0);
    CHECK(mprotect((void *)&map[20 * WORDS], PAGE, PROT_NONE) == 0 && load_faults(20) == SIGSEGV);
    CHECK(mprotect((void *)&map[20 * WORDS], PAGE, PROT_READ | PROT_WRITE) == 0 && store_faults(20, 77) == 0);
    CHECK(munmap((void *)&map[30 * WORDS], 3 * PAGE) == 0 && store_faults(31, 1) == SIGSEGV);
    map[33 * WORDS] = 33, map[29 * WORDS] = 29;
    CHECK(madvise((void *)map, 30 * PAGE, MADV_DONTNEED) == 0 && map[29 * WORDS] == 29 && map[20 * WORDS + 1] == 77);
    volatile word *other = mmap(0, NR * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(other != MAP_FAILED && other[33 * WORDS] == 33);
    CHECK(mprotect((void *)other, NR * PAGE, PROT_READ | PROT_WRITE) == 0);
    other[40 * WORDS] = 40, map[41 * WORDS] = 41;
    CHECK(map[40 * WORDS] == 40 && other[41 * WORDS] == 41);
    map[30 * WORDS - 1] = 1;
    for (long index = 100; index < 1000; index++) {
        other[index * WORDS] = index;
        CHECK(map[index * WORDS] == index);
    }
    if (nr_arguments > 1) { puts("ok"); fflush(stdout); raise(SIGKILL); }
    // Read and written by an unintercepted program: the file goes to the kernel.
    CHECK(system("test \"$(env -u LD_PRELOAD -u PAGETIDE_RUN dd if=file bs=1 skip=36928 count=6 status=none)\" = stored") == 0);
    CHECK(system("env -u LD_PRELOAD -u PAGETIDE_RUN sh -c 'printf outsider | "
                 "dd of=file bs=4096 seek=50 conv=notrunc status=none'") == 0);
    CHECK(!memcmp((void *)&map[50 * WORDS], "outsider", 8) && other[999 * WORDS] == 999);
    other[51 * WORDS] = 51;
    CHECK(map[51 * WORDS] == 51 && pread(fd, page, PAGE, 51 * PAGE) == PAGE && page[0] == 51);
    other = mremap((void *)other, NR * PAGE, 2 * NR * PAGE, MREMAP_MAYMOVE);
    CHECK(other != MAP_FAILED && other[999 * WORDS] == 999);
    puts("ok");
    return 0;
}
