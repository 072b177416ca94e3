/* Takes every kind of lock, and ends or moves the lock in every way. Prints the state that another
 * process finds directly after each step. The test compares a run's lines with the kernel's.
 *
 *   holder    takes the lock, makes a step, and has the main process look before the next step
 *   beside    a process that has the file open, or mapped, or no such process
 *   prober    answers a look: opens the file and tries to lock it; one is in the run, one outside
 *
 * The states are X (exclusive lock), S (shared lock) and - (no lock). A look at a record lock
 * covers three parts of the file.
 *
 * LOCK_WAY=close in the environment runs all cases of the ways with "close" in the name, and
 * LOCKS_ALL=1 runs all cases of all ways.
 *
 * `compiled COMMAND..` is the outside prober, and executes the command. The command must start
 * this program again with three more arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 300000, PART = 100000 };
enum kind { FLOCK, POSIX, OFD, NR_KINDS };
static const char *const kinds[] = {"flock", "posix", "ofd"};

static void fail(const char *what) {
    perror(what);
    _exit(99);
}

static int check(int result, const char *what) {
    if (result < 0) fail(what);
    return result;
}

/* ---- locks ---- */

/* Locks (F_WRLCK, F_RDLCK) or unlocks (F_UNLCK) a part. Fails if another lock conflicts. */
static int lock_part(int kind, int fd, int how, off_t start, off_t len) {
    struct flock lock = {.l_type = how, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(fd, kind == OFD ? F_OFD_SETLK : F_SETLK, &lock);
}

static int lock(int kind, int fd, int how) {
    if (kind != FLOCK) return lock_part(kind, fd, how, 0, 0);
    int operation = how == F_WRLCK ? LOCK_EX : how == F_RDLCK ? LOCK_SH : LOCK_UN;
    return flock(fd, operation | LOCK_NB);
}

static char state_of(int kind, int fd, off_t start, off_t len) {
    for (int how = F_WRLCK, tries = 0; tries < 2; how = F_RDLCK, tries++) {
        int result = kind == FLOCK ? lock(kind, fd, how) : lock_part(kind, fd, how, start, len);
        if (result == 0) return how == F_WRLCK ? '-' : 'S';
        if (errno != EAGAIN && errno != EACCES) fail("lock");
    }
    return 'X';
}

/* ---- probers ---- */

static void probe(int asked, int answer) {
    char kind;
    while (read(asked, &kind, 1) == 1) {
        char seen[3] = {' ', ' ', ' '};
        int fd = check(open("file", O_RDWR | O_CLOEXEC), "open to probe");
        for (int part = 0; part < (kind == FLOCK ? 1 : 3); part++)
            seen[part] = state_of(kind, fd, part * PART, PART);
        close(fd);
        if (write(answer, seen, 3) != 3) _exit(1);
    }
}

struct prober { int ask, answer; };

static struct prober start_prober(void) {
    int asked[2], answer[2];
    if (pipe(asked) || pipe(answer)) fail("pipe");
    if (check(fork(), "fork") == 0) {
        close(asked[1]);
        close(answer[0]);
        probe(asked[0], answer[1]);
        _exit(0);
    }
    close(asked[0]);
    close(answer[1]);
    return (struct prober){asked[1], answer[0]};
}

/* ---- the holder and its children ---- */

/* The holder's ends of the pipes, at numbers that no step closes. */
enum { SAY = 40, HEAR = 41 };
static char *program, *static_program;
static int kind, how;

/* Has the main process look. */
static void look(void) {
    char byte = '.';
    if (write(SAY, &byte, 1) != 1 || read(HEAR, &byte, 1) != 1) _exit(1);
}

/* True if the lock is looked at before the step: in half of the cases, as a look opens the file. */
static int looks_first;

static int take(void) {
    int fd = check(open("file", how == F_RDLCK ? O_RDONLY : O_RDWR), "open to hold");
    char byte;
    if (pread(fd, &byte, 1, 5) != 1) fail("pread");
    check(lock(kind, fd, how), "lock to hold");
    if (looks_first) look();
    return fd;
}

static int open_null(void) { return check(open("/dev/null", O_RDWR), "/dev/null"); }

/* A child that takes turns with the parent, by a pipe each. */
struct turns { pid_t pid; int mine[2], its[2]; };

static int begin_child(struct turns *turns) {
    if (pipe(turns->mine) || pipe(turns->its)) fail("pipe");
    turns->pid = check(fork(), "fork");
    return turns->pid == 0;
}

static void pass(int pipe[2]) {
    if (write(pipe[1], ".", 1) != 1) fail("pass");
}

static void await(int pipe[2]) {
    char byte;
    if (read(pipe[0], &byte, 1) != 1) _exit(1);
}

/* ---- ends within the process ---- */

static void ends_by_close(void) { close(take()); look(); }

static void ends_by_close_of_dup(void) {
    int fd = take(), copy = dup(fd);
    close(fd);
    look();
    close(copy);
    look();
}

static void ends_by_close_of_first(void) {
    int fd = take(), copy = fcntl(fd, F_DUPFD_CLOEXEC, 60);
    close(copy);
    look();
    close(fd);
    look();
}

static void ends_by_dup2(void) { int fd = take(); dup2(HEAR, fd); look(); }
static void ends_by_dup3(void) { int fd = take(); dup3(HEAR, fd, O_CLOEXEC); look(); }

static void moves_by_dup2(void) {
    int fd = take(), target = open_null();
    dup2(fd, target);
    close(fd);
    look();
    dup2(HEAR, target);
    look();
}

static void ends_by_dup2_of_the_same_file(void) {
    int other = check(open("file", O_RDONLY), "open"), fd = take();
    dup2(other, fd);
    look();
    close(fd);
    close(other);
    look();
}

static void ends_by_close_range(void) { int fd = take(); close_range(fd, fd, 0); look(); }

static void ends_by_close_range_with_flags(void) {
    int fd = take();
    check(close_range(fd, fd, CLOSE_RANGE_CLOEXEC), "close_range");
    look();
    check(close_range(fd, fd, CLOSE_RANGE_UNSHARE), "close_range");
    look();
}

static void ends_by_closefrom(void) {
    int fd = take(), copy = fcntl(fd, F_DUPFD, 60);
    close(fd);
    look();
    closefrom(copy);
    look();
}

static void ends_by_fclose(void) {
    FILE *stream = fdopen(take(), how == F_RDLCK ? "r" : "r+");
    look();
    fclose(stream);
    look();
}

static void ends_by_freopen(void) {
    FILE *stream = fdopen(take(), how == F_RDLCK ? "r" : "r+");
    fgetc(stream);
    if (!freopen("/dev/null", "r", stream)) fail("freopen");
    look();
    fclose(stream);
}

static void ends_by_syscall(void) { syscall(SYS_close, take()); look(); }

static void stays_by_close_of_another(void) {
    int fd = take();
    close(check(open("file", O_RDONLY), "open"));
    look();
    close(fd);
    look();
}

static void stays_by_close_of_reopened(void) {
    char path[40];
    int fd = take();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    close(check(open(path, O_RDONLY), "open"));
    look();
    close(fd);
    look();
}

static void stays_by_close_of_path(void) {
    int fd = take();
    close(check(open("file", O_PATH), "open"));
    look();
    close(fd);
    look();
}

static void ends_by_unlock(void) {
    int fd = take();
    check(lock(kind, fd, F_UNLCK), "unlock");
    look();
    close(fd);
    look();
}

static void ends_by_unlock_of_dup(void) {
    int fd = take(), copy = dup(fd);
    check(lock(kind, copy, F_UNLCK), "unlock");
    close(copy);
    look();
    close(fd);
    look();
}

static void ends_in_part(void) {
    int fd = take();
    if (kind != FLOCK) check(lock_part(kind, fd, F_UNLCK, PART, PART), "unlock");
    look();
    if (kind != FLOCK) check(lock_part(kind, fd, F_UNLCK, 0, PART), "unlock");
    look();
    close(fd);
    look();
}

static void converts(void) {
    int fd = take();
    if (how == F_WRLCK) check(lock(kind, fd, F_RDLCK), "convert");
    else if (kind == FLOCK) check(lock(kind, fd, F_WRLCK), "convert");
    look();
    if (kind != FLOCK && how == F_WRLCK) check(lock_part(kind, fd, F_WRLCK, PART, PART), "convert");
    look();
    close(fd);
    look();
}

static void two_descriptions(void) {
    int fd = take(), other = check(open("file", O_RDONLY), "open");
    if (how == F_RDLCK) check(lock(kind, other, how), "lock again");
    close(fd);
    look();
    close(other);
    look();
}

/* ---- mappings ---- */

static void touch(volatile char *mapped) { (void)mapped[200000]; }

static char *map(int fd) {
    int access = how == F_RDLCK ? PROT_READ : PROT_READ | PROT_WRITE;
    char *mapped = mmap(NULL, LEN, access, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) fail("mmap");
    touch(mapped);
    return mapped;
}

static void ends_by_munmap(void) {
    int fd = take();
    char *mapped = map(fd);
    look();
    close(fd);
    look();
    munmap(mapped, LEN);
    look();
}

static void ends_by_munmap_in_parts(void) {
    int fd = take();
    char *mapped = map(fd);
    close(fd);
    look();
    munmap(mapped, 4096 * 10);
    look();
    munmap(mapped + 4096 * 10, LEN - 4096 * 10);
    look();
}

static void ends_by_mapping_over(void) {
    int fd = take();
    char *mapped = map(fd);
    close(fd);
    look();
    mmap(mapped, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    look();
}

static void ends_by_close_after_munmap(void) {
    int fd = take();
    munmap(map(fd), LEN);
    look();
    close(fd);
    look();
}

static void ends_by_exit_of_mapper(void) {
    int fd = take();
    map(fd);
    close(fd);
    look();
}

/* The child has inherited a mapping, and no descriptor is left. */
static void child_keeps_mapping(void) {
    struct turns turns;
    int fd = take();
    char *mapped = map(fd);
    close(fd);
    if (begin_child(&turns)) {
        await(turns.mine);
        munmap(mapped, LEN);
        look();
        _exit(0);
    }
    munmap(mapped, LEN);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

/* ---- ends of the process ---- */

static void ends_by_return(void) { take(); }
static void ends_by_exit(void) { take(); exit(0); }
static void ends_by_quick_exit(void) { take(); quick_exit(0); }
static void ends_by__exit(void) { take(); _exit(0); }
static void ends_by_system_exit(void) { take(); syscall(SYS_exit_group, 0); }
static void ends_by_kill(void) { take(); raise(SIGKILL); }
static void ends_by_abort(void) { take(); abort(); }

/* ---- threads ---- */

static void *take_in_thread(void *at) { *(int *)at = take(); return NULL; }

static void stays_by_exit_of_thread(void) {
    pthread_t thread;
    int fd;
    pthread_create(&thread, NULL, take_in_thread, &fd);
    pthread_join(thread, NULL);
    look();
    close(fd);
    look();
}

static void *close_in_thread(void *at) { close(*(int *)at); return NULL; }

static void ends_by_close_in_thread(void) {
    pthread_t thread;
    int fd = take();
    pthread_create(&thread, NULL, close_in_thread, &fd);
    pthread_join(thread, NULL);
    look();
}

/* ---- exec ---- */

static void set_cloexec(int fd, int is_set) { fcntl(fd, F_SETFD, is_set ? FD_CLOEXEC : 0); }

/* Runs in the executed program: looks before the first call, and closes the descriptor. */
static void executed(const char *number) {
    look();
    close(atoi(number));
    look();
    exit(0);
}

static void execute(const char *path, int fd) {
    char number[12], how_many[2] = {'0' + kind, 0};
    snprintf(number, sizeof number, "%d", fd);
    execl(path, path, "executed", number, how_many, NULL);
    fail("exec");
}

static void stays_by_exec(void) { execute(program, take()); }
static void stays_by_exec_of_static(void) { execute(static_program, take()); }

static void ends_by_exec(void) {
    int fd = take();
    set_cloexec(fd, 1);
    execute(program, fd);
}

static void ends_by_exec_of_static(void) {
    int fd = take();
    set_cloexec(fd, 1);
    execute(static_program, fd);
}

static void stays_by_exec_of_dup(void) {
    int fd = take(), copy = dup(fd);
    set_cloexec(fd, 1);
    execute(program, copy);
}

static void stays_by_failed_exec(void) {
    int fd = take();
    set_cloexec(fd, 1);
    execl("./missing", "missing", NULL);
    look();
    close(fd);
    look();
}

static void ends_by_exec_of_mapper(void) {
    int fd = take();
    map(fd);
    close(fd);
    execute(program, fd);
}

/* ---- children ---- */

static void child_keeps(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        await(turns.mine);
        close(fd);
        look();
        _exit(0);
    }
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

static void child_closes_first(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        close(fd);
        look();
        _exit(0);
    }
    waitpid(turns.pid, NULL, 0);
    look();
    close(fd);
    look();
}

static void child_exits_with_it(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        await(turns.mine);
        _exit(0);
    }
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

static void child_is_killed_with_it(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        await(turns.mine);
        _exit(0);
    }
    close(fd);
    look();
    kill(turns.pid, SIGKILL);
    waitpid(turns.pid, NULL, 0);
    look();
}

/* The child is forked before the lock is taken, and the child's descriptor is the last one in
 * the end. In the kernel, POSIX locks belong to the parent alone. */
static void early(int asks, void (*end)(int fd)) {
    struct turns turns;
    char byte;
    int fd = check(open("file", how == F_RDLCK ? O_RDONLY : O_RDWR), "open");
    if (begin_child(&turns)) {
        if (asks && pread(fd, &byte, 1, 7) != 1) fail("pread");
        pass(turns.its);
        await(turns.mine);
        end(fd);
        look();
        _exit(0);
    }
    await(turns.its);
    check(lock(kind, fd, how), "lock");
    if (looks_first) look();
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

static void by_close(int fd) { close(fd); }
static void by_close_range(int fd) { close_range(fd, fd, 0); }
static void by_dup2(int fd) { dup2(HEAR, fd); }
static void by_fclose(int fd) { fclose(fdopen(fd, "r")); }
static void by_exit(int fd) { (void)fd; _exit(0); }
static void by_kill(int fd) { (void)fd; raise(SIGKILL); }
static void by_exec(int fd) { set_cloexec(fd, 1); execute(program, fd); }
static void by_exec_of_static(int fd) { set_cloexec(fd, 1); execute(static_program, fd); }
static void by_close_after_exec(int fd) { execute(program, fd); }
static void by_failed_exec(int fd) {
    set_cloexec(fd, 1);
    execl("./missing", "missing", NULL);
    look();
    close(fd);
}
static void by_grandchild(int fd) {
    struct turns turns;
    if (begin_child(&turns)) {
        close(fd);
        look();
        _exit(0);
    }
    waitpid(turns.pid, NULL, 0);
    close(fd);
}

static void early_close(void) { early(0, by_close); }
static void early_close_range(void) { early(0, by_close_range); }
static void early_dup2(void) { early(0, by_dup2); }
static void early_fclose(void) { early(0, by_fclose); }
static void early_exit(void) { early(0, by_exit); }
static void early_kill(void) { early(0, by_kill); }
static void early_exec(void) { early(0, by_exec); }
static void early_exec_of_static(void) { early(0, by_exec_of_static); }
static void early_close_after_exec(void) { early(0, by_close_after_exec); }
static void early_failed_exec(void) { early(0, by_failed_exec); }
static void early_grandchild(void) { early(0, by_grandchild); }
static void early_user_close(void) { early(1, by_close); }
static void early_user_dup2(void) { early(1, by_dup2); }
static void early_user_exit(void) { early(1, by_exit); }
static void early_user_exec(void) { early(1, by_exec); }
static void early_user_exec_of_static(void) { early(1, by_exec_of_static); }

static void child_unlocks(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        lock(kind, fd, F_UNLCK);
        look();
        _exit(0);
    }
    waitpid(turns.pid, NULL, 0);
    look();
    close(fd);
    look();
}

static void child_puts_another_over_it(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        await(turns.mine);
        dup2(HEAR, fd);
        look();
        _exit(0);
    }
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
}

