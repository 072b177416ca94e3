/* Random operations on one file, each compared with a twin in memory. Several processes share
   descriptors and twin. A token in a pipe orders their turns.

      fsx FILE SEED STEPS PROCESSES KINDS    KINDS: "calls" | "mapped" | "served"

   Prints ok, or the difference with the last operations. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file goes to the kernel if shorter than SHORTEST at an open for reading or mapping, or if
   cut by name. */
enum { LONGEST = 1 << 20, SHORTEST = 140000, DESCRIPTORS = 6, LOGGED = 40 };

struct shared {
  unsigned long random, steps;
  long length, positions[DESCRIPTORS];
  int failed;
  char log[LOGGED][100];
  unsigned char twin[LONGEST];
};

static struct shared *all;
static const char *name;
static int descriptors[DESCRIPTORS], token[2], stays_ours;
/* 0 and 1 share a position. 2 has its own. 3 appends. 4 only reads. 5 has no position. */
static const int flags[DESCRIPTORS] = {O_RDWR, O_RDWR, O_RDWR, O_RDWR | O_APPEND, O_RDONLY, O_RDWR};
static unsigned char room[LONGEST];

static long below(long end) {
  all->random = all->random * 6364136223846793005UL + 1442695040888963407UL;
  return (long)((all->random >> 33) % (unsigned long)end);
}

/* Often near a page boundary. */
static long place(long end) {
  long at = below(end);
  if (below(2)) at = at / 4096 * 4096 + below(3) - 1;
  return at < 0 ? 0 : at < end ? at : end - 1;
}

static void say(const char *what, int which, long at, long count) {
  snprintf(all->log[all->steps % LOGGED], 100, "%lu %d: %s, descriptor %d, %ld bytes at %ld",
           all->steps, getpid(), what, which, count, at);
}

static void fail(const char *what, long seen, long expected) {
  if (all->failed++) _exit(1);
  for (unsigned long at = 0; at < LOGGED; at++)
    puts(all->log[(all->steps + 1 + at) % LOGGED]);
  printf("%s: %ld, expected %ld, errno %d\n", what, seen, expected, errno);
  fflush(stdout);
  (void)!write(token[1], "e", 1);
  _exit(1);
}

static void equal(const char *what, long seen, long expected) {
  if (seen != expected) fail(what, seen, expected);
}

static void same_bytes(const unsigned char *seen, long at, long count) {
  if (memcmp(seen, all->twin + at, count) == 0) return;
  for (long byte = 0; byte < count; byte++)
    if (seen[byte] != all->twin[at + byte]) {
      printf("byte %ld of the file is %d\n", at + byte, seen[byte]);
      fail("a byte", seen[byte], all->twin[at + byte]);
    }
}

static long *position(int which) { return &all->positions[which == 1 ? 0 : which]; }

static void lengthen(long to) {
  if (to > all->length) all->length = to;
}

static void cut(long to) {
  if (to < all->length) memset(all->twin + to, 0, all->length - to);
  all->length = to;
}

static long there(long at, long count) {
  long left = all->length - at;
  return left < 0 ? 0 : left < count ? left : count;
}

static void read_some(int which) {
  int has_position = which < 5 && below(2);
  long at = has_position ? *position(which) : place(LONGEST), count = 1 + place(100000), got;
  struct iovec parts[2] = {{room, count / 3}, {room + count / 3, count - count / 3}};
  int is_vector = below(3) == 0;
  say(has_position ? "read" : "pread", which, at, count);
  if (has_position)
    got = is_vector ? readv(descriptors[which], parts, 2) : read(descriptors[which], room, count);
  else
    got = is_vector ? preadv(descriptors[which], parts, 2, at)
                    : pread(descriptors[which], room, count, at);
  equal("bytes read", got, there(at, count));
  same_bytes(room, at, got);
  if (has_position) *position(which) += got;
}

