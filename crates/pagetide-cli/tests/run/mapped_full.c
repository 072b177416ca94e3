// Stores to a mapped file on a full disk: SIGBUS, and earlier stores are kept. Ends with "ok".
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, NR = 600 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static sigjmp_buf before;
static volatile int nr_stored;
static char bytes[PAGE];

static void on_signal(int signal) { siglongjmp(before, signal); }

int main(int nr_arguments, char **arguments)
{
    CHECK(chdir(arguments[1]) == 0);
    int fd = open("big", O_RDWR | O_CREAT, 0600), other;
    CHECK(ftruncate(fd, NR * PAGE) == 0);
    volatile char *map = mmap(0, NR * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    signal(SIGBUS, on_signal);
    int ended = sigsetjmp(before, 1);
    if (!ended) for (; nr_stored < NR; nr_stored++) map[nr_stored * PAGE + 7] = 'a' + nr_stored % 26;
    // The disk has room for 256 pages.
    CHECK(ended == SIGBUS && nr_stored > 100 && nr_stored <= 256);
    for (int nth = 0; nth < nr_stored; nth++) CHECK(map[nth * PAGE + 7] == 'a' + nth % 26);
    CHECK(msync((void *)map, nr_stored * PAGE, MS_SYNC) == 0);
    for (int nth = 0; nth < nr_stored; nth++)
        CHECK(pread(fd, bytes, PAGE, nth * PAGE) == PAGE && bytes[7] == 'a' + nth % 26);
    // The rest fits once there is room.
    CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, NR * PAGE) == 0);
    CHECK(sigsetjmp(before, 1) == 0);
    map[50 * PAGE] = 'r';
    CHECK(msync((void *)map, NR * PAGE, MS_SYNC) == 0 && pread(fd, bytes, 1, 50 * PAGE) == 1 && bytes[0] == 'r');
    puts("ok");
    return 0;
}