static void child_executes(void) {
    struct turns turns;
    int fd = take();
    if (begin_child(&turns)) {
        await(turns.mine);
        execute(program, fd);
    }
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

static void grandchild_keeps(void) {
    struct turns turns, more;
    int fd = take();
    if (begin_child(&turns)) {
        if (begin_child(&more)) {
            await(turns.mine);
            close(fd);
            look();
            pass(turns.its);
            _exit(0);
        }
        _exit(0);
    }
    waitpid(turns.pid, NULL, 0);
    close(fd);
    look();
    pass(turns.mine);
    await(turns.its);
}

static void vforked_child_executes(void) {
    int fd = take();
    pid_t child = vfork();
    if (child == 0) {
        execl(program, program, "paused", NULL);
        _exit(1);
    }
    close(fd);
    look();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    look();
}

extern char **environ;

static void spawned_child_has_it(void) {
    pid_t child;
    char *arguments[] = {program, "paused", NULL};
    int fd = take();
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ)) fail("posix_spawn");
    close(fd);
    look();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    look();
}

static void spawned_child_closes_it(void) {
    pid_t child;
    posix_spawn_file_actions_t actions;
    char *arguments[] = {program, "paused", NULL};
    int fd = take();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, fd);
    if (posix_spawn(&child, program, &actions, NULL, arguments, environ)) fail("posix_spawn");
    look();
    close(fd);
    look();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    look();
}

