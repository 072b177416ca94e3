// Calls with arguments in evicted pages of a mapping. Ends with "ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, NR = 2000 };
#define CHECK(x) do { away(); if (!(x)) { printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)

// Pages of the file: a path, an address, parts of a message, a number, bytes.
enum { PATH = 3, OTHER = 8, ADDRESS = 13, PARTS = 40, NUMBER = 50, BYTES = 60, STRINGS = 90 };
static volatile char *map;
static char back[20 * PAGE];

static void away(void) { for (long index = NR - 1200; index < NR; index++) (void)map[index * PAGE]; }
static void *at(long index) { return (void *)&map[index * PAGE]; }
static void put(int fd, long index, const void *bytes, size_t len) { if (pwrite(fd, bytes, len, index * PAGE) != len) exit(2); }

int main(int nr_arguments, char **arguments)
{
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), pair[2], ends[2], status, one = 1;
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
    for (long index = 0; index < NR; index++) { memset(back, 'a' + index % 26, PAGE); put(fd, index, back, PAGE); }
    put(fd, PATH, "some file", 10);
    put(fd, OTHER, "other file", 11);
    put(fd, ADDRESS, &address, sizeof address);
    put(fd, NUMBER, &one, sizeof one);
    put(fd, STRINGS, "echo from a mapping >> 'other file'", 36);
    map = mmap(0, NR * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return 3;
    struct iovec parts[2] = { { at(BYTES), 10 }, { at(BYTES + 5), 10 } };
    put(fd, PARTS, parts, sizeof parts);
    struct msghdr message = { .msg_iov = at(PARTS), .msg_iovlen = 2 };
    struct mmsghdr messages[2] = { { message }, { message } };
    struct stat stat_of;
    int fresh;
    CHECK((fresh = open(at(PATH), O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK(stat(at(PATH), &stat_of) == 0 && access(at(PATH), R_OK) == 0);
    CHECK(fstatat(AT_FDCWD, at(PATH), &stat_of, 0) == 0);
    CHECK(rename(at(PATH), at(OTHER)) == 0);
    CHECK(truncate(at(OTHER), 5) == 0);
    CHECK(syscall(SYS_access, at(OTHER), F_OK) == 0);
    FILE *stream;
    CHECK((stream = fopen(at(OTHER), "r")) != 0);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    CHECK(sendmsg(pair[0], &message, 0) == 20);
    CHECK(recv(pair[1], back, PAGE, 0) == 20 && back[0] == 'a' + BYTES % 26 && back[10] == 'a' + (BYTES + 5) % 26);
    CHECK(sendmmsg(pair[0], messages, 2, 0) == 2);
    CHECK(send(pair[0], at(BYTES), 5000, 0) == 5000);
    pipe(ends);
    CHECK(writev(ends[1], at(PARTS), 2) == 20 && read(ends[0], back, 40) == 20 && back[10] == 'a' + (BYTES + 5) % 26);
    CHECK(syscall(SYS_write, ends[1], at(BYTES), 5000) == 5000 && read(ends[0], back, PAGE) == PAGE);
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, at(NUMBER), sizeof one) == 0);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, at(ADDRESS), sizeof address) == 0 && listen(listener, 1) == 0);
    CHECK(connect(client, at(ADDRESS), sizeof address) == 0);
    // The arguments of another program.
    char *list[] = { "sh", "-c", at(STRINGS), 0 };
    away();
    if (!fork()) { execv("/bin/sh", list); _exit(9); }
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(fgets(back, PAGE, stream) && !strcmp(back + 5, "from a mapping\n"));
    CHECK(unlink(at(OTHER)) == 0 && stat(at(OTHER), &stat_of) < 0 && errno == ENOENT);
    // The kernel reports program errors unchanged.
    CHECK(stat(at(PATH), at(BYTES)) < 0 && (errno == EFAULT || errno == ENOENT));
    puts("ok");
    return 0;
}
