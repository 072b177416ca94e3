/* Two threads of a program in a run. A supervisor holds one thread up in the middle of a call of
 * the library.
 *
 *   supervisor    outside the run; executes the command under a filter of system calls, and decides
 *                 when the filtered calls are made (seccomp_unotify(2))
 *   second        a thread that reads a file which was handed over, or creates one; the supervisor
 *                 holds up one of the library's calls
 *   main thread   acts meanwhile; the held call is made as soon as this thread waits, or says so
 *
 * `compiled CASE COMMAND..` runs the supervisor, which starts `COMMAND.. CASE`. The supervisor
 * exits with 77 if the kernel has no such filter. The cases:
 *
 *   lock        the library closes a received descriptor, and the main thread takes the first
 *               record lock on the file; prints if the lock is held afterwards
 *   overtaken   the same, but the main thread is about to take the lock before the second thread
 *               reads, and has the lock before the close; prints the same
 *   created     the library replaces the descriptor of a new file by a stand-in, and the main
 *               thread opens the file and takes the first record lock; prints the same
 *   forgotten   the second thread asks the server for bytes, and the main thread gets the real
 *               descriptor meanwhile, so that the server forgets the description; prints the byte
 *               that the second thread reads */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of the first received descriptor, and a call that only tells the supervisor. */
enum { RECEIVED = 100, TELLS = 0x7e11, MINUTE_MS = 60000 };
enum { IS_SECOND = 1, AWAITS_HELD_CALL, AWAITS_HELD_LOCK, TAKES_LOCK, IS_DONE };

static void fail(const char *what) {
    perror(what);
    _exit(99);
}

static int check(int result, const char *what) {
    if (result < 0) fail(what);
    return result;
}

/* ---- in the run ---- */

static int of_main, of_second, of_other, held_call, is_lock_held_up;
static char has_read = '-';

static void tell(int what) { syscall(SYS_getpriority, TELLS, what, held_call, is_lock_held_up); }

static void *second(void *argument) {
    char byte;
    /* The thread is connected to the server from here on. */
    if (pread(of_other, &byte, 1, 0) != 1) fail("pread of the other file");
    tell(IS_SECOND);
    if (is_lock_held_up) tell(AWAITS_HELD_LOCK);
    if (held_call == SYS_dup3) check(open("new", O_RDWR | O_CREAT, 0600), "new");
    else if (pread(of_second, &has_read, 1, 0) != 1) fail("pread");
    tell(IS_DONE);
    return argument;
}

static int open_new(const char *name) {
    int fd = check(open(name, O_RDWR | O_CREAT | O_EXCL, 0600), name);
    if (write(fd, "written", 7) != 7) fail("write");
    return fd;
}

static void take_lock(void) {
    struct flock seen = {.l_type = F_WRLCK}, lock = {.l_type = F_WRLCK};
    /* The process has the direct descriptor from here on. */
    check(fcntl(of_main, F_GETLK, &seen), "F_GETLK");
    tell(TAKES_LOCK);
    check(fcntl(of_main, F_SETLK, &lock), "F_SETLK");
}

/* Returns the number of the server's descriptors for requests on the file. The descriptor by which
 * the server counts pages in the kernel's page cache is non-blocking. */
static int has_server(const char *name) {
    char path[64], target[256], about[256];
    int nr = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        target[len < 0 ? 0 : len] = 0;
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", getppid(), fd);
        FILE *info = fopen(path, "r");
        int flags = 0;
        while (info && fgets(about, sizeof about, info)) sscanf(about, "flags: %o", &flags);
        if (info) fclose(info);
        nr += len > 0 && !(flags & O_NONBLOCK) && !strcmp(strrchr(target, '/') ? strrchr(target, '/') + 1 : target, name);
    }
    return nr;
}

/* Replaces the reader's stand-in by the real descriptor, and waits until the server has none. */
static void make_forgotten(void) {
    check(fcntl(of_second, F_GETFL), "F_GETFL");
    for (int ms = 0; has_server("file"); ms++) {
        if (ms == MINUTE_MS) fail("the server keeps the description");
        poll(NULL, 0, 1);
    }
}

