// All operations on a mapped file. Ends with "ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, NR = 2000 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

typedef unsigned long word;
static volatile word *map;
static sigjmp_buf before;
static word page[WORDS];

static word value(long index) { return index * 0x9e3779b97f4a7c15ul + 1; }
static word load(long index, int at) { return map[index * WORDS + at]; }
static void on_signal(int signal, siginfo_t *info, void *context) { siglongjmp(before, 1); }
static void fill(word with) { for (int at = 0; at < WORDS; at++) page[at] = with; }

static int faults(long index)
{
    if (sigsetjmp(before, 1)) return 1;
    (void)load(index, 0);
    return 0;
}

static void check_all(long end, long but)
{
    for (long index = 0; index < end; index++)
        CHECK(index == but || load(index, index % WORDS) == value(index));
}

static void in_children(long end)
{
    for (int nth = 0; nth < 3; nth++)
        if (!fork()) {
            int status = 0;
            if (nth == 2 && !fork()) { check_all(end, 5); _exit(0); }
            check_all(end, 5);
            if (nth == 2) wait(&status);
            _exit(status != 0);
        }
    check_all(end, 5);
    for (int nth = 0; nth < 3; nth++) { int status; wait(&status); CHECK(status == 0); }
}

int main(int nr_arguments, char **arguments)
{
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), out;
    CHECK(fd >= 0);
    for (long index = 0; index < NR; index++) { fill(value(index)); CHECK(write(fd, page, PAGE) == PAGE); }
    map = mmap(0, (NR + 3) * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    close(fd);
    word state = 1;
    for (long nr = 0; nr < 2 * NR; nr++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        long index = (state >> 33) % NR;
        CHECK(load(index, state % WORDS) == value(index));
    }
    check_all(NR, -1);
    // Past the end, with all signals blocked, and a store.
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    sigset_t all;
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    CHECK(faults(NR + 1) && !faults(NR - 1));
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    check_all(NR, -1);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    int stored = 0;
    if (!sigsetjmp(before, 1)) { map[0] = 1; stored = 1; }
    CHECK(!stored);
    // Written, grown, cut.
    fd = open("file", O_RDWR);
    fill(77);
    CHECK(pwrite(fd, page, PAGE, 5 * PAGE) == PAGE && load(5, 3) == 77);
    CHECK(pread(fd, page, PAGE, 6 * PAGE) == PAGE && page[9] == value(6));
    fill(78);
    CHECK(pwrite(fd, page, PAGE, NR * PAGE) == PAGE && load(NR, 0) == 78);
    CHECK(ftruncate(fd, (NR - 4) * PAGE) == 0 && faults(NR - 2) && !faults(NR - 5));
    CHECK(ftruncate(fd, NR * PAGE) == 0 && load(NR - 2, 0) == 0);
    // As buffers of calls.
    out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(write(out, (void *)&map[100 * WORDS], 50 * PAGE) == 50 * PAGE);
    CHECK(pread(out, page, PAGE, 49 * PAGE) == PAGE && page[3] == value(149));
    FILE *stream = fopen("out", "w+");
    CHECK(fwrite((void *)&map[200 * WORDS], PAGE, 20, stream) == 20);
    rewind(stream);
    CHECK(fread(page, PAGE, 1, stream) == 1 && page[3] == value(200));
    in_children(NR - 4);
    // In parts.
    CHECK(munmap((void *)&map[10 * WORDS], 3 * PAGE) == 0 && faults(11));
    CHECK(load(13, 0) == value(13) && load(9, 0) == value(9));
    CHECK(mprotect((void *)&map[20 * WORDS], PAGE, PROT_NONE) == 0 && faults(20));
    CHECK(mprotect((void *)&map[20 * WORDS], PAGE, PROT_READ) == 0 && load(20, 0) == value(20));
    CHECK(madvise((void *)map, 8 * PAGE, MADV_DONTNEED) == 0 && load(4, 0) == value(4));
    CHECK(msync((void *)&map[20 * WORDS], PAGE, MS_SYNC) == 0);
    close(fd);
    // Written by an unintercepted program, then by this one: the file goes to the kernel.
    CHECK(load(30, 0) == value(30));
    CHECK(system("env -u LD_PRELOAD -u PAGETIDE_RUN sh -c 'printf outsider | "
                 "dd of=file bs=4096 seek=30 conv=notrunc status=none'") == 0);
    CHECK(!memcmp((void *)&map[30 * WORDS], "outsider", 8) && load(31, 0) == value(31));
    fd = open("file", O_RDWR);
    CHECK(pwrite(fd, "inside", 6, 32 * PAGE) == 6 && !memcmp((void *)&map[32 * WORDS], "inside", 6));
    CHECK(munmap((void *)map, (NR + 3) * PAGE) == 0 && faults(0));
    puts("ok");
    return 0;
}
