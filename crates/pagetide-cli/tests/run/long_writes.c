/* A signal handler writes to the same description during long writes. Argument: flags of
 * open(2). Prints ok at the end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { LONG = 1 << 20, WANTED = 60 };

static int file;
static volatile sig_atomic_t nr_handled;

static void ask_for_a_signal(void) {
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 200 + nr_handled * 17 % 400}}, NULL);
}

static void handle(int signal) {
    int before = errno;
    if (write(file, "b", 1) != 1) _exit(10);
    if (++nr_handled < WANTED) ask_for_a_signal();
    errno = before;
    (void)signal;
}

int main(int nr, char **arguments) {
    static char out[LONG], in[LONG + 1];
    file = open("f", O_RDWR | O_CREAT | O_TRUNC | (nr > 1 ? atoi(arguments[1]) : 0), 0644);
    memset(out, 'a', LONG);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    ask_for_a_signal();
    long nr_written = 0;
    for (; nr_handled < WANTED; nr_written++)
        if (write(file, out, LONG) != LONG) return 1;
    /* Each write is contiguous. */
    lseek(file, 0, SEEK_SET);
    int nr_short = 0;
    for (char first; read(file, &first, 1) == 1;) {
        if (first == 'b') {
            nr_short++;
            continue;
        }
        if (read(file, in, LONG - 1) != LONG - 1 || memcmp(in, out, LONG - 1)) return 2;
        nr_written--;
    }
    if (nr_short != WANTED || nr_written != 0) return 3;
    puts("ok");
    return 0;
}
