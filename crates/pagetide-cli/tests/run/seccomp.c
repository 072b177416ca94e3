/* Filters of system calls, installed after opens.
 *
 *   seccomp HOW ANSWER     HOW: strict, strict-number, prctl, prctl-number, seccomp, threads
 *                          ANSWER: kill, errno: the filter's action on all but a few calls
 *
 *   seccomp program        executes another program with rare calls refused
 *
 * Prints the results of calls on its files with write(2) only. A forbidden call of the library
 * ends the process, or makes a call fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 300000 };

static char bytes[LEN], line[200];
static const char *how, *answer;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void say(const char *call, long result) {
    int why = errno, len = 0;
    for (const char *at = call; *at; at++) line[len++] = *at;
    line[len++] = ' ';
    if (result < 0) line[len++] = '-';
    unsigned long rest = result < 0 ? -result : result, digits = 1;
    while (rest / digits > 9) digits *= 10;
    for (; digits; digits /= 10) line[len++] = '0' + rest / digits % 10;
    if (result == -1) {
        line[len++] = ' ';
        line[len++] = '0' + why / 100;
        line[len++] = '0' + why / 10 % 10;
        line[len++] = '0' + why % 10;
    }
    line[len++] = '\n';
    if (write(1, line, len) != len) syscall(SYS_exit, 9);
}

#define SAY(call) say(#call, (errno = 0, (long)(call)))

static int make(const char *name, int flags) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, bytes, LEN) != LEN || close(fd)) fail(name);
    fd = open(name, flags);
    if (fd < 0) fail(name);
    return fd;
}

/* Allowed in addition to strict mode's calls. */
static const int allowed[] = {SYS_read, SYS_write, SYS_exit, SYS_rt_sigreturn, SYS_exit_group, SYS_pread64,
    SYS_pwrite64, SYS_lseek, SYS_close, SYS_futex, SYS_madvise, SYS_munmap, SYS_brk, SYS_mmap,
    SYS_rt_sigprocmask, SYS_clone, SYS_clone3, SYS_wait4, SYS_set_robust_list, SYS_rseq, SYS_gettid};
enum { NR_ALLOWED = sizeof allowed / sizeof *allowed };