/* ---- descriptors that move between processes ---- */

union rights { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; };

static void send_descriptor(int socket, int fd) {
    char byte = '.';
    struct iovec part = {&byte, 1};
    union rights rights = {{0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights,
                             .msg_controllen = sizeof rights};
    rights.head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&rights.head), &fd, sizeof fd);
    check(sendmsg(socket, &message, 0), "sendmsg");
}

static int receive_descriptor(int socket) {
    int fd;
    char byte;
    struct iovec part = {&byte, 1};
    union rights rights = {{0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights,
                             .msg_controllen = sizeof rights};
    check(recvmsg(socket, &message, 0), "recvmsg");
    memcpy(&fd, CMSG_DATA(&rights.head), sizeof fd);
    return fd;
}

static void sent_to_itself(void) {
    int sockets[2], fd = take();
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    send_descriptor(sockets[0], fd);
    close(fd);
    look();
    int received = receive_descriptor(sockets[1]);
    look();
    close(received);
    look();
}

static void sent_and_lost(void) {
    int sockets[2], fd = take();
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    send_descriptor(sockets[0], fd);
    close(fd);
    look();
    close(sockets[1]);
    close(sockets[0]);
    look();
}

static void sent_to_a_child(void) {
    int sockets[2];
    struct turns turns;
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    if (begin_child(&turns)) {
        int fd = receive_descriptor(sockets[1]);
        pass(turns.its);
        await(turns.mine);
        close(fd);
        look();
        _exit(0);
    }
    int fd = take();
    send_descriptor(sockets[0], fd);
    await(turns.its);
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

static void fetched_by_a_child(void) {
    struct turns turns;
    if (begin_child(&turns)) {
        await(turns.mine);
        int owner = check(syscall(SYS_pidfd_open, getppid(), 0), "pidfd_open"), fd;
        for (fd = 3; fd < SAY; fd++) {
            char path[40], name[200] = "";
            snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), fd);
            if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, "/file")) break;
        }
        fd = check(syscall(SYS_pidfd_getfd, owner, fd, 0), "pidfd_getfd");
        pass(turns.its);
        await(turns.mine);
        close(fd);
        look();
        _exit(0);
    }
    int fd = take();
    pass(turns.mine);
    await(turns.its);
    close(fd);
    look();
    pass(turns.mine);
    waitpid(turns.pid, NULL, 0);
    look();
}

