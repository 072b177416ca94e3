/* The decisions for a cache of objects, whose bytes the program keeps itself.
 *
 *   cc policy.c $(pkg-config --cflags --libs pagetide) -o policy && ./policy
 */
#include <pagetide.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NR_OBJECTS 4000
#define CAPACITY (256 << 10)

static void must(int64_t result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, pt_last_error(), strerror((int)-result));
        exit(1);
    }
}

static char *contents[NR_OBJECTS];

static uint64_t length_of(uint64_t object) {
    return 100 + object % 5 * 400;
}

static void drop(const uint64_t *keys, int64_t nr_keys) {
    for (int64_t nth = 0; nth < nr_keys; nth++) {
        free(contents[keys[nth]]);
        contents[keys[nth]] = NULL;
    }
}

/* Returns the object's contents, which are read after a miss. */
static const char *get(pt_policy *policy, uint64_t object) {
    if (!pt_policy_access(policy, object)) {
        const uint64_t *evicted;
        int64_t nr_evicted = pt_policy_insert(policy, object, length_of(object), &evicted);
        must(nr_evicted, "insert");
        drop(evicted, nr_evicted);
        contents[object] = calloc(1, length_of(object));
    }
    return contents[object];
}

int main(void) {
    pt_policy *policy;
    pt_policy_options options = {0};
    options.size = sizeof options;
    options.capacity_bytes = CAPACITY;
    options.entry_bytes = 900;
    if (pt_policy_open("mru", &options, &policy) >= 0 || !strstr(pt_last_error(), "s3fifo"))
        return 1;
    must(pt_policy_open("s3fifo", &options, &policy), "open");

    /* The object in use stays. */
    get(policy, 7);
    must(pt_policy_pin(policy, 7), "pin");
    uint64_t random = 1, nr_wrong = 0;
    for (int nth = 0; nth < 100000; nth++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        uint64_t below = (random >> 33) % NR_OBJECTS + 1;
        random = random * 6364136223846793005 + 1442695040888963407;
        nr_wrong += get(policy, (random >> 33) % below) == NULL;
    }
    nr_wrong += pt_policy_contains(policy, 7) != 1 || contents[7] == NULL;
    must(pt_policy_unpin(policy, 7), "unpin");

    pt_policy_stats stats = {0};
    stats.size = sizeof stats;
    must(pt_policy_get_stats(policy, &stats), "stats");
    nr_wrong += stats.bytes > CAPACITY || stats.hits + stats.misses != stats.accesses;
    uint64_t nr_kept = 0;
    for (int object = 0; object < NR_OBJECTS; object++)
        nr_kept += contents[object] != NULL;
    nr_wrong += nr_kept != stats.entries;

    /* Smaller, then empty. */
    const uint64_t *evicted;
    options.capacity_bytes /= 2;
    int64_t nr_evicted = pt_policy_resize(policy, &options, &evicted);
    must(nr_evicted, "resize");
    drop(evicted, nr_evicted);
    uint64_t key;
    if (pt_policy_evict(policy, &key) == 1)
        drop(&key, 1);
    for (int object = 0; object < NR_OBJECTS; object++)
        if (pt_policy_remove(policy, object) == 1)
            drop(&(uint64_t){object}, 1);
    for (int object = 0; object < NR_OBJECTS; object++)
        nr_wrong += contents[object] != NULL;
    nr_wrong += pt_policy_key("block", 5) == pt_policy_key("blocks", 6);
    printf("%s hits, %llu wrong\n", stats.hits > 20000 ? "enough" : "too few",
           (unsigned long long)nr_wrong);
    pt_policy_close(policy);
    return nr_wrong != 0;
}
