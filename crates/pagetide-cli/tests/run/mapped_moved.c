// Mappings that grow, shrink and move, whole and in part, while their file changes, compared with a
// twin in memory. Ends with "ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, NR = 600, ROOM = 2 * NR };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

typedef unsigned long word;
static sigjmp_buf before;
static word twin[NR], page[WORDS];
static int fd;

static void on_signal(int signal, siginfo_t *info, void *context) { siglongjmp(before, signal); }

static int touch(volatile word *at)
{
    int signal = sigsetjmp(before, 1);
    if (!signal) (void)*at;
    return signal;
}

static int store(volatile word *at, word with)
{
    int signal = sigsetjmp(before, 1);
    if (!signal) *at = with;
    return signal;
}

// Page `index` of the file in a mapping.
static volatile word *at(volatile word *map, long index) { return map + index * WORDS + index % WORDS; }

static void check(volatile word *map, long from, long nr)
{
    for (long index = from; index < from + nr; index++) CHECK(map[(index - from) * WORDS + index % WORDS] == twin[index]);
}

static void fill(long index, word with) { twin[index] = *(page + index % WORDS) = with; }

static word *map_at(void *where, long from, long nr, int protection, int flags)
{
    word *map = mmap(where, nr * PAGE, protection, flags, fd, from * PAGE);
    CHECK(map != MAP_FAILED);
    return map;
}

static word *moved(word *map, long nr, long now, int flags, void *where)
{
    return mremap(map, nr * PAGE, now * PAGE, flags, where);
}

// Maps the whole file with this protection and kind.
static void in_parts(int protection, int kind)
{
    const int may = MREMAP_MAYMOVE, fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
    int is_written = protection & PROT_WRITE, is_shared = kind == MAP_SHARED;
    word *free = mmap(0, 4 * ROOM * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(free != MAP_FAILED);
    word *map = map_at(free, 0, 100, protection, kind | MAP_FIXED);
    check(map, 0, 100);
    if (is_written) for (long index = 0; index < 100; index += 3) {
        *at(map, index) = index + 77;
        if (is_shared) twin[index] = index + 77;
    }
    word kept[NR];
    memcpy(kept, twin, sizeof kept);
    if (is_written && !is_shared) for (long index = 0; index < 100; index += 3) twin[index] = index + 77;
    // Grown in place, which fails beside others, then anywhere, then shrunk.
    CHECK(moved(map, 100, 200, 0, 0) == MAP_FAILED && errno == ENOMEM);
    check(map, 0, 100);
    CHECK((map = moved(map, 100, 200, may, 0)) != MAP_FAILED && touch(free) == SIGSEGV);
    check(map, 0, 200);
    CHECK(moved(map, 200, 150, 0, 0) == map && touch(map + 150 * WORDS) == SIGSEGV);
    check(map, 0, 150);
    // A part moved away and back, then past the file's end.
    word *part = moved(map + 20 * WORDS, 30, 30, fixed, free + ROOM * WORDS);
    CHECK(part == free + ROOM * WORDS && touch(map + 20 * WORDS) == SIGSEGV && touch(map + 49 * WORDS) == SIGSEGV);
    check(part, 20, 30), check(map, 0, 20), check(map + 50 * WORDS, 50, 100);
    CHECK(munmap(part + 5 * WORDS, 2 * PAGE) == 0 && touch(part + 5 * WORDS) == SIGSEGV);
    check(part, 20, 5), check(part + 7 * WORDS, 27, 23);
    CHECK((part = moved(part + 7 * WORDS, 23, 40, fixed, free + 2 * ROOM * WORDS)) != MAP_FAILED);
    check(part, 27, 23);
    CHECK(part[23 * WORDS + 50] == kept[50] || is_written);
    // Protected in parts, then as one.
    CHECK(mprotect(part + 3 * WORDS, 2 * PAGE, PROT_NONE) == 0 && touch(part + 3 * WORDS) == SIGSEGV);
    CHECK(mprotect(part + 3 * WORDS, 2 * PAGE, protection) == 0);
    check(part, 27, 23);
    CHECK((part = moved(part, 23, 23, fixed, free + 3 * ROOM * WORDS)) == free + 3 * ROOM * WORDS);
    check(part, 27, 23);
    CHECK(store(part, part[0]) == (is_written ? 0 : SIGSEGV));
    CHECK(mprotect(part, PAGE, PROT_READ) == 0 && store(part, 1) == SIGSEGV && touch(part) == 0);
    CHECK(munmap(part, 40 * PAGE) == 0 && touch(part) == SIGSEGV);
    word *end = map_at(0, NR - 10, 10, protection, kind);
    CHECK((end = moved(end, 10, 30, may, 0)) != MAP_FAILED && touch(end + 10 * WORDS) == SIGBUS);
    check(end, NR - 10, 10);
    CHECK(munmap(end, 30 * PAGE) == 0 && munmap(map, 150 * PAGE) == 0 && touch(map) == SIGSEGV);
    CHECK(munmap(free, 4 * ROOM * PAGE) == 0);
    if (!is_shared) memcpy(twin, kept, sizeof twin);
}

// Random changes to four mappings of different parts.
static void by_chance(long nr_steps)
{
    struct { word *map; long from, nr; } all[4] = { 0 };
    word state = 9;
    for (long step = 0; step < nr_steps; step++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        long chance = state >> 33, nth = chance % 4, from = chance / 4 % (NR - 80), nr = 1 + chance % 79;
        if (!all[nth].map) {
            all[nth].map = map_at(0, from, nr, PROT_READ | PROT_WRITE, MAP_SHARED), all[nth].from = from, all[nth].nr = nr;
        } else if (chance % 7 < 3 && all[nth].from + nr <= NR) {
            word *map = moved(all[nth].map, all[nth].nr, nr, MREMAP_MAYMOVE, 0);
            CHECK(map != MAP_FAILED);
            all[nth].map = map, all[nth].nr = nr;
        } else if (chance % 7 == 3) {
            CHECK(munmap(all[nth].map, all[nth].nr * PAGE) == 0);
            all[nth].map = 0;
        } else if (chance % 7 == 4) {
            fill(from, state);
            CHECK(pwrite(fd, page, PAGE, from * PAGE) == PAGE);
        } else {
            long index = all[nth].from + chance % all[nth].nr;
            all[nth].map[(index - all[nth].from) * WORDS + index % WORDS] = twin[index] = state;
        }
        for (int other = 0; other < 4; other++)
            if (all[other].map) check(all[other].map, all[other].from, all[other].nr);
    }
    for (int nth = 0; nth < 4; nth++) if (all[nth].map) munmap(all[nth].map, all[nth].nr * PAGE);
}

int main(int nr, char **arguments)
{
    fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long index = 0; index < NR; index++) {
        fill(index, index * 0x9e3779b97f4a7c15ul + 1);
        CHECK(write(fd, page, PAGE) == PAGE);
    }
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    in_parts(PROT_READ, MAP_SHARED);
    in_parts(PROT_READ, MAP_PRIVATE);
    in_parts(PROT_READ | PROT_WRITE, MAP_SHARED);
    in_parts(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    by_chance(nr > 1 ? atol(arguments[1]) : 1500);
    for (long index = 0; index < NR; index++) {
        CHECK(pread(fd, page, PAGE, index * PAGE) == PAGE && page[index % WORDS] == twin[index]);
    }
    puts("ok");
    return 0;
}