/* ---- the matrix ---- */

struct way { const char *name; void (*act)(void); };
#define WAY(name) {#name, name}
static const struct way ways[] = {
    WAY(ends_by_close), WAY(ends_by_close_of_dup), WAY(ends_by_close_of_first), WAY(ends_by_dup2),
    WAY(ends_by_dup3), WAY(moves_by_dup2), WAY(ends_by_dup2_of_the_same_file),
    WAY(ends_by_close_range), WAY(ends_by_close_range_with_flags), WAY(ends_by_closefrom),
    WAY(ends_by_fclose), WAY(ends_by_freopen), WAY(ends_by_syscall),
    WAY(stays_by_close_of_another), WAY(stays_by_close_of_reopened), WAY(stays_by_close_of_path),
    WAY(ends_by_unlock), WAY(ends_by_unlock_of_dup), WAY(ends_in_part), WAY(converts),
    WAY(two_descriptions), WAY(ends_by_munmap), WAY(ends_by_munmap_in_parts),
    WAY(ends_by_mapping_over), WAY(ends_by_close_after_munmap), WAY(ends_by_exit_of_mapper),
    WAY(child_keeps_mapping),
    WAY(ends_by_return), WAY(ends_by_exit), WAY(ends_by_quick_exit), WAY(ends_by__exit),
    WAY(ends_by_system_exit), WAY(ends_by_kill), WAY(ends_by_abort), WAY(stays_by_exit_of_thread),
    WAY(ends_by_close_in_thread), WAY(stays_by_exec), WAY(stays_by_exec_of_static),
    WAY(ends_by_exec), WAY(ends_by_exec_of_static), WAY(stays_by_exec_of_dup),
    WAY(stays_by_failed_exec), WAY(ends_by_exec_of_mapper), WAY(child_keeps),
    WAY(child_closes_first), WAY(child_exits_with_it), WAY(child_is_killed_with_it),
    WAY(early_close), WAY(early_close_range), WAY(early_dup2), WAY(early_fclose), WAY(early_exit),
    WAY(early_kill), WAY(early_exec), WAY(early_exec_of_static), WAY(early_close_after_exec),
    WAY(early_failed_exec), WAY(early_grandchild), WAY(early_user_close), WAY(early_user_dup2),
    WAY(early_user_exit), WAY(early_user_exec), WAY(early_user_exec_of_static), WAY(child_unlocks),
    WAY(child_puts_another_over_it), WAY(child_executes),
    WAY(grandchild_keeps), WAY(vforked_child_executes), WAY(spawned_child_has_it),
    WAY(spawned_child_closes_it), WAY(sent_to_itself), WAY(sent_and_lost), WAY(sent_to_a_child),
    WAY(fetched_by_a_child),
};
enum { NR_WAYS = sizeof ways / sizeof *ways };
enum beside { NONE, OPEN, MAPPED, NR_BESIDES };
static const char *const besides[] = {"alone", "beside a writer", "beside a mapping"};

