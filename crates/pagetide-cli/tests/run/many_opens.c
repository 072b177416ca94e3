/* Many opens of two files, one of them written. Each reads current data. Prints ok. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int nr, char **words) {
  char seen[16], expected[16];
  (void)nr;
  for (long turn = 0; turn < atol(words[1]); turn++) {
    int fd = open("long", turn % 2 ? O_RDWR : O_RDONLY);
    if (fd < 0) return perror("open"), 1;
    long got = read(fd, seen, 8);
    if (got != 8 || memcmp(seen, "contents", 8)) return printf("read %ld at %ld\n", got, turn), 1;
    if (turn % 2) {
      sprintf(expected, "%08ld", turn);
      if (pwrite(fd, expected, 8, 100) != 8) return perror("pwrite"), 1;
    }
    if (turn % 100 == 1) {
      int again = open("long", O_RDONLY);
      got = pread(again, seen, 8, 100);
      if (got != 8 || memcmp(seen, expected, 8)) return printf("pread %ld at %ld\n", got, turn), 1;
      close(again);
    }
    if (close(fd)) return perror("close"), 1;
  }
  puts("ok");
  return 0;
}
