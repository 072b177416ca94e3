// Four processes store to their own words of a file's pages, by mappings and calls, with a twin.
// Ends with "ok". The file "expected" gets the expected contents.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, NR = 900, NR_PROCESSES = 4, OWN = WORDS / NR_PROCESSES, STEPS_A_ROUND = 500 };
typedef unsigned long word;
static struct { volatile long arrived; volatile int failed; word twin[NR * WORDS]; } *all;
static volatile word *map;
static int fd, own;

static word next(word *state) { *state = *state * 6364136223846793005ul + 1442695040888963407ul; return *state >> 33; }

static void fail(const char *what, long at, word found, word expected)
{
    printf("%d: %s: word %ld of page %ld is %lx, not %lx\n", own, what, at % WORDS, at / WORDS, found, expected);
    fflush(stdout);
    all->failed = 1;
    _exit(1);
}

static void meet(long *nr_met)
{
    __sync_fetch_and_add(&all->arrived, 1);
    for (++*nr_met; all->arrived < *nr_met * NR_PROCESSES;) {
        if (all->failed) _exit(1);
        sched_yield();
    }
}

static void open_map(void)
{
    map = mmap(0, NR * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) fail("mmap", 0, 0, 0);
}

static void check_own(const char *what)
{
    for (long at = own; at < NR * WORDS; at += NR_PROCESSES)
        if (map[at] != all->twin[at]) fail(what, at, map[at], all->twin[at]);
}

static void step(word *state)
{
    long at = next(state) % NR * WORDS + next(state) % OWN * NR_PROCESSES + own;
    word with = next(state) | (word)own << 60, found;
    switch (next(state) % 16) {
    case 0: case 1: case 2: case 3: case 4:
        map[at] = all->twin[at] = with;
        break;
    case 5:
        // A word each of several pages.
        for (long nr = 0; nr < 40 && at < NR * WORDS; nr++, at += WORDS) map[at] = all->twin[at] = with + nr;
        break;
    case 6: case 7:
        if (pwrite(fd, &with, 8, at * 8) != 8) fail("pwrite", at, 0, 0);
        all->twin[at] = with;
        break;
    case 8: case 9:
        if (pread(fd, &found, 8, at * 8) != 8 || found != all->twin[at]) fail("pread", at, found, all->twin[at]);
        break;
    default:
        if (map[at] != all->twin[at]) fail("load", at, map[at], all->twin[at]);
    }
    switch (next(state) % 400) {
    case 0: msync((void *)map, NR * PAGE, next(state) % 2 ? MS_SYNC : MS_ASYNC); break;
    case 1: fsync(fd); break;
    case 2: munmap((void *)map, NR * PAGE); open_map(); break;
    case 3: madvise((void *)map, NR * PAGE, MADV_DONTNEED); break;
    case 4:
        mprotect((void *)map, NR * PAGE, PROT_READ);
        if (map[at % (NR * WORDS)] == 0x123456789) _exit(9);
        mprotect((void *)map, NR * PAGE, PROT_READ | PROT_WRITE);
        break;
    case 5: {
        // A child stores and ends at once.
        int status, child = fork();
        at = at % (NR * WORDS);
        if (at % NR_PROCESSES != own) at = own;
        if (!child) { map[at] = all->twin[at] = with; if (with & 1) _exit(0); kill(getpid(), 9); }
        waitpid(child, &status, 0);
        if (map[at] != all->twin[at]) fail("of a child", at, map[at], all->twin[at]);
        break;
    }
    }
}

static void soak(long nr_steps)
{
    word state = own * 77 + 5;
    long nr_met = 0;
    fd = open("pages", O_RDWR);
    open_map();
    for (long nr = 1; nr <= nr_steps; nr++) {
        step(&state);
        if (nr % STEPS_A_ROUND) continue;
        check_own("of all");
        meet(&nr_met);
        if (nr / STEPS_A_ROUND % NR_PROCESSES == own) {
            // Cut, often within a page, then grown back.
            long end = NR * PAGE / 2 + next(&state) % 100 * 1000 / 8 * 8;
            memset((char *)all->twin + end, 0, NR * PAGE - end);
            if (ftruncate(fd, end) || ftruncate(fd, NR * PAGE)) fail("ftruncate", 0, 0, 0);
        }
        meet(&nr_met);
    }
    check_own("in the end");
}

int main(int nr_arguments, char **arguments)
{
    int failed = 0, status;
    all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fd = open("pages", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(fd, NR * PAGE)) return 1;
    for (own = 0; own < NR_PROCESSES; own++)
        if (!fork()) { soak(atol(arguments[1])); _exit(0); }
    for (int nth = 0; nth < NR_PROCESSES; nth++) { wait(&status); failed |= status; if (status) all->failed = 1, printf("a process ended with %#x\n", status); }
    if (failed) return 1;
    static char found[NR * PAGE];
    if (pread(fd, found, NR * PAGE, 0) != NR * PAGE || memcmp(found, all->twin, NR * PAGE)) { puts("read: other bytes"); return 1; }
    int out = open("expected", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(out, all->twin, NR * PAGE) != NR * PAGE) return 1;
    puts("ok");
    return 0;
}