/* A process, and the main process's ends of the pipes to and from this process. */
struct process { pid_t pid; int hear, tell; };

static struct process start(void (*act)(void)) {
    int says[2], hears[2];
    if (pipe2(says, O_CLOEXEC) || pipe2(hears, O_CLOEXEC)) fail("pipe");
    pid_t pid = check(fork(), "fork");
    if (pid == 0) {
        setpgid(0, 0);
        dup2(says[1], SAY);
        dup2(hears[0], HEAR);
        close_range(3, SAY - 1, 0);
        act();
        exit(0);
    }
    close(says[1]);
    close(hears[0]);
    return (struct process){pid, says[0], hears[1]};
}

static void stand_beside(void) {
    char byte;
    int fd = check(open("file", O_RDWR), "open beside");
    if (pread(fd, &byte, 1, 0) != 1) fail("pread");
    look();
}

static void map_beside(void) {
    int fd = check(open("file", O_RDONLY), "open beside");
    char *mapped = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) fail("mmap");
    close(fd);
    touch(mapped);
    look();
}

/* Makes a new file. A lock that stays belongs to the old file, which has no name then. */
static void make_file(void) {
    static char bytes[LEN];
    unlink("file");
    int fd = check(open("file", O_RDWR | O_CREAT | O_EXCL, 0644), "make");
    if (write(fd, bytes, LEN) != LEN) fail("make");
    close(fd);
}

