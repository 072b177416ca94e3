/* Closes all descriptors that it has not opened, in every way. Prints ok at the end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int works(const char *name) {
    char in[8] = "";
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    int is_right = write(fd, "written", 8) == 8 && pread(fd, in, 8, 0) == 8;
    return is_right && strcmp(in, "written") == 0 && close(fd) == 0;
}

int main(void) {
    if (!works("a")) return 1;
    closefrom(3);
    if (!works("b")) return 2;
    if (close_range(3, ~0U, 0) != 0 || !works("c")) return 3;
    if (syscall(SYS_close_range, 3, ~0U, 0) != 0 || !works("d")) return 4;
    for (int fd = 3; fd < 2000; fd++) close(fd);
    if (!works("e")) return 5;
    for (int fd = 3; fd < 2000; fd++) syscall(SYS_close, fd);
    if (!works("f")) return 6;
    for (int fd = 3; fd < 2000; fd++) dup2(0, fd);
    if (close_range(3, ~0U, 0) != 0 || !works("g")) return 7;
    puts("ok");
    return 0;
}