static int in_run(const char *which) {
    pthread_t thread;
    struct flock seen = {.l_type = F_WRLCK};
    held_call = *which == 'c' ? SYS_dup3 : *which == 'f' ? SYS_sendmsg : SYS_close;
    is_lock_held_up = *which == 'o';
    of_other = open_new("other");
    of_main = open_new("file");
    of_second = check(open("file", O_RDWR), "open again");
    /* The file is handed over. */
    struct pollfd polled = {.fd = of_main};
    check(poll(&polled, 1, 0), "poll");
    for (int filler = 0; filler < RECEIVED - 1;) filler = check(fcntl(1, F_DUPFD, 3), "dup");
    pthread_create(&thread, NULL, second, NULL);
    if (!is_lock_held_up) tell(AWAITS_HELD_CALL);
    if (*which == 'c') of_main = check(open("new", O_RDWR), "open the new file");
    *which == 'f' ? make_forgotten() : take_lock();
    tell(IS_DONE);
    pthread_join(thread, NULL);
    check(fcntl(of_main, F_OFD_GETLK, &seen), "F_OFD_GETLK");
    printf("%c, %s\n", has_read, seen.l_type == F_UNLCK ? "no lock" : "a lock");
    return 0;
}

/* ---- the supervisor ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, then, or_else) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, or_else)
#define END(action) BPF_STMT(BPF_RET | BPF_K, action)

static int install_filter(void) {
    struct sock_filter filter[] = {
        LOAD(nr), IF(SYS_sched_yield, 11, 0), IF(SYS_nanosleep, 10, 0), IF(SYS_sendmsg, 9, 0),
        IF(SYS_dup3, 8, 0), IF(SYS_fcntl, 5, 0), IF(SYS_close, 1, 0), IF(SYS_getpriority, 0, 6),
        LOAD(args[0]), IF(RECEIVED, 3, 0), IF(TELLS, 2, 3), LOAD(args[1]), IF(F_SETLK, 0, 1),
        END(SECCOMP_RET_USER_NOTIF), END(SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void let_go(int listener, __u64 *id) {
    struct seccomp_notif_resp answer = {.id = *id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (*id && ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) && errno != ENOENT) fail("send");
    *id = 0;
}

static void supervise(int listener) {
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    __u32 second = 0, locker = 0, nr_held = 0, nr_lock = 0;
    __u64 held_id = 0, lock_id = 0, waits_for_held = 0, waits_for_lock = 0;
    for (;;) {
        if (poll(&ready, 1, MINUTE_MS) <= 0) fail("no call for a minute");
        if (ready.revents & POLLHUP) return;
        struct seccomp_notif call = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) continue;
        int nr = call.data.nr, told = nr == SYS_getpriority ? call.data.args[1] : 0;
        int pauses = call.pid == locker && (nr == SYS_sched_yield || nr == SYS_nanosleep);
        if (told == TAKES_LOCK) locker = call.pid, nr_lock = call.data.args[3] ? SYS_fcntl : 0;
        if (pauses || told == IS_DONE) let_go(listener, &held_id), let_go(listener, &lock_id);
        if (second && call.pid == second && nr == nr_held) held_id = call.id, second = 0;
        else if (nr_lock && call.pid == locker && nr == nr_lock) lock_id = call.id, nr_lock = 0;
        else if (told == AWAITS_HELD_CALL) waits_for_held = call.id;
        else if (told == AWAITS_HELD_LOCK) waits_for_lock = call.id;
        else let_go(listener, &call.id);
        if (told == IS_SECOND) second = call.pid, nr_held = call.data.args[2];
        if (lock_id) let_go(listener, &waits_for_lock);
        if (held_id) let_go(listener, &waits_for_held);
        if (held_id && lock_id) let_go(listener, &lock_id);
    }
}

int main(int nr, char **arguments) {
    if (nr == 2) return in_run(arguments[1]);
    char **command = calloc(nr + 1, sizeof *command);
    for (int nth = 2; nth < nr; nth++) command[nth - 2] = arguments[nth];
    command[nr - 2] = arguments[1];
    int told[2], answered[2], number, status;
    if (pipe2(told, O_CLOEXEC) || pipe2(answered, O_CLOEXEC)) fail("pipe");
    pid_t child = check(fork(), "fork");
    if (child == 0) {
        number = install_filter();
        if (write(told[1], &number, sizeof number) != sizeof number) _exit(98);
        if (read(answered[0], &number, 1) != 1) _exit(97);
        execvp(command[0], command);
        fail(command[0]);
    }
    if (read(told[0], &number, sizeof number) != sizeof number || number < 0) return 77;
    int process = check(syscall(SYS_pidfd_open, child, 0), "pidfd_open");
    int listener = syscall(SYS_pidfd_getfd, process, number, 0);
    if (listener < 0) return 77;
    if (write(answered[1], ".", 1) != 1) fail("answer");
    supervise(listener);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 96;
}