static void run_case(const struct way *way, int beside, const char *place, struct prober prober) {
    struct process other = {0};
    char byte;
    if (beside != NONE) {
        other = start(beside == MAPPED ? map_beside : stand_beside);
        if (read(other.hear, &byte, 1) != 1) fail("beside");
    }
    struct process holder = start(way->act);
    printf("%s %s, %s, %s, from %s:", kinds[kind], how == F_RDLCK ? "shared" : "exclusive",
           way->name, besides[beside], place);
    char seen[4] = "";
    for (int is_over = 0; !is_over;) {
        char asked = kind;
        is_over = read(holder.hear, &byte, 1) != 1;
        int status = 0;
        if (is_over && waitpid(holder.pid, &status, 0) == holder.pid && WIFEXITED(status)
            && WEXITSTATUS(status))
            printf(" status %d", WEXITSTATUS(status));
        if (write(prober.ask, &asked, 1) != 1 || read(prober.answer, seen, 3) != 3) fail("prober");
        printf(" %s", seen);
        if (!is_over && write(holder.tell, ".", 1) != 1) fail("holder");
    }
    printf("\n");
    kill(-holder.pid, SIGKILL);
    if (seen[0] != '-') make_file();
    close(holder.hear);
    close(holder.tell);
    if (beside != NONE) {
        close(other.tell);
        close(other.hear);
        waitpid(other.pid, NULL, 0);
    }
}

