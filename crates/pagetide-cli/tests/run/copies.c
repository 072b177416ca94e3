// Copies into an append-only or unwritable file are refused, including empty copies and copies
// during which the file goes to the kernel.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { LEN = 300000, SOURCE_LEN = 4 << 20, TURNS = 300 };

static void make(const char *name, size_t len) {
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *zeros = calloc(1, len);
    if (write(file, zeros, len) != (ssize_t)len) abort();
    free(zeros);
    close(file);
}

static void copy(int source, int target, off_t at, size_t len) {
    ssize_t nr = copy_file_range(source, &at, target, NULL, len, 0);
    printf(" %zd%s", nr, nr < 0 ? strerrorname_np(errno) : "");
}

static void refusals(int flags) {
    make("source", LEN);
    make("target", LEN);
    int source = open("source", O_RDWR), target = open("target", flags);
    printf("%o:", flags);
    copy(source, target, LEN, 5);
    copy(source, target, LEN + 1, 5);
    copy(source, target, 0, 0);
    copy(source, target, 0, 5);
    copy(source, target, LEN, 5);
    if (fcntl(target, F_SETFL, O_APPEND) == 0) copy(source, target, LEN, 5);
    putchar('\n');
    close(source);
    close(target);
}

static int target;

// Bypasses the library: the target goes to the kernel, which the process learns with its next call.
static void open_raw(int signal) {
    int fd;
    __asm__ volatile("syscall"
                     : "=a"(fd)
                     : "a"(SYS_open), "D"("target"), "S"(O_RDONLY), "d"(0)
                     : "rcx", "r11", "memory");
    if (fd >= 0) close(fd);
    lseek(target, 0, SEEK_CUR);
    (void)signal;
}

int main(void) {
    int modes[] = {O_WRONLY, O_RDWR, O_RDONLY};
    for (int mode = 0; mode < 3; mode++) {
        refusals(modes[mode]);
        refusals(modes[mode] | O_APPEND);
    }
    make("source", SOURCE_LEN);
    int source = open("source", O_RDWR);
    signal(SIGALRM, open_raw);
    for (int turn = 0; turn < TURNS; turn++) {
        // A new file, unknown to other processes and to the kernel.
        unlink("target");
        make("target", LEN);
        target = open("target", O_WRONLY | O_APPEND);
        struct itimerval soon = {.it_value.tv_usec = 1 + turn * 37 % 700};
        off_t at = turn * 1000003L % SOURCE_LEN;
        setitimer(ITIMER_REAL, &soon, NULL);
        ssize_t nr = copy_file_range(source, &at, target, NULL, LEN, 0);
        int why = errno;
        memset(&soon, 0, sizeof soon);
        setitimer(ITIMER_REAL, &soon, NULL);
        struct stat now;
        fstat(target, &now);
        close(target);
        if (nr >= 0 || why != EBADF || now.st_size != LEN) {
            printf("turn %d: %zd, errno %d, %ld bytes\n", turn, nr, why, (long)now.st_size);
            return 1;
        }
    }
    puts("over");
    return 0;
}
