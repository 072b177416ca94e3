// Threads map and unmap memory with a canary per page and create threads, beside file mappings that
// are unmapped, replaced, moved, protected and handed over, and beside forks. Ends with "ok".
// Argument: seconds.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, NR = 64, NR_FILES = 2, NR_KEPT = 8, NR_NEIGHBOURS = 4 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); fflush(stdout); _exit(1); } } while (0)

typedef unsigned long word;
static atomic_int is_over;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *touch_stack(void *canary)
{
    volatile word room[4 * PAGE / sizeof(word)];
    for (unsigned at = 0; at < sizeof room / sizeof *room; at += 64) room[at] = (word)canary + at;
    sched_yield();
    for (unsigned at = 0; at < sizeof room / sizeof *room; at += 64) CHECK(room[at] == (word)canary + at);
    return 0;
}

// Memory of many sizes, including sizes of the mappings.
static void *neighbour(void *nth)
{
    word *kept[NR_KEPT] = {0};
    int pages[NR_KEPT], turn = 0;
    unsigned seed = (unsigned)(long)nth + 1;
    for (; !is_over; turn++) {
        int which = turn % NR_KEPT;
        if (kept[which]) {
            for (int page = 0; page < pages[which]; page++) CHECK(kept[which][page * 512] == (word)kept[which] + page);
            CHECK(munmap(kept[which], pages[which] * PAGE) == 0);
        }
        pages[which] = rand_r(&seed) % 3 ? NR >> rand_r(&seed) % 4 : 1 + rand_r(&seed) % NR;
        kept[which] = mmap(0, pages[which] * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(kept[which] != MAP_FAILED);
        for (int page = 0; page < pages[which]; page++) kept[which][page * 512] = (word)kept[which] + page;
        if (turn % 64 == 0) {
            pthread_t thread;
            CHECK(pthread_create(&thread, 0, touch_stack, kept) == 0);
            CHECK(pthread_join(thread, 0) == 0);
        }
    }
    return 0;
}

static void check(word *map, int from, int nr)
{
    for (int page = from; page < from + nr; page += 7) CHECK(map[(page - from) * 512] == (word)page);
}

static void change(int fd, unsigned *seed)
{
    int is_shared = rand_r(seed) % 2, is_stored = rand_r(seed) % 2;
    int protection = is_stored ? PROT_READ | PROT_WRITE : PROT_READ, kind = is_shared ? MAP_SHARED : MAP_PRIVATE;
    char *map = mmap(0, NR * PAGE, protection, kind, fd, 0), *other;
    CHECK(map != MAP_FAILED);
    check((word *)map, 0, NR);
    if (is_stored) for (int page = 0; page < NR; page += 5) *(word *)(map + page * PAGE) = page;
    switch (rand_r(seed) % 8) {
    case 0:
        CHECK(munmap(map + 16 * PAGE, 16 * PAGE) == 0);
        check((word *)map, 0, 16);
        CHECK(munmap(map, 16 * PAGE) == 0);
        map += 32 * PAGE;
        check((word *)map, 32, NR - 32);
        CHECK(munmap(map, (NR - 32) * PAGE) == 0);
        return;
    case 1:
        CHECK(mmap(map, NR * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == map);
        check((word *)map, 0, NR);
        break;
    case 2:
        CHECK(mmap(map + PAGE, NR / 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map + PAGE);
        CHECK(*(word *)(map + PAGE) == 0);
        break;
    case 3:
        other = mmap(0, NR * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(other != MAP_FAILED);
        check((word *)other, 0, NR);
        CHECK(mremap(map, NR * PAGE, NR * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
        map = other;
        check((word *)map, 0, NR);
        break;
    case 4:
        CHECK(mremap(map, NR * PAGE, NR / 2 * PAGE, 0) == map);
        check((word *)map, 0, NR / 2);
        CHECK(munmap(map, NR / 2 * PAGE) == 0);
        return;
    case 5:
        CHECK(mprotect(map + 8 * PAGE, 8 * PAGE, PROT_NONE) == 0);
        CHECK(mprotect(map, NR * PAGE, PROT_READ) == 0);
        check((word *)map, 0, NR);
        break;
    case 6:
        if (rand_r(seed) % 8 == 0) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) {
                check((word *)map, 0, NR);
                munmap(map, NR * PAGE);
                _exit(0);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            check((word *)map, 0, NR);
        }
        break;
    default:
        break;
    }
    CHECK(munmap(map, NR * PAGE) == 0);
}

static void fill(int fd)
{
    static word pages[NR * 512];
    for (int page = 0; page < NR; page++) pages[page * 512] = page;
    CHECK(pwrite(fd, pages, sizeof pages, 0) == sizeof pages);
}

static void *changer(void *nth)
{
    char name[32];
    unsigned seed = 100 + (unsigned)(long)nth;
    snprintf(name, sizeof name, "file%ld", (long)nth);
    for (int round = 0; !is_over; round++) {
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0);
        fill(fd);
        for (int turn = 0; turn < 50 && !is_over; turn++) change(fd, &seed);
        char *last = mmap(0, NR * PAGE, PROT_READ | PROT_WRITE, round % 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
        CHECK(last != MAP_FAILED);
        for (int page = 0; page < NR; page += 5) *(word *)(last + page * PAGE) = page;
        // The file goes to the kernel.
        if (round % 3) CHECK(mprotect(last, PAGE, PROT_READ | PROT_EXEC) == 0);
        else CHECK(poll(&(struct pollfd){fd}, 1, 0) == 0);
        check((word *)last, 0, NR);
        CHECK(ftruncate(fd, NR / 2 * PAGE) == 0);
        check((word *)last, 0, NR / 2);
        CHECK(munmap(last, NR * PAGE) == 0);
        CHECK(close(fd) == 0 && unlink(name) == 0);
    }
    return 0;
}

int main(int nr_arguments, char **arguments)
{
    pthread_t threads[NR_FILES + NR_NEIGHBOURS];
    double end = now() + (nr_arguments > 1 ? atof(arguments[1]) : 1);
    for (long nth = 0; nth < NR_FILES + NR_NEIGHBOURS; nth++) {
        void *(*run)(void *) = nth < NR_FILES ? changer : neighbour;
        CHECK(pthread_create(&threads[nth], 0, run, (void *)nth) == 0);
    }
    while (now() < end) usleep(10000);
    is_over = 1;
    for (int nth = 0; nth < NR_FILES + NR_NEIGHBOURS; nth++) CHECK(pthread_join(threads[nth], 0) == 0);
    puts("ok");
    return 0;
}
