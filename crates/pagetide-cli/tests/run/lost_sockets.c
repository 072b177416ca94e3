/* Children that lose all but a few descriptors, each in another way, append to a log by name and
   by an inherited descriptor, as does the parent. Prints ok if nothing failed.

      argument 1: spawn | cloexec | raw | vfork. The children are shells. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A call unseen by the library. */
static long close_range_itself(long first, long last, long flags) {
  long answer;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(SYS_close_range), "D"(first), "S"(last), "d"(flags)
                   : "rcx", "r11", "memory");
  return answer;
}

static pid_t begin(const char *how, char **words) {
  pid_t child = 0;
  if (strcmp(how, "spawn") == 0) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclosefrom_np(&actions, 4);
    if (posix_spawn(&child, "/bin/sh", &actions, 0, words, environ)) return -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
  }
  child = strcmp(how, "vfork") == 0 ? vfork() : fork();
  if (child != 0) return child;
  if (strcmp(how, "cloexec") == 0)
    for (int fd = 4; fd < 1024; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
  else
    close_range_itself(4, ~0U, strcmp(how, "vfork") == 0 ? 4 /* CLOSE_RANGE_CLOEXEC */ : 0);
  execv("/bin/sh", words);
  _exit(127);
}

int main(int nr, char **given) {
  char text[200];
  int status, log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  (void)nr;
  for (int turn = 0; turn < 20; turn++) {
    write(log, text, sprintf(text, "parent %d\n", turn));
    sprintf(text, "echo named %d >>log; echo inherited %d >&3", turn, turn);
    char *words[] = {"sh", "-c", text, 0};
    pid_t child = begin(given[1], words);
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) return 1;
  }
  puts("ok");
  return log != 3;
}