static void say_whether_managed(void) {
    char text[400] = "";
    int fd = open("file", O_RDWR), info;
    snprintf(text, sizeof text, "/proc/self/fdinfo/%d", fd);
    info = open(text, O_RDONLY);
    if (read(info, text, sizeof text - 1) < 0) fail("fdinfo");
    char *flags = strstr(text, "flags:");
    fprintf(stderr, "stand-in: %d\n", flags && strtol(flags + 6, NULL, 8) & O_PATH ? 1 : 0);
    close(info);
    close(fd);
}

/* Runs two cases of each way and lock, or all cases of the ways with `wanted` in the name. In
 * the first case, only the holder has had the file open before the lock ends. */
static void run_matrix(struct prober outside, const char *wanted, int is_long) {
    enum { NR_CASES = NR_BESIDES * 2 * 2 };
    struct prober probers[2] = {start_prober(), outside};
    say_whether_managed();
    for (int nr = 0; nr < NR_WAYS * NR_KINDS * 2; nr++) {
        const struct way *way = &ways[nr / 2 / NR_KINDS];
        kind = nr / 2 % NR_KINDS;
        how = nr % 2 ? F_RDLCK : F_WRLCK;
        if (wanted && !strstr(way->name, wanted)) continue;
        int second = 1 + (nr + nr / NR_CASES) % (NR_CASES - 1);
        for (int at = 0; at < NR_CASES; at++) {
            if (at != 0 && at != second && !wanted && !is_long) continue;
            looks_first = at / 6;
            run_case(way, at / 2 % 3, at % 2 ? "outside" : "the run", probers[at % 2]);
            fflush(stdout);
        }
    }
}

/* Executes the command in a child, and answers the looks from outside meanwhile. */
static int run_command(int nr, char **arguments) {
    int asked[2], answer[2], status;
    char numbers[2][12];
    if (pipe(asked) || pipe(answer)) fail("pipe");
    snprintf(numbers[0], sizeof numbers[0], "%d", asked[1]);
    snprintf(numbers[1], sizeof numbers[1], "%d", answer[0]);
    pid_t child = check(fork(), "fork");
    if (child == 0) {
        close(asked[0]);
        close(answer[1]);
        char **command = calloc(nr + 3, sizeof *command);
        memcpy(command, arguments + 1, (nr - 1) * sizeof *command);
        command[nr - 1] = "matrix";
        command[nr] = numbers[0];
        command[nr + 1] = numbers[1];
        execvp(command[0], command);
        fail("exec");
    }
    close(asked[1]);
    close(answer[0]);
    probe(asked[0], answer[1]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int nr, char **arguments) {
    program = "./compiled";
    static_program = "./static";
    signal(SIGPIPE, SIG_IGN);
    if (nr > 1 && !strcmp(arguments[1], "paused")) for (;;) pause();
    if (nr > 3 && !strcmp(arguments[1], "executed")) executed(arguments[2]);
    if (nr > 3 && !strcmp(arguments[1], "matrix")) {
        struct prober outside = {atoi(arguments[2]), atoi(arguments[3])};
        fcntl(outside.ask, F_SETFD, FD_CLOEXEC);
        fcntl(outside.answer, F_SETFD, FD_CLOEXEC);
        run_matrix(outside, getenv("LOCK_WAY"), getenv("LOCKS_ALL") != NULL);
        return 0;
    }
    make_file();
    return run_command(nr, arguments);
}
