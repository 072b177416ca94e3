// Stores to private mappings: stored pages are the process's own, all others are the file's. Ends
// with "ok".
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

enum { PAGE = 4096, WORDS = 512, NR = 1200 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); fflush(stdout); _exit(1); } } while (0)

typedef unsigned long word;
static volatile word *map, *shared;
static word file[NR], own[NR], page[WORDS], state = 5;
static char is_own[NR];
static sigjmp_buf before;
static int fd;

static void on_signal(int signal, siginfo_t *info, void *context) { siglongjmp(before, signal); }
static word random_word(void) { return (state = state * 6364136223846793005ul + 1442695040888963407ul) >> 20; }
static volatile word *at(volatile word *map, long index) { return map + index * WORDS + index % WORDS; }

static void store(long index, word with)
{
    // The rest of the page keeps the file's current bytes.
    if (!is_own[index]) own[index] = file[index];
    is_own[index] = 1;
    *at(map, index) = own[index] = with;
}

static void check(long index) { CHECK(*at(map, index) == (is_own[index] ? own[index] : file[index])); }
static void check_all(void) { for (long index = 0; index < NR; index++) check(index); }

static int store_faults(long index)
{
    int signal = sigsetjmp(before, 1);
    if (!signal) *at(map, index) = 1;
    return signal;
}

static void write_page(long index, word with)
{
    file[index] = page[index % WORDS] = with;
    CHECK(pwrite(fd, page, PAGE, index * PAGE) == PAGE);
}

static void by_chance(long nr_steps)
{
    for (long step = 0; step < nr_steps; step++) {
        word chance = random_word();
        long index = random_word() % NR, nr = 1 + random_word() % 20;
        switch (chance % 16) {
        case 0: case 1: case 2: write_page(index, chance); break;
        case 3: *at(shared, index) = file[index] = chance; break;
        case 4: case 5: case 6: store(index, chance); break;
        case 7: CHECK(msync((void *)shared, NR * PAGE, MS_ASYNC) == 0); break;
        case 8:
            if (index + nr > NR) break;
            CHECK(madvise((void *)&map[index * WORDS], nr * PAGE, MADV_DONTNEED) == 0);
            memset(is_own + index, 0, nr);
            break;
        case 9:
            if (index + nr > NR) break;
            CHECK(mprotect((void *)&map[index * WORDS], nr * PAGE, PROT_READ) == 0);
            CHECK(store_faults(index) == SIGSEGV);
            check(index);
            CHECK(mprotect((void *)&map[index * WORDS], nr * PAGE, PROT_READ | PROT_WRITE) == 0);
            break;
        case 10:
            // Filled by a read of the file itself.
            if (!is_own[index]) own[index] = file[index];
            is_own[index] = 1, own[index] = file[(index + 1) % NR];
            CHECK(pread(fd, (void *)at(map, index), 8, (at(map, (index + 1) % NR) - map) * 8) == 8);
            break;
        default: check(index);
        }
    }
    check_all();
}

static void wait_for_all(void)
{
    int status;
    while (wait(&status) > 0) CHECK(status == 0);
}

// A child keeps stores from before the fork and its own.
static void in_children(void)
{
    for (int nth = 0; nth < 3; nth++) if (!fork()) {
        state += nth;
        if (nth) check_all();
        // A child's first touch is a store, a call's, or of its own child.
        if (nth == 0) store(7, 70);
        if (nth == 1) CHECK(mprotect((void *)map, 9 * PAGE, PROT_READ) == 0 && store_faults(3) == SIGSEGV);
        if (nth == 1) CHECK(mprotect((void *)map, 9 * PAGE, PROT_READ | PROT_WRITE) == 0);
        for (long index = nth; index < NR; index += 5) store(index, random_word());
        if (!fork()) { check_all(); store(9, 90); check_all(); _exit(0); }
        check_all();
        wait_for_all();
        _exit(0);
    }
    for (long index = 0; index < NR; index += 9) store(index, random_word());
    check_all();
    wait_for_all();
    check_all();
    // The first request of a child is a call.
    if (!fork()) {
        CHECK(write(fd, "", 0) == 0 && pwrite(fd, (void *)at(map, 8), 8, (at(map, 8) - map) * 8) == 8);
        file[8] = *at(map, 8);
        check_all();
        _exit(0);
    }
    wait_for_all();
    file[8] = is_own[8] ? own[8] : file[8];
    check_all();
}

int main(void)
{
    fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long index = 0; index < NR; index++) write_page(index, index * 0x9e3779b97f4a7c15ul);
    int only_read = open("file", O_RDONLY);
    shared = mmap(0, NR * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    map = mmap(0, (NR + 2) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, only_read, 0);
    CHECK(shared != MAP_FAILED && map != MAP_FAILED);
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    CHECK(store_faults(NR + 1) == SIGBUS);
    by_chance(6000);
    in_children();
    by_chance(3000);
    // MAP_POPULATE, and a mapping that becomes writable later.
    volatile word *whole = mmap(0, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, only_read, 0);
    volatile word *later = mmap(0, 100 * PAGE, PROT_READ, MAP_PRIVATE, only_read, 0);
    word was = file[50];
    write_page(50, 51);
    CHECK(*at(whole, 50) == was && *at(later, 50) == 51);
    CHECK(mprotect((void *)later, 100 * PAGE, PROT_READ | PROT_WRITE) == 0);
    *at(later, 50) = 52;
    CHECK(*at(later, 50) == 52 && *at(later, 51) == file[51] && *at(shared, 50) == 51);
    // Moved with its stores.
    CHECK((map = mremap((void *)map, (NR + 2) * PAGE, (NR + 9) * PAGE, MREMAP_MAYMOVE)) != MAP_FAILED);
    check_all();
    by_chance(2000);
    *at(shared, 31) = file[31] = 32;
    // Written by an unintercepted program: the file goes to the kernel, and private stores are
    // kept.
    if (!fork()) {
        while (access("taken", F_OK)) usleep(1000);
        file[30] = 0x656469736c6f6f66;
        check_all();
        for (long index = 0; index < NR; index += 4) store(index, random_word());
        check_all();
        _exit(0);
    }
    char line[256];
    sprintf(line, "env -u LD_PRELOAD -u PAGETIDE_RUN sh -c 'printf foolside | "
            "dd of=file bs=1 seek=%ld conv=notrunc status=none' && >taken", (long)(at(map, 30) - map) * 8);
    CHECK(system(line) == 0);
    file[30] = 0x656469736c6f6f66;
    check_all();
    CHECK(*at(later, 50) == 52 && *at(later, 30) == file[30] && *at(whole, 50) == was);
    wait_for_all();
    by_chance(1000);
    puts("ok");
    return 0;
}
