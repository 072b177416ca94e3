/* Successful calls leave errno unchanged. Prints ok, or the failing call. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ODD = 77, LEN = 300000, TURNS = 300 };

static void check(int line, long result) {
    if (result < 0 || errno != ODD) {
        printf("line %d: %ld, errno %d\n", line, result, errno);
        fflush(stdout);
        _exit(1);
    }
}

#define CHECK(call) (errno = ODD, check(__LINE__, (long)(call)))

int main(void) {
    static char bytes[LEN];
    for (int turn = 0; turn < TURNS; turn++) {
        int file = open("f", O_RDWR | O_CREAT, 0644);
        CHECK(pwrite(file, bytes, LEN, 0));
        CHECK(write(file, bytes, 100));
        CHECK(pread(file, bytes, 5000, turn * 500));
        CHECK(read(file, bytes, 5000));
        CHECK(lseek(file, 0, SEEK_END));
        CHECK(ftruncate(file, LEN + turn));
        CHECK(fcntl(file, F_GETFL));
        CHECK(copy_file_range(file, &(off_t){0}, file, &(off_t){LEN}, 100, 0));
        CHECK(fdatasync(file));
        int copy = dup(file);
        CHECK(close(copy));
        CHECK(close(file));
        CHECK(file = open("f", O_RDONLY));
        CHECK(read(file, bytes, LEN));
        CHECK(close(file));
    }
    puts("ok");
    return 0;
}