static void install(void) {
    struct sock_filter filter[NR_ALLOWED + 3];
    int nr = 0;
    unsigned refusal = strcmp(answer, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | ENOANO;
    filter[nr++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int nth = 0; nth < NR_ALLOWED; nth++) {
        filter[nr++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[nth], NR_ALLOWED - nth, 0);
    }
    filter[nr++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refusal);
    filter[nr++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {nr, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("PR_SET_NO_NEW_PRIVS");
    int failed = strcmp(how, "strict") == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
        : strcmp(how, "strict-number") == 0 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
        : strcmp(how, "prctl") == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
        : strcmp(how, "prctl-number") == 0 ? syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
        : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, strcmp(how, "threads") ? 0 : SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (failed) fail("seccomp");
}

/* Kills on calls that only the run's library would make. */
static void install_for_programs(void) {
    static const int refused[] = {SYS_socket, SYS_connect, SYS_sendmsg, SYS_recvmsg, SYS_memfd_create,
        SYS_userfaultfd, SYS_process_vm_readv, SYS_kcmp, SYS_prctl};
    enum { NR_REFUSED = sizeof refused / sizeof *refused };
    struct sock_filter filter[NR_REFUSED + 3];
    int nr = 0;
    filter[nr++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int nth = 0; nth < NR_REFUSED; nth++) {
        filter[nr++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[nth], NR_REFUSED - nth, 0);
    }
    filter[nr++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[nr++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {nr, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("PR_SET_NO_NEW_PRIVS");
    /* Only queries, no filter. */
    SAY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    SAY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL));
    SAY(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &(unsigned){SECCOMP_RET_KILL_PROCESS}));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) fail("seccomp");
}

static int fd, appends, unknown;
static char *shared, *private_, *only_read;
static FILE *stream, *written;
static pthread_barrier_t barrier;

static void touch_maps(void) {
    SAY(shared[4096 * 40]);
    SAY(shared[4096 * 3]);
    shared[4096 * 41] = 's';
    shared[4096 * 3] = 's';
    SAY(private_[4096 * 5]);
    SAY(private_[4096 * 50]);
    private_[4096 * 51] = 'p';
    SAY(private_[4096 * 51]);
    SAY(only_read[4096 * 30]);
}

static void read_and_write(void) {
    char got[100];
    SAY(read(fd, got, 100));
    SAY(got[99]);
    SAY(write(fd, "written", 7));
    SAY(write(appends, "appended", 8));
    SAY(read(unknown, got, 50));
}

static void *of_thread(void *nothing) {
    char got[100];
    SAY(pread(fd, got, 100, 500));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    SAY(pread(fd, got, 100, 600));
    SAY(pwrite(fd, "thread", 6, 700));
    touch_maps();
    return nothing;
}

static void on_fault(int signal) {
    say("signal", signal);
    syscall(SYS_exit, 3);
}

static void act(int is_strict) {
    pthread_t thread;
    char got[100];
    int has_thread = strcmp(how, "threads") == 0;
    pthread_barrier_init(&barrier, NULL, 2);
    if (has_thread) {
        if (pthread_create(&thread, NULL, of_thread, NULL)) fail("pthread_create");
        pthread_barrier_wait(&barrier);
    }
    install();
    read_and_write();
    SAY(fgetc(stream));
    touch_maps();
    if (is_strict) {
        *(volatile char *)8 = 1;
    }
    SAY(pread(fd, got, 100, 4090));
    SAY(got[6]);
    SAY(pwrite(fd, "placed", 6, 5000));
    SAY(lseek(fd, 0, SEEK_END));
    SAY(fputs("more text", written));
    SAY(fflush(written));
    SAY(fread(got, 1, 100, stream));
    if (strcmp(answer, "errno") == 0) {
        SAY(open("new", O_RDONLY));
        SAY(fsync(fd));
        SAY(fstat(fd, &(struct stat){0}));
        SAY(fcntl(fd, F_GETFL));
        SAY(dup(fd));
        SAY(mprotect(shared, 4096, PROT_READ));
        SAY(signal(SIGSEGV, SIG_DFL) == SIG_ERR);
    }
    pid_t child = fork();
    if (child == 0) {
        SAY(pread(fd, got, 100, 4090));
        SAY(shared[4096 * 20]);
        _exit(5);
    }
    int status;
    SAY(waitpid(child, &status, 0) == child);
    SAY(status);
    if (has_thread) {
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
    }
    SAY(close(fd));
    SAY(fclose(stream));
    SAY(munmap(private_, LEN));
}

/* The filtered process's locks, seen by another process. */
static void look_at_locks(void) {
    int other = open("file", O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 20, .l_len = 1};
    if (fcntl(other, F_GETLK, &lock)) fail("F_GETLK");
    printf("locked: %d\n", lock.l_type != F_UNLCK);
    close(other);
}

static void child(int go, int ready) {
    struct flock lock = {.l_type = F_WRLCK, .l_start = 20, .l_len = 5};
    char byte = 0;
    if (fcntl(fd, F_SETLK, &lock)) fail("F_SETLK");
    install();
    write(ready, &byte, 1);
    read(go, &byte, 1);
    SAY(pwrite(fd, "locked", 6, 20));
    syscall(SYS_exit, 0);
}

int main(int nr, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int at = 0; at < LEN; at++) bytes[at] = 'a' + at % 23;
    if (nr == 2 && strcmp(arguments[1], "program") == 0) {
        fd = make("file", O_RDWR);
        dup2(fd, 9);
        pwrite(fd, "before\n", 7, 0);
        install_for_programs();
        pwrite(fd, "filtered\n", 9, LEN);
        const char *line = "tail -c 9 file; tail -c 9 <&9; echo more >>file; cp file copy; cmp file copy; "
            "sh -c 'dd if=file bs=1000 skip=300 2>/dev/null; wc -c file copy' | cat";
        if (fork() == 0) {
            execl("/bin/sh", "sh", "-c", line, NULL);
            fail("exec");
        }
        int status;
        wait(&status);
        printf("status %x\n", status);
        status = system("wc -c <file");
        printf("status %x\n", status);
        return 0;
    }
    if (nr == 2) {
        /* A descriptor not yet used by this program. */
        unknown = 77;
        how = "prctl";
        answer = "kill";
        install();
        char got[10];
        SAY(read(unknown, got, 10));
        SAY(write(unknown, "of child", 8));
        return 0;
    }
    how = arguments[1];
    answer = arguments[2];
    int is_strict = strncmp(how, "strict", 6) == 0;
    fd = make("file", O_RDWR);
    appends = make("other", O_WRONLY | O_APPEND);
    unknown = dup2(make("third", O_RDWR), 77);
    shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    private_ = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, unknown, 0);
    int only = make("fourth", O_RDONLY);
    only_read = mmap(NULL, LEN, PROT_READ, MAP_SHARED, only, 0);
    close(only);
    shared[4096 * 3 + 1] = 'x';
    private_[4096 * 5] = 'y';
    close(make("fifth", O_RDWR));
    stream = fopen("fifth", "r");
    written = fopen("sixth", "w");
    /* Buffered data is readable. */
    SAY(fgetc(stream));
    SAY(fputc('w', written));
    SAY(fflush(written));
    signal(SIGSEGV, on_fault);
    lseek(fd, 1000, SEEK_SET);
    fflush(stdout);
    int status, go[2], ready[2];
    pid_t pid = fork();
    if (pid == 0) {
        act(is_strict);
        _exit(4);
    }
    waitpid(pid, &status, 0);
    printf("status %x\n", status);
    if (pipe(go) || pipe(ready)) fail("pipe");
    pid = fork();
    if (pid == 0) child(go[0], ready[1]);
    char byte = 0;
    close(ready[1]);
    read(ready[0], &byte, 1);
    look_at_locks();
    write(go[1], &byte, 1);
    waitpid(pid, &status, 0);
    printf("status %x\n", status);
    look_at_locks();
    pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "seccomp", "inherited", NULL);
        fail("exec");
    }
    waitpid(pid, &status, 0);
    printf("status %x\n", status);
    /* As seen by others. */
    const char *names[] = {"file", "other", "third", "sixth"};
    for (int nth = 0; nth < 4; nth++) {
        int other = open(names[nth], O_RDONLY);
        static char all[LEN * 2];
        long len = pread(other, all, sizeof all, 0);
        unsigned sum = 0;
        for (long at = 0; at < len; at++) sum = sum * 31 + all[at];
        printf("%s: %ld bytes, %x\n", names[nth], len, sum);
    }
    /* Not filtered in this process. */
    SAY(pread(fd, line, 10, 20));
    return 0;
}