static void write_some(int which) {
  int has_position = which < 5 && (below(2) || which == 3);
  long at = has_position ? *position(which) : place(LONGEST - 1);
  long count = 1 + place(below(3) ? 10000 : 120000), got;
  struct iovec parts[2] = {{room, count / 3}, {room + count / 3, count - count / 3}};
  int is_vector = below(3) == 0, first = (int)below(256);
  if (which == 3) at = all->length;
  if (at + count > LONGEST) count = LONGEST - at;
  if (count <= 0) return;
  if (count < 3) is_vector = 0;
  parts[1].iov_len = count - (parts[0].iov_len = count / 3);
  parts[1].iov_base = room + count / 3;
  for (long byte = 0; byte < count; byte++) room[byte] = first + byte % 253;
  say(has_position ? "write" : "pwrite", which, at, count);
  if (has_position)
    got = is_vector ? writev(descriptors[which], parts, 2) : write(descriptors[which], room, count);
  else
    got = is_vector ? pwritev(descriptors[which], parts, 2, at)
                    : pwrite(descriptors[which], room, count, at);
  equal("bytes written", got, count);
  memcpy(all->twin + at, room, count);
  lengthen(at + count);
  if (has_position) *position(which) = at + count;
}

static void seek(int which) {
  long by = place(LONGEST), whence = below(3);
  if (which == 5) return;
  say("lseek", which, by, whence);
  if (whence == 0) *position(which) = by;
  if (whence == 1) by = -below(*position(which) + 1), *position(which) += by;
  if (whence == 2) by = -below(all->length + 1), *position(which) = all->length + by;
  equal("position", lseek(descriptors[which], by, whence), *position(which));
}

/* A hole must read as zeros. Missing holes are allowed. */
static void seek_data(int which) {
  long at = place(LONGEST), before = which == 5 ? 0 : *position(which);
  say("lseek for data", which, at, 0);
  long data = lseek(descriptors[which], at, SEEK_DATA);
  long end = data < 0 ? all->length : data;
  if (data < 0) equal("errno", errno, ENXIO);
  for (long byte = at; byte < end; byte++)
    if (all->twin[byte]) fail("a byte in a hole, at", byte, 0);
  equal("position", lseek(descriptors[which], before, SEEK_SET), before);
}

static void change_length(int which) {
  long to = place(LONGEST);
  int by_name = !stays_ours && below(2);
  if (stays_ours && to < SHORTEST) to += SHORTEST;
  say(by_name ? "truncate" : "ftruncate", which, to, 0);
  equal("truncate", by_name ? truncate(name, to) : ftruncate(descriptors[which], to), 0);
  cut(to);
}

static void allocate(int which) {
  static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
                              FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
  int mode = modes[below(5)];
  long at = place(LONGEST - 1), count = 1 + place(200000);
  if (at + count > LONGEST) count = LONGEST - at;
  say("fallocate", which, at, count);
  if (fallocate(descriptors[which], mode, at, count)) {
    equal("errno", errno, EOPNOTSUPP);
    return;
  }
  if (!(mode & FALLOC_FL_KEEP_SIZE)) lengthen(at + count);
  if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) memset(all->twin + at, 0, there(at, count));
}

static void copy(int which) {
  long count = 1 + place(50000), source = place(LONGEST - 1), target = place(LONGEST - 1), got;
  count = there(source, count);
  if (target + count > LONGEST) count = LONGEST - target;
  if (count <= 0 || labs(source - target) < count) return;
  say("copy_file_range", which, target, count);
  off_t from = source, to = target;
  got = copy_file_range(descriptors[0], &from, descriptors[which], &to, count, 0);
  equal("bytes copied", got, count);
  memmove(all->twin + target, all->twin + source, count);
  lengthen(target + count);
}

