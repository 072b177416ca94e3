// Maps a file, and is killed or kills its server during use.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int nr_arguments, char **arguments)
{
    struct stat stat;
    int fd = open("file", O_RDWR), protection = PROT_READ | (nr_arguments > 2 ? PROT_WRITE : 0);
    fstat(fd, &stat);
    volatile char *map = mmap(0, stat.st_size, protection, MAP_SHARED, fd, 0);
    int sum = 0;
    if (nr_arguments > 2) map[0] = 'y';
    for (long at = 0; at < stat.st_size / 2; at += 4096) sum += map[at];
    if (nr_arguments == 1) raise(SIGKILL);
    // The server is the parent.
    kill(getppid(), SIGKILL);
    while (getppid() == atoi(arguments[1])) usleep(1000);
    if (nr_arguments > 2) {
        int failed = msync((void *)map, stat.st_size, MS_SYNC);
        printf("%s\n", failed && errno == EIO ? "EIO" : strerror(errno));
        return 0;
    }
    printf("next\n");
    fflush(stdout);
    for (long at = 0; at < stat.st_size; at += 4096) {
        if (map[at] != 'x') { printf("wrong byte\n"); return 1; }
        sum += map[at];
    }
    printf("all of it: %d\n", sum > 0);
    return 0;
}
