/* Incomplete writes: a buffer that ends in the middle, or a limit on file length. Prints
   results, positions, lengths and contents. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096L

/* Returns `count` readable pages with none after them. */
static char *pages(long count) {
  char *start = mmap(0, (count + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  munmap(start + count * PAGE, PAGE);
  for (long at = 0; at < count * PAGE; at++) start[at] = 'a' + at % 23;
  return start;
}

static void say(const char *what, long answer, int fd) {
  struct stat status;
  int error = answer < 0 ? errno : 0;
  fstat(fd, &status);
  printf("%s: %ld errno %d, position %ld, length %ld\n", what, answer, error,
         (long)lseek(fd, 0, SEEK_CUR), (long)status.st_size);
}

static void sum(int fd) {
  static unsigned char part[PAGE];
  unsigned long sum = 0, length = 0;
  for (long got; (got = pread(fd, part, PAGE, length)) > 0; length += got)
    for (long at = 0; at < got; at++) sum = sum * 31 + part[at];
  printf("%lu bytes, sum %lx\n", length, sum);
}

static void broken_buffers(long count, long skip, int flags) {
  int fd = open("f", O_RDWR | O_CREAT | O_TRUNC | flags, 0600);
  char *start = pages(count);
  struct iovec parts[3] = {{start, 10}, {start + skip, (count + 2) * PAGE}, {start, 10}};
  printf("%ld pages from %ld, flags %x\n", count, skip, flags);
  say("write", write(fd, start + skip, (count + 300) * PAGE), fd);
  say("then", write(fd, "then", 4), fd);
  say("pwrite", pwrite(fd, start + skip, (count + 300) * PAGE, 5), fd);
  say("writev", writev(fd, parts, 3), fd);
  say("none", write(fd, start + count * PAGE, 10), fd);
  say("none of many", write(fd, start + count * PAGE, 1 << 20), fd);
  say("end", write(fd, "end", 3), fd);
  sum(fd);
  close(fd);
}

static void limited(int flags) {
  int fd = open("g", O_RDWR | O_CREAT | O_TRUNC | flags, 0600);
  struct rlimit limit = {100000, RLIM_INFINITY};
  char *start = pages(100);
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  say("limited", write(fd, start, 60000), fd);
  say("limited", write(fd, start, 60000), fd);
  say("limited", write(fd, start, 60000), fd);
  say("limited pwrite", pwrite(fd, start, 60000, 99999), fd);
  say("limited pwrite", pwrite(fd, start, 60000, 100000), fd);
  sum(fd);
  close(fd);
}

int main(void) {
  long counts[] = {1, 5, 40, 300, 700}, skips[] = {0, 100, 4095};
  int flags[] = {0, O_APPEND};
  for (int which = 0; which < 5; which++)
    for (int skip = 0; skip < 3; skip++)
      for (int flag = 0; flag < 2; flag++)
        broken_buffers(counts[which], skips[skip], flags[flag]);
  limited(0);
  limited(O_APPEND);
  return 0;
}