/* Mapped in part, then grown. The file does not get stores to private mappings. */
static void map(int which) {
  if (all->length == 0) return;
  long at = place(all->length), count = there(at, 1 + place(20000)), first = below(256);
  int is_write = below(2), is_shared = below(3) > 0;
  say(is_write ? "write to a mapping" : "read of a mapping", which, at, is_shared ? count : -count);
  unsigned char *start = mmap(0, at + 1, PROT_READ | (is_write ? PROT_WRITE : 0),
                              is_shared ? MAP_SHARED : MAP_PRIVATE, descriptors[which], 0);
  if (start == MAP_FAILED) fail("mmap", -1, 0);
  if (is_write) start[at] = is_shared ? all->twin[at] = first : first;
  start = mremap(start, at + 1, all->length, MREMAP_MAYMOVE);
  if (start == MAP_FAILED) fail("mremap", -1, 0);
  for (long byte = 0; is_write && byte < count; byte++) {
    equal("stored", start[at + byte], byte || is_shared ? all->twin[at + byte] : first);
    start[at + byte] = first + byte % 253;
    if (is_shared) all->twin[at + byte] = start[at + byte];
    else equal("stored", start[at + byte], (first + byte % 253) & 255);
  }
  if (is_shared || !is_write) same_bytes(start + at, at, count);
  if (at) same_bytes(start + at - 1, at - 1, 1);
  munmap(start, all->length);
}

static void open_again(int which) {
  say("open again", which, 0, 0);
  if (which < 2 || which == 5) {
    int again = dup(descriptors[which]);
    equal("close", close(descriptors[which]), 0);
    equal("dup2", dup2(again, descriptors[which]), descriptors[which]);
    equal("close", close(again), 0);
  } else {
    /* Other processes may have the description, so a similar one is opened. */
    int again = open(name, flags[which]);
    equal("close", close(again), 0);
  }
}

static void look(int which) {
  struct stat status;
  say("fsync and fstat", which, 0, 0);
  equal("fsync", below(2) ? fsync(descriptors[which]) : fdatasync(descriptors[which]), 0);
  equal("fstat", fstat(descriptors[which], &status), 0);
  equal("length", status.st_size, all->length);
}

static void read_by_name(void) {
  FILE *file = fopen(name, "r");
  say("fread of all", -1, 0, all->length);
  equal("fread", fread(room, 1, LONGEST, file), all->length);
  same_bytes(room, 0, all->length);
  fclose(file);
}

static void step(int is_mapped) {
  int which = (int)below(DESCRIPTORS), writable = which == 4 ? 0 : which;
  switch (below(is_mapped ? 22 : 19)) {
  case 0: case 1: case 2: case 3: case 4: return read_some(which);
  case 5: case 6: case 7: case 8: case 9: return write_some(writable);
  case 10: return seek(which);
  case 11: return seek_data(which);
  case 12: return change_length(writable);
  case 13: case 14: return allocate(writable);
  case 15: return copy(writable == 3 ? 2 : writable);
  case 16: return open_again(which);
  case 17: return look(writable);
  case 18: return read_by_name();
  default: return map(writable);
  }
}

int main(int nr, char **words) {
  int is_mapped, status, failed = 0;
  char turn = 0;
  if (nr != 6 || pipe(token)) return 2;
  name = words[1];
  all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  all->random = strtoul(words[2], 0, 10) * 0x9e3779b97f4a7c15UL + 1;
  is_mapped = strcmp(words[5], "calls") != 0;
  stays_ours = strcmp(words[5], "mapped") != 0;
  int made = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (stays_ours && ftruncate(made, all->length = LONGEST)) return 2;
  close(made);
  for (int which = 0; which < DESCRIPTORS; which++)
    descriptors[which] = which == 1 ? dup(descriptors[0]) : open(name, flags[which]);
  for (int process = 0; process < atoi(words[4]); process++) {
    if (fork()) continue;
    while (read(token[0], &turn, 1) == 1 && turn != 'e') {
      if (all->steps < strtoul(words[3], 0, 10)) step(is_mapped);
      else turn = 'e';
      all->steps++;
      (void)!write(token[1], &turn, 1);
    }
    /* The end is for all. */
    (void)!write(token[1], "e", 1);
    _exit(0);
  }
  (void)!write(token[1], "t", 1);
  while (wait(&status) > 0) {
    failed |= status;
    if (status) (void)!write(token[1], "e", 1);
  }
  if (!failed) read_by_name(), puts("ok");
  return failed != 0;
}
