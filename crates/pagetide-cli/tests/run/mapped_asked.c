// Requests about mapped memory: residency, locking, advice. Ends with "ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, NR = 200 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static char bytes[PAGE];
static unsigned char there[NR];
static int fd;

static volatile char *map(int protection, int flags)
{
    volatile char *map = mmap(0, NR * PAGE, protection, flags, fd, 0);
    CHECK(map != MAP_FAILED);
    return map;
}

static int nr_there(volatile char *map)
{
    int nr = 0;
    CHECK(mincore((void *)map, NR * PAGE, there) == 0);
    for (int nth = 0; nth < NR; nth++) nr += there[nth] & 1;
    return nr;
}

static void check(volatile char *map) { for (int nth = 0; nth < NR; nth++) CHECK(map[nth * PAGE] == 'a' + nth % 26); }

int main(void)
{
    int both = PROT_READ | PROT_WRITE;
    fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int nth = 0; nth < NR; nth++) {
        memset(bytes, 'a' + nth % 26, PAGE);
        CHECK(write(fd, bytes, PAGE) == PAGE);
    }
    CHECK(fsync(fd) == 0);
    // At mmap.
    volatile char *at_once = map(PROT_READ, MAP_SHARED | MAP_POPULATE);
    CHECK(nr_there(at_once) == NR);
    volatile char *own = map(both, MAP_PRIVATE | MAP_POPULATE), *shared = map(both, MAP_SHARED | MAP_POPULATE);
    CHECK(nr_there(own) == NR && nr_there(shared) == NR);
    check(at_once), check(own), check(shared);
    // Later.
    for (int advice = MADV_NORMAL; advice <= MADV_DONTNEED; advice++) {
        CHECK(madvise((void *)at_once, NR * PAGE, advice) == 0 && madvise((void *)shared, NR * PAGE, advice) == 0);
        check(at_once), check(shared);
    }
    CHECK(madvise((void *)at_once, NR * PAGE, MADV_POPULATE_READ) == 0 && nr_there(at_once) == NR);
    shared[5 * PAGE + 1] = '5', own[5 * PAGE + 1] = '6';
    CHECK(madvise((void *)shared, NR * PAGE, MADV_POPULATE_WRITE) == 0 && nr_there(shared) == NR);
    CHECK(madvise((void *)own, NR * PAGE, MADV_POPULATE_WRITE) == 0 && nr_there(own) == NR);
    CHECK(shared[5 * PAGE + 1] == '5' && own[5 * PAGE + 1] == '6' && at_once[5 * PAGE + 1] == '5');
    CHECK(madvise((void *)own, NR * PAGE, MADV_DONTNEED) == 0 && own[5 * PAGE + 1] == '5');
    check(own), check(shared);
    // Locks private memory.
    CHECK(mlock((void *)own, 10 * PAGE) == 0 && own[5 * PAGE + 1] == '5');
    shared[5 * PAGE + 1] = '7';
    CHECK(own[5 * PAGE + 1] == '5' && munlock((void *)own, 10 * PAGE) == 0);
    // Locks the file's memory.
    CHECK(mlock((void *)shared, 50 * PAGE) == 0 && mlock2((void *)at_once, 50 * PAGE, MLOCK_ONFAULT) == 0);
    CHECK(munlock((void *)shared, 50 * PAGE) == 0 && munlock((void *)at_once, 50 * PAGE) == 0);
    check(at_once), check(own), check(shared);
    CHECK(pread(fd, bytes, PAGE, 5 * PAGE) == PAGE && bytes[1] == '7' && bytes[2] == 'f');
    puts("ok");
    return 0;
}
