/* An array that is four times as large as the memory there is for it, used like any other.
 *
 *   cc region.c $(pkg-config --cflags --libs pagetide) -o region && ./region /var/tmp/sum
 */
#include <errno.h>
#include <fcntl.h>
#include <pagetide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NR_WORDS (1u << 19)

static void must(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, pt_last_error(), strerror((int)-result));
        /* Some machines forbid userfaultfd, which regions need. */
        exit(result == -EPERM || result == -EACCES || result == -ENOSYS ? 77 : 1);
    }
}

/* Before a system call gets an address, its page is filled, and again if it left. */
static ssize_t write_from(pt_region *region, int fd, size_t offset, size_t len) {
    const char *start = pt_region_address(region);
    ssize_t written;
    do {
        must(pt_region_populate(region, offset, len, PT_READ), "populate");
        written = write(fd, start + offset, len);
    } while (written < 0 && errno == EFAULT);
    return written;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: region FILE (it is overwritten)\n");
        return 2;
    }
    pt_cache_options options = {0};
    options.size = sizeof options;
    options.memory_bytes = NR_WORDS * sizeof(uint64_t) / 4;
    pt_cache *cache;
    must(pt_cache_open(&options, &cache), "cache");

    pt_region_options wanted = {0};
    wanted.size = sizeof wanted;
    wanted.len_bytes = NR_WORDS * sizeof(uint64_t);
    pt_region *region;
    must(pt_region_create(cache, &wanted, &region), "region");

    uint64_t *words = pt_region_address(region);
    uint64_t sum = 0;
    for (uint64_t at = 0; at < NR_WORDS; at++) words[at] = at;
    for (uint64_t at = NR_WORDS; at-- > 0;) sum += words[at];

    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t written = write_from(region, fd, 4096, 4096);
    close(fd);

    pt_region_stats stats = {0};
    stats.size = sizeof stats;
    must(pt_region_get_stats(region, &stats), "stats");
    must(pt_region_sync(region), "sync");
    printf("sum %llu, %lld bytes written\n", (unsigned long long)sum, (long long)written);
    int is_inside = stats.resident_bytes <= options.memory_bytes;
    pt_region_destroy(region);
    pt_cache_close(cache);
    return is_inside && sum == (uint64_t)NR_WORDS * (NR_WORDS - 1) / 2 ? 0 : 1;
}
