/* Inline system calls, which no library can intercept. */
#include <sys/syscall.h>

static long call(long number, long a, long b, long c, long d) {
  long answer;
  register long fourth __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                   : "rcx", "r11", "memory");
  return answer;
}

static long length(const char *text) {
  long count = 0;
  while (text[count]) count++;
  return count;
}

static int copy_out(long fd) {
  static char part[4096];
  long got;
  while ((got = call(SYS_read, fd, (long)part, sizeof part, 0)) > 0)
    if (call(SYS_write, 1, (long)part, got, 0) != got) return 1;
  return got != 0;
}

/* raw read PATH | raw append PATH TEXT | raw readfd DIGIT | raw writefd DIGIT TEXT */
int main(int nr, char **words) {
  (void)nr;
  int is_read = words[1][0] == 'r', is_descriptor = words[1][length(words[1]) - 1] == 'd';
  is_descriptor = is_descriptor && words[1][length(words[1]) - 2] == 'f';
  long fd = is_descriptor ? words[2][0] - '0'
                          : call(SYS_open, (long)words[2], is_read ? 0 : 02001, 0, 0);
  if (fd < 0) return 2;
  if (is_read) return copy_out(fd);
  return call(SYS_write, fd, (long)words[3], length(words[3]), 0) != length(words[3]);
}
