// One process writes and cuts a file mapped by three others. A load sees all earlier writes, for
// pages read ahead, randomly, or together with a read. Ends with "ok".
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, NR = 12000, NR_READERS = 3 };
typedef unsigned long word;

// The writer's progress: each page's minimum step, and a count that is odd during a cut.
static struct { _Atomic word floor[NR], cuts, end, is_over; } *shared;
static sigjmp_buf before;
static word page[WORDS], back[WORDS];

static word next(word *state) { *state = *state * 6364136223846793005ul + 1442695040888963407ul; return *state >> 33; }
static void on_signal(int signal) { siglongjmp(before, 1); }

static int looks(volatile word *map, int fd, long index, int at, int is_read)
{
    word cuts = shared->cuts, floor = shared->floor[index], end = shared->end, found = 0;
    int is_bus = sigsetjmp(before, 1);
    if (!is_bus && is_read) {
        if (pread(fd, back, PAGE, index * PAGE) != PAGE) is_bus = 1;
        else found = back[at];
    } else if (!is_bus) found = map[index * WORDS + at];
    if (cuts % 2 || cuts != shared->cuts) return 0;
    if (!is_bus && found >= floor && index < end || is_bus && index >= end) return 0;
    printf("page %ld of %lu has %lu, not %lu (%d %d)\n", index, end, found, floor, is_bus, is_read);
    return 1;
}

static int reads(int own)
{
    int fd = open("pages", O_RDONLY), failed = 0;
    volatile word *map = mmap(0, NR * PAGE, PROT_READ, own % 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    word state = own + 1;
    if (fd < 0 || map == MAP_FAILED) return 1;
    signal(SIGBUS, on_signal);
    while (!failed && !shared->is_over) {
        long first = next(&state) % NR, nr = own == 0 ? NR : 1 + next(&state) % 600;
        int is_read = next(&state) % 4 == 0;
        for (long index = own ? first : 0; index < NR && nr-- && !failed && !shared->is_over; index++)
            failed = looks(map, fd, index, next(&state) % WORDS, is_read);
        for (int nth = 0; nth < 50 && own && !failed; nth++)
            failed = looks(map, fd, next(&state) % NR, next(&state) % WORDS, 0);
    }
    return failed;
}

static int writes(long nr_steps)
{
    int fd = open("pages", O_RDWR);
    word state = 99;
    for (long step = 2; step < nr_steps + 2; step++) {
        long first = next(&state) % NR, nr = next(&state) % 8 ? 1 : 1 + next(&state) % 64;
        for (long index = first; index < first + nr && index < (long)shared->end; index++) {
            for (int at = 0; at < WORDS; at++) page[at] = step;
            if (pwrite(fd, page, PAGE, index * PAGE) != PAGE) return 2;
            shared->floor[index] = step;
        }
        if (step % 256 == 0) fsync(fd);
        if (step % 512) continue;
        long end = NR / 2 + next(&state) % (NR / 2);
        shared->cuts++;
        for (long index = end; index < NR; index++) shared->floor[index] = 0;
        if (ftruncate(fd, end * PAGE)) return 3;
        shared->end = end;
        shared->cuts++;
        if (step % 1024) continue;
        shared->cuts++;
        if (ftruncate(fd, NR * PAGE)) return 4;
        shared->end = NR;
        shared->cuts++;
    }
    return 0;
}

int main(int nr_arguments, char **arguments)
{
    int fd = open("pages", O_RDWR | O_CREAT | O_TRUNC, 0600), failed = 0, status;
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int at = 0; at < WORDS; at++) page[at] = 1;
    for (long index = 0; index < NR; index++) {
        if (pwrite(fd, page, PAGE, index * PAGE) != PAGE) return 1;
        shared->floor[index] = 1;
    }
    shared->end = NR;
    fsync(fd);
    for (int own = 0; own < NR_READERS; own++)
        if (!fork()) exit(reads(own));
    if (!fork()) exit(writes(atol(arguments[1])));
    for (int nth = 0; nth <= NR_READERS; nth++) {
        int one = wait(&status);
        if (status) printf("a process ended with %#x\n", status);
        failed |= status;
        // The writer ends first unless a check failed.
        shared->is_over = 1;
    }
    if (!failed) puts("ok");
    return failed != 0;
}
