/* File I/O in a signal handler that interrupts file I/O. Prints ok at the end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { PAGE = 4096, INNER = 64, LONG = 50, WANTED = 200 };

static int inner;
static volatile sig_atomic_t nr_handled;

/* Once: a slow handler would starve the interrupted code. */
static void ask_for_a_signal(void) {
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 300}}, NULL);
}

static void handle(int signal) {
    static char bytes[PAGE];
    int before = errno, page = nr_handled % INNER;
    if (pread(inner, bytes, PAGE, page * PAGE) != PAGE) _exit(10);
    if (bytes[0] != page + 1 || memcmp(bytes, bytes + 1, PAGE - 1)) _exit(11);
    if (pwrite(inner, bytes, PAGE, page * PAGE) != PAGE) _exit(12);
    if (++nr_handled < WANTED) ask_for_a_signal();
    errno = before;
    (void)signal;
}

int main(void) {
    static char out[LONG * PAGE], in[LONG * PAGE];
    int outer = open("outer", O_RDWR | O_CREAT, 0644);
    inner = open("inner", O_RDWR | O_CREAT, 0644);
    for (int page = 0; page < INNER; page++) {
        memset(out, page + 1, PAGE);
        if (pwrite(inner, out, PAGE, page * PAGE) != PAGE) return 1;
    }
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    ask_for_a_signal();
    for (int turn = 0; nr_handled < WANTED; turn++) {
        ssize_t len = turn % 3 ? PAGE : LONG * PAGE;
        memset(out, turn % 251, len);
        off_t at = (off_t)(turn % 37) * PAGE;
        if (pwrite(outer, out, len, at) != len) return 2;
        if (pread(outer, in, len, at) != len) return 3;
        if (memcmp(in, out, len)) return 4;
    }
    puts("ok");
    return 0;
}
