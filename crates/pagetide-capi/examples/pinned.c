/* Pages of a file that is four times as large as the memory there is for it, in place.
 *
 *   cc pinned.c $(pkg-config --cflags --libs pagetide) -o pinned && ./pinned /var/tmp/big.bin
 */
#include <pagetide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NR_PAGES 1024
#define PAGE 4096

static void must(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, pt_last_error(), strerror((int)-result));
        exit(1);
    }
}

/* Each page begins with its own number. */
static void make(pt_cache *cache, const char *path) {
    unsigned char page[PAGE] = {0};
    pt_file *file;
    must(pt_file_open(cache, path, PT_READ | PT_WRITE | PT_CREATE | PT_TRUNCATE, &file), "open");
    for (uint64_t index = 0; index < NR_PAGES; index++) {
        memcpy(page, &index, sizeof index);
        must(pt_file_pwrite(file, page, sizeof page, index * PAGE), "write");
    }
    must(pt_file_sync(file), "sync");
    pt_file_close(file);
}

static uint64_t first_word(const pt_page *page) {
    uint64_t word;
    memcpy(&word, page->data, sizeof word);
    return word;
}

int main(int argc, char **argv) {
    if (argc != 2 || pt_abi_version() != PT_ABI_VERSION) {
        fprintf(stderr, "usage: pinned FILE (it is overwritten)\n");
        return 2;
    }
    pt_cache_options options = {0};
    options.size = sizeof options;
    options.memory_bytes = NR_PAGES / 4 * PAGE;
    options.policy = "mglru";
    pt_cache *cache;
    must(pt_cache_open(&options, &cache), "cache");
    make(cache, argv[1]);

    pt_file *file;
    must(pt_file_open(cache, argv[1], PT_READ | PT_WRITE, &file), "open");
    must(pt_file_advise(file, PT_ADVICE_RANDOM, 0, 0), "advise");
    uint64_t random = 1, nr_wrong = 0;
    for (int nth = 0; nth < 4 * NR_PAGES; nth++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        uint64_t index = (random >> 33) % NR_PAGES;
        pt_page page;
        must(pt_page_pin(file, index, &page), "pin");
        nr_wrong += first_word(&page) != index;
        must(pt_page_unpin(&page), "unpin");
    }

    pt_locked_page locked;
    must(pt_page_lock(file, 7, &locked), "lock");
    memcpy(locked.data + 100, "tide", 4);
    must(pt_page_unlock(&locked), "unlock");
    must(pt_file_sync(file), "sync");
    char word[5] = {0};
    must(pt_file_pread(file, word, 4, 7 * PAGE + 100), "read");
    nr_wrong += strcmp(word, "tide") != 0;

    pt_cache_stats stats = {0};
    stats.size = sizeof stats;
    must(pt_cache_get_stats(cache, &stats), "stats");
    printf("%llu accesses, %llu hits, %llu of %llu bytes, %llu wrong\n",
           (unsigned long long)stats.accesses, (unsigned long long)stats.hits,
           (unsigned long long)stats.resident_bytes, (unsigned long long)stats.memory_bytes,
           (unsigned long long)nr_wrong);
    pt_file_close(file);
    pt_cache_close(cache);
    return nr_wrong == 0 && stats.resident_bytes <= stats.memory_bytes ? 0 : 1;
}
