/* Takes the first record lock on a file while another thread of the process closes a descriptor
 * that the library has received of the file. Prints whether the lock is held afterwards.
 *
 *   supervisor   outside the run; it executes the command under a filter of system calls, and
 *                decides when the filtered calls are made (seccomp_unotify(2))
 *   reader       a thread that reads a file which was handed over, so that the library closes the
 *                received descriptor; the supervisor holds that close up
 *   locker       the main thread; it takes the lock meanwhile
 *
 * The close is made as soon as the locker waits for it, or has its lock. Started as
 * `compiled COMMAND..`, it is the supervisor. Exits with 77 where there is no such filter. */
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

/* The number at which descriptors are received, and a call that does nothing but tell. */
enum { RECEIVED = 100, TELLS = 0x7e11, MINUTE_MS = 60000 };
enum { IS_READER = 1, AWAITS_CLOSE = 2, HAS_LOCK = 3 };

static void fail(const char *what) {
    perror(what);
    _exit(99);
}

static int check(int result, const char *what) {
    if (result < 0) fail(what);
    return result;
}

/* ---- in the run ---- */

static int of_reader, of_other;

static void tell(int what) { syscall(SYS_getpriority, TELLS, what); }

static void *read_of_it(void *argument) {
    char byte;
    /* The thread has its connection to the server from here on. */
    if (pread(of_other, &byte, 1, 0) != 1) fail("pread of the other file");
    tell(IS_READER);
    if (pread(of_reader, &byte, 1, 0) != 1) fail("pread");
    return argument;
}

static int open_new(const char *name) {
    int fd = check(open(name, O_RDWR | O_CREAT | O_EXCL, 0600), name);
    if (write(fd, "written", 7) != 7) fail("write");
    return fd;
}

static int lock_meanwhile(void) {
    pthread_t reader;
    struct flock lock = {.l_type = F_WRLCK}, seen = {.l_type = F_WRLCK};
    of_other = open_new("other");
    int fd = open_new("file");
    of_reader = check(open("file", O_RDWR), "open again");
    check(flock(fd, LOCK_EX), "flock");
    for (int filler = 0; filler < RECEIVED - 1;) filler = check(fcntl(1, F_DUPFD, 3), "dup");
    pthread_create(&reader, NULL, read_of_it, NULL);
    tell(AWAITS_CLOSE);
    check(fcntl(fd, F_SETLK, &lock), "F_SETLK");
    tell(HAS_LOCK);
    pthread_join(reader, NULL);
    check(fcntl(fd, F_OFD_GETLK, &seen), "F_OFD_GETLK");
    puts(seen.l_type == F_UNLCK ? "lost" : "held");
    return 0;
}

/* ---- the supervisor ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, then, or_else) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, or_else)
#define END(action) BPF_STMT(BPF_RET | BPF_K, action)

static int install_filter(void) {
    struct sock_filter filter[] = {
        LOAD(nr), IF(SYS_sched_yield, 6, 0), IF(SYS_nanosleep, 5, 0), IF(SYS_close, 1, 0),
        IF(SYS_getpriority, 0, 4), LOAD(args[0]), IF(RECEIVED, 1, 0), IF(TELLS, 0, 1),
        END(SECCOMP_RET_USER_NOTIF), END(SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void let_go(int listener, __u64 *id) {
    struct seccomp_notif_resp answer = {.id = *id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (*id && ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) && errno != ENOENT) fail("send");
    *id = 0;
}

static void supervise(int listener) {
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    __u32 reader = 0, locker = 0;
    __u64 close_id = 0, locker_id = 0;
    for (;;) {
        if (poll(&ready, 1, MINUTE_MS) <= 0) fail("no call for a minute");
        if (ready.revents & POLLHUP) return;
        struct seccomp_notif call = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call)) continue;
        int told = call.data.nr == SYS_getpriority ? call.data.args[1] : 0;
        if (told == IS_READER) reader = call.pid;
        if (told == AWAITS_CLOSE) locker = call.pid, locker_id = call.id;
        else if (call.data.nr == SYS_close && call.pid == reader && !close_id) close_id = call.id;
        else {
            if (call.pid == locker) let_go(listener, &close_id), reader = 0;
            let_go(listener, &call.id);
        }
        if (close_id) let_go(listener, &locker_id);
    }
}

int main(int nr, char **arguments) {
    if (nr == 1) return lock_meanwhile();
    int told[2], answered[2], number, status;
    if (pipe2(told, O_CLOEXEC) || pipe2(answered, O_CLOEXEC)) fail("pipe");
    pid_t child = check(fork(), "fork");
    if (child == 0) {
        number = install_filter();
        if (write(told[1], &number, sizeof number) != sizeof number) _exit(98);
        if (read(answered[0], &number, 1) != 1) _exit(97);
        execvp(arguments[1], arguments + 1);
        fail(arguments[1]);
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
