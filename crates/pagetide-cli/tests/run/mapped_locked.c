// Locks mapped files in memory. With an argument the files are served, and half of 2 MiB is the
// limit. Ends with "ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, NR = 2000, MOST = 256 };
#define CHECK(x) do { if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

static unsigned char there[NR];
static int fd, is_served;

static char *map(int nr, int protection, int flags)
{
    char *map = mmap(0, nr * PAGE, protection, flags, fd, 0);
    CHECK(map != MAP_FAILED);
    return map;
}

static int nr_there(char *map, int nr)
{
    CHECK(mincore(map, nr * PAGE, there) == 0);
    int sum = 0;
    for (int nth = 0; nth < nr; nth++) sum += there[nth] & 1;
    return sum;
}

// Loads more than memory.
static void pass(volatile char *map)
{
    for (int turn = 0; turn < 2; turn++)
        for (int nth = 0; nth < NR; nth++) CHECK(map[nth * PAGE] == 'a' + nth % 26);
}

static int is_locked(char *map, int first, int nr) { return mlock(map + first * PAGE, nr * PAGE) == 0; }

static void unlock(char *map, int first, int nr) { CHECK(munlock(map + first * PAGE, nr * PAGE) == 0); }

static void is_refused(char *map, int first, int nr)
{
    CHECK(is_served ? !is_locked(map, first, nr) && errno == ENOMEM : is_locked(map, first, nr));
    unlock(map, first, nr);
}

// Nothing else is locked, so all can be locked, at once or after the server sees an end.
static void is_given_back(char *map)
{
    time_t start = time(0);
    while (!is_locked(map, 500, MOST)) CHECK(time(0) < start + 20 && sched_yield() == 0);
    unlock(map, 500, MOST);
}

// Returns the kernel's locked memory.
static int nr_locked(void)
{
    char line[200];
    int kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status) && sscanf(line, "VmLck: %d", &kib) != 1);
    return fclose(status) == 0 ? kib / 4 : -1;
}

static void in_child(int is_killed)
{
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        char *own = map(NR, PROT_READ, MAP_SHARED);
        CHECK(is_locked(own, 0, MOST) && write(ready[1], "x", 1) == 1);
        if (is_killed) for (;;) pause();
        exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    if (is_killed) CHECK(kill(child, SIGKILL) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && (is_killed ? WIFSIGNALED(status) : status == 0));
}

int main(int nr_arguments, char **arguments)
{
    is_served = nr_arguments > 1;
    static char bytes[PAGE];
    fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int nth = 0; nth < NR; nth++) {
        memset(bytes, 'a' + nth % 26, PAGE);
        CHECK(write(fd, bytes, PAGE) == PAGE);
    }
    CHECK(fsync(fd) == 0);
    char *loaded = map(NR, PROT_READ, MAP_SHARED);
    // Locked pages stay, and other pages leave.
    CHECK(is_locked(loaded, 10, 200));
    pass(loaded);
    CHECK(nr_there(loaded + 10 * PAGE, 200) == 200 && (!is_served || nr_there(loaded, NR) < 520));
    // A share of the limit. A range locked twice counts once and unlocks at once.
    CHECK(is_locked(loaded, 10, 200) && is_locked(loaded, 0, 250));
    is_refused(loaded, 1000, 100);
    unlock(loaded, 0, 250);
    is_given_back(loaded);
    // Unmapped in part, then whole.
    CHECK(is_locked(loaded, 900, MOST) && munmap(loaded + 900 * PAGE, MOST * PAGE) == 0);
    is_given_back(loaded);
    CHECK(is_locked(loaded, 1200, MOST) && munmap(loaded, NR * PAGE) == 0);
    loaded = map(NR, PROT_READ, MAP_SHARED);
    is_given_back(loaded);
    // Locks of children end with them. Children do not inherit locks.
    CHECK(is_locked(loaded, 0, MOST));
    in_child(0);
    in_child(1);
    pass(loaded);
    CHECK(nr_there(loaded, MOST) == MOST);
    unlock(loaded, 0, MOST);
    in_child(0), is_given_back(loaded);
    in_child(1), is_given_back(loaded);
    // Truncated.
    CHECK(is_locked(loaded, NR - MOST, MOST) && ftruncate(fd, 1000 * PAGE) == 0);
    is_given_back(loaded);
    CHECK(is_locked(loaded, 0, 200) && munlockall() == 0);
    is_given_back(loaded);
    for (int nth = 1000; nth < NR; nth++) {
        memset(bytes, 'a' + nth % 26, PAGE);
        CHECK(pwrite(fd, bytes, PAGE, (off_t)nth * PAGE) == PAGE);
    }
    // Stored to, moved, and protected.
    char *stored = map(NR, PROT_READ | PROT_WRITE, MAP_SHARED);
    CHECK(is_locked(stored, 100, 200));
    for (int nth = 100; nth < 300; nth++) stored[nth * PAGE + 1] = nth;
    CHECK(msync(stored, NR * PAGE, MS_SYNC) == 0);
    char *elsewhere = map(NR, PROT_NONE, MAP_PRIVATE);
    char *moved = mremap(stored + 100 * PAGE, 200 * PAGE, 200 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
    CHECK(moved == elsewhere && munmap(stored, NR * PAGE) == 0);
    pass(loaded);
    CHECK(nr_there(moved, 200) == 200 && moved[150 * PAGE + 1] == (char)250);
    is_refused(loaded, 500, 100);
    CHECK(mprotect(moved, 200 * PAGE, PROT_READ) == 0 && munmap(elsewhere, NR * PAGE) == 0);
    is_given_back(loaded);
    // At mmap, then mlockall.
    char *locked = map(200, PROT_READ, MAP_SHARED | MAP_LOCKED);
    is_refused(loaded, 500, 100);
    errno = 0;
    char *more = mmap(0, MOST * PAGE, PROT_READ, MAP_PRIVATE | MAP_LOCKED, fd, 500 * PAGE);
    CHECK(is_served ? more == MAP_FAILED && errno == EAGAIN : munmap(more, MOST * PAGE) == 0);
    CHECK(is_served ? mlockall(MCL_CURRENT) == -1 && errno == ENOMEM : mlockall(MCL_CURRENT) == 0);
    CHECK(munlockall() == 0 && munmap(loaded, NR * PAGE) == 0 && mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    CHECK(nr_there(locked, 200) == 200);
    if (fork() == 0) _exit(locked[5 * PAGE] != 'f');
    int status;
    CHECK(wait(&status) > 0 && status == 0 && locked[30 * PAGE] == 'e');
    // The file goes to the kernel.
    CHECK(munlockall() == 0 && is_locked(locked, 50, 100) && poll(&(struct pollfd){fd}, 1, 0) == 0);
    CHECK(locked[60 * PAGE] == 'a' + 60 % 26 && nr_locked() == 100);
    puts("ok");
    return 0;
}
