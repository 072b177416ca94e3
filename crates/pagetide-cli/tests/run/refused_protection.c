/* Prints which pages can be read and written after an mprotect that the kernel refuses half way. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, NR = 8 };
static sigjmp_buf refused;

static void refuse(int signal) { siglongjmp(refused, signal); }

static int reads(volatile char *at) {
    if (sigsetjmp(refused, 1)) return 0;
    (void)*at;
    return 1;
}

static int writes(volatile char *at) {
    if (sigsetjmp(refused, 1)) return 0;
    *at = 1;
    return 1;
}

static void look(int fd, int sharing, int hole, int protection) {
    char *at = mmap(NULL, NR * PAGE, PROT_READ | PROT_WRITE, sharing, fd, 0);
    munmap(at + hole * PAGE, PAGE);
    int result = mprotect(at, NR * PAGE, protection);
    printf("%d %d:", result, result ? errno : 0);
    for (int page = 0; page < NR; page++)
        if (page != hole) printf(" %d%d", reads(at + page * PAGE), writes(at + page * PAGE));
    puts("");
    munmap(at, NR * PAGE);
}

int main(void) {
    signal(SIGSEGV, refuse);
    static char bytes[300000];
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    if (write(fd, bytes, sizeof bytes) != sizeof bytes) return 1;
    int holes[] = {0, 2, NR - 1};
    for (int nr = 0; nr < 3; nr++)
        for (int sharing = MAP_SHARED; sharing <= MAP_PRIVATE; sharing++) {
            look(fd, sharing, holes[nr], PROT_READ);
            look(fd, sharing, holes[nr], PROT_NONE);
        }
    return 0;
}
