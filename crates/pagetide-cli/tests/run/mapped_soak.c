// Four processes write their own pages of a mapped file and read all pages. Ends with "ok".
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, NR = 1200, NR_PROCESSES = 4 };
typedef unsigned long word;
static word seen[NR], page[WORDS], back[WORDS];

static word next(word *state) { *state = *state * 6364136223846793005ul + 1442695040888963407ul; return *state >> 33; }

static int soak(int own, long nr_steps)
{
    int fd = open("pages", O_RDWR);
    volatile word *map = mmap(0, NR * PAGE, PROT_READ, own % 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    word state = own + 1;
    if (fd < 0 || map == MAP_FAILED) return 1;
    for (long step = 1; step <= nr_steps; step++) {
        long index = next(&state) % NR;
        word found = map[index * WORDS + next(&state) % WORDS];
        // Each page has one writer, with rising steps.
        if (found < seen[index] || index % NR_PROCESSES == own && found != seen[index]) {
            printf("%d: page %ld has %lu, not %lu\n", own, index, found, seen[index]);
            return 1;
        }
        seen[index] = found;
        if (next(&state) % 3 == 0) {
            index = index / NR_PROCESSES * NR_PROCESSES + own;
            for (int at = 0; at < WORDS; at++) page[at] = step;
            if (pwrite(fd, page, PAGE, index * PAGE) != PAGE) return 2;
            seen[index] = step;
            if (next(&state) % 2) {
                if (pread(fd, back, PAGE, index * PAGE) != PAGE || memcmp(page, back, PAGE)) return 3;
            }
            if (map[index * WORDS + 7] != (word)step) return 4;
        }
        if (next(&state) % 64 == 0) munmap((void *)map, NR * PAGE),
            map = mmap(0, NR * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        if (next(&state) % 512 == 0) fsync(fd);
    }
    for (long index = own; index < NR; index += NR_PROCESSES)
        if (map[index * WORDS] != seen[index] || map[index * WORDS + 511] != seen[index]) return 5;
    return 0;
}

int main(int nr_arguments, char **arguments)
{
    int fd = open("pages", O_RDWR | O_CREAT | O_TRUNC, 0600), failed = 0;
    if (ftruncate(fd, NR * PAGE)) return 1;
    for (int own = 0; own < NR_PROCESSES; own++)
        if (!fork()) exit(soak(own, atol(arguments[1])));
    for (int own = 0, status; own < NR_PROCESSES; own++) { wait(&status); failed |= status; if (status) printf("a process ended with %#x\n", status); }
    if (!failed) puts("ok");
    return failed != 0;
}
