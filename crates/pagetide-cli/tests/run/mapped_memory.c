// Reads a file, waits for a line, then maps and reads the file in several processes that report
// progress.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, NR_MAP = 3, NR_READ = 2, NR_STEPS = 40, NR_TOUCHES = 500 };
static char buffer[1 << 16];

int main()
{
    struct stat stat;
    int fd = open("file", O_RDONLY), failed = 0, status;
    if (fstat(fd, &stat)) return 1;
    while (read(fd, buffer, sizeof buffer) > 0) {}
    printf("read\n");
    fflush(stdout);
    if (read(0, buffer, 1) != 1) return 2;
    for (int own = 0; own < NR_MAP + NR_READ; own++) if (!fork()) {
        unsigned long state = own + 1, nr = stat.st_size / PAGE, at = 0;
        fd = open("file", O_RDONLY);
        volatile char *map = mmap(0, stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
        for (int step = 0; step < NR_STEPS; step++) {
            for (int nth = 0; nth < NR_TOUCHES; nth++) {
                state = state * 6364136223846793005ul + 1442695040888963407ul;
                // Randomly or sequentially.
                at = own % 2 ? (state >> 33) % nr : (at + 1) % nr;
                if (own >= NR_MAP && pread(fd, buffer, PAGE, at * PAGE) != PAGE) exit(3);
                if ((own < NR_MAP ? map[at * PAGE] : buffer[0]) != (char)('a' + at % 26)) exit(4);
            }
            if (write(1, "step\n", 5) != 5) exit(5);
        }
        exit(0);
    }
    for (int own = 0; own < NR_MAP + NR_READ; own++) { wait(&status); failed |= status; }
    puts(failed ? "failed" : "ok");
    return failed != 0;
}
