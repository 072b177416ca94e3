/*
 * Pagetide: a page cache over real files that a program owns, with a hard byte limit.
 *
 *     pt_cache_options options = {0};            (C++: pt_cache_options options{};)
 *     options.size = sizeof options;
 *     options.memory_bytes = 64 << 20;
 *     pt_cache *cache;
 *     pt_file *file;
 *     pt_page page;
 *     if (pt_cache_open(&options, &cache) || pt_file_open(cache, "big.bin", PT_READ, &file)
 *         || pt_page_pin(file, 7, &page))
 *         errx(1, "%s", pt_last_error());
 *     use(page.data, page.len);                  in place: it stays until it is unpinned
 *     pt_page_unpin(&page);
 *
 * Errors. A call returns 0 or a count; below 0 it is an errno, negated, and pt_last_error() has the
 * sentence. Of every call: -EINVAL for a NULL that may not be one, text that is not UTF-8, a bit
 * that means nothing; -E2BIG for options set that this library does not know; -ENOTRECOVERABLE for
 * a bug of Pagetide's, which is worth a report. Otherwise it is the system's errno where the system
 * refused, and else: -EACCES (not opened for that), -EBUSY (pinned, dirty or open: let go, and
 * again), -EDEADLK (the thread would wait for its own guard), -EDQUOT and -ENOMEM (ask for less),
 * -EEXIST, -EFBIG, -EIO, -ENODATA (past the end), -ENOENT, -EOPNOTSUPP.
 *
 * Threads. Any number at once, in all calls, but for those that end what others use: a handle is
 * closed when no call and no guard of it is under way. A guard stays on its thread. A policy takes
 * one call at a time.
 *
 * Pointers. What is passed is NULL where that is allowed, or valid for the time of the call; text
 * ends with a zero byte, and is copied. What is made lives until it is closed, in any order but
 * that of guards and their file.
 *
 * fork(). A child uses nothing of its parent's caches, and closes none; exec is fine.
 *
 * Structures begin with their size: set it to sizeof, and the rest to zero. They grow at their end,
 * so that a program built for a shorter one goes on; PT_ABI_VERSION is the version of all else.
 *
 * A page has 4096 bytes, page 7 begins at byte 28672. Sizes and offsets are bytes.
 * Apache-2.0 or MIT.
 */

#ifndef PAGETIDE_H
#define PAGETIDE_H

#include <stddef.h>
#include <stdint.h>

// The version of the interface. Rises when programs must be recompiled or changed, but not when
// structures grow.
#define PT_ABI_VERSION 1

// Open for reading.
#define PT_READ 1

// Open for writing. The file must be readable as well, because partial pages are read first.
#define PT_WRITE 2

// Create a missing file. Needs PT_WRITE.
#define PT_CREATE 4

// Truncate the file to length 0. Needs PT_WRITE.
#define PT_TRUNCATE 8

// Create the file, and fail with -EEXIST if there is one. Needs PT_WRITE.
#define PT_CREATE_NEW 16

// No particular pattern: drops earlier advice. For the file from now on.
#define PT_ADVICE_NORMAL 0

// Sequential: reads ahead as far as allowed. For the file from now on.
#define PT_ADVICE_SEQUENTIAL 1

// Random: stops looking for streams. For the file from now on.
#define PT_ADVICE_RANDOM 2

// Accesses do not predict the future, and are not counted. For the file from now on.
#define PT_ADVICE_NOREUSE 3

// The range will be needed soon: fills its pages in the background.
#define PT_ADVICE_WILLNEED 4

// The range will not be needed: writes back dirty pages, and drops them.
#define PT_ADVICE_DONTNEED 5

// The number of words of a guard.
#define PT_GUARD_WORDS 10

// A page cache with a hard byte limit.
typedef struct pt_cache pt_cache;

// An open file with its own readahead, advice, and view of write-back errors.
typedef struct pt_file pt_file;

// A tenant of a cache that was opened with groups.
typedef struct pt_group pt_group;

// The bytes of a range of a file, pinned until pt_file_unpin.
typedef struct pt_pinned pt_pinned;

// The keys of a cache, and the decision which key leaves. Calls with the same policy are made one
// at a time: the caller locks, or gives each thread a policy.
typedef struct pt_policy pt_policy;

// An address range with pages that are filled on faults and evicted. Any code may load and store.
typedef struct pt_region pt_region;

// Options for opening a cache. Either memory_bytes or tiers must be given.
typedef struct pt_cache_options {
    // sizeof(pt_cache_options).
    size_t size;
    // The hard limit of managed memory in bytes, rounded down to whole pages, at least 65536.
    uint64_t memory_bytes;
    // The maximum for pt_cache_resize in bytes. Reserves addresses, not memory. 0: memory_bytes.
    uint64_t memory_max_bytes;
    // The replacement policy, by name (`pagetide policies`). NULL: "pagetide".
    const char *policy;
    // Tiers instead of memory_bytes, as "dram=64M" and "slow=256M,latency=300ns", a list that ends
    // with NULL. NULL: one kind of memory.
    const char *const *tiers;
    // Knobs by name (docs/config.md), as "readahead_max=0", a list that ends with NULL.
    // NULL: none.
    const char *const *settings;
    // The file to record every access in, for `pagetide replay`. NULL: none.
    const char *record;
    // 1 to allow groups, else 0.
    uint64_t groups;
} pt_cache_options;

// A cache's counters since its opening, and its current use of memory. Counts are exact when no
// call is running.
typedef struct pt_cache_stats {
    // sizeof(pt_cache_stats).
    size_t size;
    // The limit, in bytes.
    uint64_t memory_bytes;
    // Memory in use, in bytes. Never above the limit.
    uint64_t resident_bytes;
    // The peak of memory in use, in bytes.
    uint64_t resident_bytes_max;
    // Changed and not yet written back, in bytes.
    uint64_t dirty_bytes;
    // Page accesses: hits and misses.
    uint64_t accesses;
    // Accesses to pages in memory.
    uint64_t hits;
    // Accesses to absent pages.
    uint64_t misses;
    // Pages read directly to the caller, because all memory was in use.
    uint64_t bypass_reads;
    // Pages written directly to the file, because all memory was in use.
    uint64_t writes_through;
    // Read requests to files.
    uint64_t device_reads;
    // Bytes read by these requests.
    uint64_t device_read_bytes;
    // Write requests to files.
    uint64_t device_writes;
    // Bytes written by these requests.
    uint64_t device_write_bytes;
    // Pages that came back after their eviction, if the policy tracks this.
    uint64_t refaults;
    // Refaults that were activated at once.
    uint64_t activations;
    // Pages evicted.
    uint64_t evictions;
    // CPU time spent reclaiming, in nanoseconds.
    uint64_t reclaim_cpu_ns;
    // 1 if files bypass the kernel's page cache. 0 once any file refused.
    uint64_t direct_io;
    // 1 if batched requests go through io_uring.
    uint64_t io_uring;
} pt_cache_stats;

// A pinned page, which stays in place and is not written. Do not copy or move the structure.
typedef struct pt_page {
    // The read-only bytes. NULL once unpinned.
    const uint8_t *data;
    // The number of bytes: 4096, fewer in the last page of a file.
    size_t len;
    // Private.
    size_t guard[PT_GUARD_WORDS];
} pt_page;

// A locked page, for which other threads wait. Do not copy or move the structure.
typedef struct pt_locked_page {
    // A copy of the bytes, to be changed. NULL once unlocked.
    uint8_t *data;
    // The number of bytes: 4096, fewer in the last page of a file.
    size_t len;
    // Private.
    size_t guard[PT_GUARD_WORDS];
} pt_locked_page;

// A group's limit and guarantees in bytes, including its subgroups. Rounded down to whole pages.
typedef struct pt_group_options {
    // sizeof(pt_group_options).
    size_t size;
    // The maximum use in bytes, at least 65536. 0: no limit of its own.
    uint64_t limit_bytes;
    // The use that reclaim never takes, in bytes.
    uint64_t min_bytes;
    // The use that reclaim takes only as a last resort, in bytes.
    uint64_t low_bytes;
} pt_group_options;

// A group's use of memory, including its subgroups, and the group's own counters.
typedef struct pt_group_stats {
    // sizeof(pt_group_stats).
    size_t size;
    // The maximum use in bytes, 0 for no limit of its own.
    uint64_t limit_bytes;
    // The use that reclaim never takes, in bytes.
    uint64_t min_bytes;
    // The use that reclaim takes only as a last resort, in bytes.
    uint64_t low_bytes;
    // Charged memory, in bytes. Above the limit only after the limit was lowered.
    uint64_t usage_bytes;
    // Page accesses to the group's files: hits and misses.
    uint64_t accesses;
    // Accesses to pages in memory.
    uint64_t hits;
    // Accesses to absent pages.
    uint64_t misses;
    // Pages read directly to the caller, because all memory was in use.
    uint64_t bypass_reads;
    // Pages written directly to the file, because all memory was in use.
    uint64_t writes_through;
    // The group's pages that came back after their eviction, if the policy tracks this.
    uint64_t refaults;
    // Refaults that were activated at once.
    uint64_t activations;
    // The group's evicted pages.
    uint64_t evictions;
} pt_group_stats;

// Options for a region: len_bytes of zeros, or over the file at path.
typedef struct pt_region_options {
    // sizeof(pt_region_options).
    size_t size;
    // The length of an anonymous region in bytes, rounded up to whole pages. 0: over a file.
    uint64_t len_bytes;
    // The existing file that the region reads and writes. While the region lives, the cache has no
    // other access to the file. NULL: an anonymous region.
    const char *path;
    // The folder for evicted pages of an anonymous region. NULL: TMPDIR, else /var/tmp.
    const char *swap_folder;
    // Threads that serve the region's faults. 0: the faulting thread serves its own fault if
    // possible, at a fraction of the cost. See docs/regions.md for the requirements.
    uint64_t handlers;
    // 1: opens the file read-only, without need of write access. Stores to the region stay in
    // memory, and reach no file. 0, or without a path: no effect.
    uint64_t read_only;
} pt_region_options;

// A region's faults so far, and its current use of memory.
typedef struct pt_region_stats {
    // sizeof(pt_region_stats).
    size_t size;
    // Faults on absent pages.
    uint64_t missing_faults;
    // Faults on unmapped pages in memory, which reveal their use.
    uint64_t minor_faults;
    // Stores to pages mapped for reading.
    uint64_t wp_faults;
    // Faults that could not be served: the thread got SIGBUS.
    uint64_t failed_faults;
    // Memory of the pages now, in bytes.
    uint64_t resident_bytes;
    // 1 if the faulting thread serves its own fault: system calls given addresses of unmapped
    // pages then fail with EFAULT. 0 if threads of the region do.
    uint64_t is_served_in_place;
} pt_region_stats;

// The capacity of a policy.
typedef struct pt_policy_options {
    // sizeof(pt_policy_options).
    size_t size;
    // The largest number of entries. 0: capacity_bytes / entry_bytes, rounded up.
    uint64_t capacity_entries;
    // The largest sum of the entries' lengths in bytes. 0: no limit in bytes.
    uint64_t capacity_bytes;
    // The average length of an entry, for a capacity in bytes.
    uint64_t entry_bytes;
    // The largest capacity of a later resize, in entries. 0: the capacity.
    uint64_t entries_max;
    // The number of evictions after which a key is forgotten. 0: two for each entry.
    uint64_t history;
} pt_policy_options;

// A policy's counters since it was opened, and its present keys. accesses is hits + misses, and
// inserted is evicted + removed + entries.
typedef struct pt_policy_stats {
    // sizeof(pt_policy_stats).
    size_t size;
    // Accesses, including inserts of present keys.
    uint64_t accesses;
    // Accesses of present keys.
    uint64_t hits;
    // Accesses of absent keys.
    uint64_t misses;
    // Absent keys added.
    uint64_t inserted;
    // Keys evicted, by inserts, resizes and requests.
    uint64_t evicted;
    // Present keys removed.
    uint64_t removed;
    // Present keys.
    uint64_t entries;
    // The sum of their lengths.
    uint64_t bytes;
    // Pinned keys.
    uint64_t pinned;
} pt_policy_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the PT_ABI_VERSION of the loaded library. A program compiled with another version should
// stop.
uint32_t pt_abi_version(void);

// Returns the library's version, as "0.1.0". Never NULL, never freed.
const char *pt_version(void);

// Returns the message of this thread's last failed call: the cause with numbers, and the remedy.
// Never NULL, and empty before the first failure. Valid until this thread's next failed call.
// Unchanged by successful calls.
const char *pt_last_error(void);

// Opens a cache: reserves memory, and starts threads.
//
// Errors: -EINVAL if an option is wrong, which the message names. -ENOMEM if memory is short. The
// system's errors for the record and for threads.
// Cost: writes tables proportional to the number of pages. Memory is allocated on use.
int pt_cache_open(const struct pt_cache_options *wanted, struct pt_cache **cache);

// Closes a cache. The cache lives until the last file and region are closed, then writes back
// dirty pages, and stops all threads. Errors of this write-back are lost, so sync first. NULL
// does nothing.
//
// Cost: of the last close, the write-back, and returning the memory to the system.
void pt_cache_close(struct pt_cache *cache);

// Changes the limit, up to memory_max_bytes. Shrinking evicts pages, and returns the memory to
// the system.
//
// Errors: -EINVAL if outside the cache's range, or below the groups' guarantees, without any
// change. -EBUSY if too much is pinned or cannot be written back, after a partial eviction.
// Waits for another resize of a cache with tiers.
// Cost: an eviction per page removed, and the write-back of dirty ones.
int pt_cache_resize(const struct pt_cache *cache, uint64_t memory_bytes);

// Writes back all dirty pages of all files, but not durably: use pt_cache_sync.
//
// Errors: the system's error for a page that could not be written and stays dirty. -EDEADLK if
// this thread has a page locked.
// Waits for threads that have dirty pages locked.
// Cost: the device's, one request per up to 64 neighbouring pages, several at once.
int pt_cache_flush(const struct pt_cache *cache);

// Fills the structure with the cache's statistics. Set stats->size before.
//
// Cost: takes several locks in turn, and reads every thread's counts. Not for every request.
int pt_cache_get_stats(const struct pt_cache *cache, struct pt_cache_stats *stats);

// Reads a counter by name, which is the kernel's name in /proc/vmstat if it has one, as
// "pgsteal_file".
//
// Errors: -ENOENT if there is no such counter. See pt_cache_describe_counters.
// Cost: of pt_cache_get_stats.
int pt_cache_get_counter(const struct pt_cache *cache, const char *name, uint64_t *value);

// Writes about ten lines for people: use of memory, hits, files, reclaim, tiers. As snprintf:
// writes at most capacity bytes, the last of them zero, and returns the length of the whole text.
// A buffer of 0 bytes may be NULL.
//
// Cost: of pt_cache_get_stats.
int64_t pt_cache_describe(const struct pt_cache *cache, char *buffer, size_t capacity);

// Writes every counter, one per line: name, space, value. Returns as pt_cache_describe.
int64_t pt_cache_describe_counters(const struct pt_cache *cache, char *buffer, size_t capacity);

// Makes all changes of all files durable. Continues after an error, and returns the first one.
//
// Errors: as pt_cache_flush, and the system's error for a file that could not be made durable.
// Waits as pt_cache_flush.
int pt_cache_sync(const struct pt_cache *cache);

// Writes back dirty unlocked pages, and drops unused pages, of all files. Returns the bytes freed.
int64_t pt_cache_drop(const struct pt_cache *cache);

// Writes the generations in the format of Linux's lru_gen, or with full 1 of lru_gen_full. Empty
// if the policy has none. Returns as pt_cache_describe.
int64_t pt_cache_describe_lru_gen(const struct pt_cache *cache,
                                  uint64_t full,
                                  char *buffer,
                                  size_t capacity);

// Runs commands to the generations, in the format of Linux's lru_gen. Returns the number of pages
// evicted.
//
// Errors: -EINVAL for the first command that fails. Earlier commands took effect.
int64_t pt_cache_command_lru_gen(const struct pt_cache *cache, const char *commands);

// Writes the files' pages in memory, with heat, as text for pt_cache_warm (the format is in
// docs/formats.md). Returns as pt_cache_describe. Pages in memory may have changed by the next
// call.
//
// Cost: a visit of each page in memory.
int64_t pt_cache_dump(const struct pt_cache *cache, char *buffer, size_t capacity);

// Fills the pages listed by pt_cache_dump, for each unchanged file once opened: hottest first,
// in the background, until memory is full.
//
// Errors: -EINVAL for text that is not a dump, or was truncated.
int pt_cache_warm(const struct pt_cache *cache, const char *dump);

// Opens a regular file, with PT_ flags. Two opens of one file share pages. Sees all writes of
// programs that have closed the file.
//
// Errors: the system's. -EINVAL if flags has neither PT_READ nor PT_WRITE. -EBUSY if a region is
// over the file. -EFBIG, -EDQUOT.
// Cost: a few system calls.
int pt_file_open(const struct pt_cache *cache,
                 const char *path,
                 uint32_t flags,
                 struct pt_file **file);

// Opens the regular file of a descriptor, with the access of the descriptor. Shares pages with all
// other opens of the file. The caller keeps fd, and may close fd at once. Flags for open(2), such
// as the mode of a new file, are the caller's choice.
//
// Keeps the open file description of fd, and its locks by flock(2) and F_OFD_SETLK, until
// pt_file_close, which first writes back all dirty pages. The locks of F_SETLK belong to the
// process, and end when any descriptor of the file is closed.
//
// Errors: -EACCES if fd is not open for reading, because partial pages are read first. -EBADF.
// Otherwise as pt_file_open.
// Cost: as pt_file_open. The file keeps one descriptor more.
int pt_file_open_fd(const struct pt_cache *cache, int fd, struct pt_file **file);

// Closes a file. Dirty pages are written back, now or later. The next open of the file reports
// errors of this write-back, so sync first. Unpin all pages before. NULL does nothing.
//
// Cost: none, except in a cache without background threads, which writes back before the return.
void pt_file_close(struct pt_file *file);

// Reads up to len bytes at offset. Returns the number of bytes, fewer only at the end of the file,
// 0 at or past the end. Never fails for lack of memory.
//
// Errors: -EACCES if not opened with PT_READ. The system's. -EDEADLK if this thread has the page
// locked. The buffer's contents are then unspecified.
// Waits for threads that have a page of the range locked.
// Cost for memory within one page: the copy, and 10 to 18 ns.
int64_t pt_file_pread(const struct pt_file *file, void *buffer, size_t len, uint64_t offset);

// Writes len bytes at offset. Returns len. The file grows as needed, and a gap reads as zeros. The
// bytes are in memory, and stored after the next sync. Never fails for lack of memory.
//
// Errors: -EACCES if not opened with PT_WRITE. -EFBIG. The system's. -EDEADLK if this thread has a
// page of the range pinned or locked. Pages before the failed one are written.
// Waits for threads that have a page of the range pinned or locked, and for write-back while too
// much is dirty.
// Cost for pages in memory: a lock and the copy. A partly written page is read first.
int64_t pt_file_pwrite(const struct pt_file *file, const void *buffer, size_t len, uint64_t offset);

// Pins len bytes at offset, and stores their address in data. The bytes are read-only, in one
// piece, and do not change. Absent pages are read first. Unlike a page of pt_page_pin, may be kept
// for any time, and unpinned by any thread, even after pt_file_close.
//
// Counts against the limit, because nothing can evict the bytes. A range within one page, or in
// adjacent memory of the cache, is pinned in place. Other ranges are copied, and so is every range
// of a file that is open for writing in this cache.
//
// Errors: -EACCES if not opened with PT_READ. -ENODATA if the file ends early. The system's.
// -EBUSY if too little memory is left beside pins: pt_file_pread always works. -EDEADLK if this
// thread has a page locked. On failure, nothing is pinned.
// No thread waits for a pin. A call that would change a page pinned in place fails with -EBUSY: a
// write to a file that was opened for writing later, and a read of a page that another program has
// changed.
// Cost in place: two atomics per page, and an allocation. A copy: the read, and a system call per
// page.
int pt_file_pin(const struct pt_file *file,
                uint64_t offset,
                size_t len,
                const void **data,
                struct pt_pinned **pinned);

// Unpins a range, and ends the use of its bytes. Never waits. NULL does nothing.
void pt_file_unpin(struct pt_pinned *pinned);

// Returns the file's length in bytes, including unwritten data. Free.
int64_t pt_file_len(const struct pt_file *file);

// Truncates the file to len bytes, or extends it with zeros. Takes effect at once, and is durable
// after the next sync. A pinned page keeps its bytes until unpinned.
//
// Errors: -EACCES, -EFBIG. The system's, with the length unchanged.
// Waits for other threads' running requests on the file, but not for guards.
// Cost: a system call, and a visit of each removed page.
int pt_file_set_len(const struct pt_file *file, uint64_t len);

// Writes back the file's dirty pages, and makes them durable: on return of 0, all earlier writes
// survive a crash.
//
// Errors: the system's error of any write-back of the file since the last sync through this
// handle, reported once, with the pages still dirty. The system's error of the sync.
// -EDEADLK if this thread has a page of the file locked.
// Waits for threads that have dirty pages of the file locked.
// Cost: the device's, one request per up to 64 neighbouring pages, several at once.
int pt_file_sync(const struct pt_file *file);

// As pt_file_sync, but not durably: other programs see all earlier writes.
//
// Errors, waits and cost: as pt_file_sync, except the device's flush.
int pt_file_flush(const struct pt_file *file);

// Takes advice, one of PT_ADVICE_, about a range of bytes. len 0 is to the end.
//
// Errors: -EINVAL for other advice. For PT_ADVICE_DONTNEED the system's, with unwritten pages
// kept, or -EDEADLK if this thread has a page of the file locked.
// Cost: PT_ADVICE_WILLNEED a message to a thread of the cache, PT_ADVICE_DONTNEED as
// pt_file_flush, other advice none.
int pt_file_advise(const struct pt_file *file, uint32_t advice, uint64_t offset, uint64_t len);

// Returns the number of pages of a range of bytes that are in memory now.
//
// Cost: a look at each page of the range that was ever used.
int64_t pt_file_resident_pages(const struct pt_file *file, uint64_t offset, uint64_t len);

// Pins page index, which begins at byte index * 4096, and fills an absent page first. Sets data
// and len. Unpin soon: a pinned page cannot leave memory, and writers wait. Unpin in the same
// thread, before the file is closed.
//
// Errors: -EACCES if not opened with PT_READ. -ENODATA past the end of the file. The system's.
// -EBUSY if all memory is in use: unpin other pages, or use pt_file_pread, which always works.
// -EDEADLK if this thread has the page locked. On failure, nothing is pinned, and data is NULL.
// Waits for a thread that has the page locked.
// Cost for a page in memory: about 14 ns to pin and unpin, one atomic each, no lock.
int pt_page_pin(const struct pt_file *file, uint64_t index, struct pt_page *page);

// Unpins a page, and sets data to NULL. Never waits.
//
// Errors: -EINVAL if the page is not pinned.
int pt_page_unpin(struct pt_page *page);

// Locks page index for changes, and fills an absent page first. data is a copy of the page, which
// is published as a whole on unlock. The file does not grow. Unlock in the same thread, before
// the file is closed.
//
// Changed bytes are written, and also unchanged bytes between two changes less than 128 bytes
// apart.
//
// Errors: -EACCES if not opened with PT_WRITE. -EINVAL past the end of the file. The system's.
// -EBUSY if all memory is in use: pt_file_pwrite always works. -EDEADLK if this thread has the
// page pinned or locked. On failure, nothing is locked, and data is NULL.
// Waits for threads that have the page pinned or locked.
// Cost: a copy of the page, and another on unlock.
int pt_page_lock(const struct pt_file *file, uint64_t index, struct pt_locked_page *page);

// Publishes the changes, unlocks the page, and sets data to NULL. Never waits.
//
// Errors: -EINVAL if the page is not locked.
// Cost: a comparison with the old contents, and a copy.
int pt_page_unlock(struct pt_locked_page *page);

// Makes a group, with a unique name in this cache.
//
// Errors: -EOPNOTSUPP if the cache was opened without groups. -EEXIST. -EINVAL if the options
// contradict each other or guarantee more than there is. -EDQUOT if there are too many groups.
// Cost: lists, which some policies size by the number of pages in memory.
int pt_group_create(const struct pt_cache *cache,
                    const char *name,
                    const struct pt_group_options *wanted,
                    struct pt_group **group);

// Makes a subgroup. The use is also charged to the parent.
//
// Errors and cost: as pt_group_create. -ENOENT if the parent was removed.
int pt_group_create_below(const struct pt_group *parent,
                          const char *name,
                          const struct pt_group_options *wanted,
                          struct pt_group **group);

// Closes the handle. The group stays until pt_group_remove. NULL does nothing.
void pt_group_close(struct pt_group *group);

// Opens a file as pt_file_open, and charges its pages to the group. A file belongs to one group at
// a time: the group of its oldest open handle.
//
// Errors: as pt_file_open. -ENOENT if the group was removed.
int pt_group_open_file(const struct pt_group *group,
                       const char *path,
                       uint32_t flags,
                       struct pt_file **file);

// Opens the file of a descriptor as pt_file_open_fd, and charges its pages to the group.
//
// Errors: as pt_file_open_fd. -ENOENT if the group was removed.
int pt_group_open_fd(const struct pt_group *group, int fd, struct pt_file **file);

// Changes the group's limits. Evicts pages above the new limit. Dirty or pinned pages stay until
// later misses.
//
// Errors: as pt_group_create. -ENOENT if the group was removed.
// Cost: an eviction per page removed.
int pt_group_set(const struct pt_group *group, const struct pt_group_options *wanted);

// Fills the structure with the group's statistics. Set stats->size before.
//
// Errors: -ENOENT if the group was removed.
// Cost: takes a lock, and reads every thread's counts. Not for every request.
int pt_group_get_stats(const struct pt_group *group, struct pt_group_stats *stats);

// Frees memory of the group in advance, in the calling thread. Writes the number of bytes freed,
// which may be less than wanted_bytes. freed_bytes may be NULL.
//
// Errors: -ENOENT if the group was removed.
// Cost: an eviction per page.
int pt_group_reclaim(const struct pt_group *group, uint64_t wanted_bytes, uint64_t *freed_bytes);

// Removes the group. The parent gets all files and pages. The handle must still be closed.
//
// Errors: -EBUSY if the group has subgroups. -ENOENT if removed before.
int pt_group_remove(const struct pt_group *group);

// Makes a region, which competes for memory with the rest of the cache. A page that cannot be read
// raises SIGBUS, as in a mapped file, and pt_region_sync returns the cause. Not for memory that
// devices write, nor for a child after fork.
//
// Errors: -EINVAL unless exactly one of len_bytes and path is given. -EBUSY if the file is open in
// this cache. -EACCES or -EPERM if the system refuses userfaultfd. The system's.
// Cost: a reservation of addresses, independent of the length, and threads.
int pt_region_create(const struct pt_cache *cache,
                     const struct pt_region_options *wanted,
                     struct pt_region **region);

// Ends a region: no code may use the addresses any more. Contents of an anonymous region are lost.
// Contents over a file are written back, and errors are lost, so sync first. NULL does nothing.
//
// Cost: the write-back, and a visit of each touched page.
void pt_region_destroy(struct pt_region *region);

// Returns the first address, page aligned. NULL for NULL. Free.
void *pt_region_address(const struct pt_region *region);

// Returns the length in bytes. Stores past this in a partial last page reach no file. Free.
int64_t pt_region_len(const struct pt_region *region);

// Maps the pages of a range of bytes, as far as memory allows, so that system calls can be given
// addresses in the range: PT_READ for calls that read there, PT_WRITE for calls that write there.
// Pages may leave again, so repeat a call that fails with EFAULT.
//
// Errors: -EINVAL for other access. -ENODATA if the range leaves the region. The system's.
// Cost: a fill per absent page, and a system call per unmapped page.
int pt_region_populate(const struct pt_region *region,
                       uint64_t offset,
                       uint64_t len,
                       uint32_t access);

// Writes back dirty pages, and makes them durable. An anonymous region writes nothing, and reports
// if its pages could not leave memory.
//
// Errors: as pt_file_sync. For an anonymous region, the system's error for the swap folder.
// Cost: as pt_file_sync. For an anonymous region, none.
int pt_region_sync(const struct pt_region *region);

// Takes advice about a range of bytes. len 0 is to the end. PT_ADVICE_WILLNEED fills the range,
// PT_ADVICE_DONTNEED writes back and frees the memory, but keeps the contents. Other advice has
// no effect.
//
// Errors and cost: as pt_file_advise.
int pt_region_advise(const struct pt_region *region,
                     uint32_t advice,
                     uint64_t offset,
                     uint64_t len);

// Fills the structure with the region's statistics. Set stats->size before.
//
// Cost: a look at every page that was ever touched.
int pt_region_get_stats(const struct pt_region *region, struct pt_region_stats *stats);

// Makes an empty policy with a name from `pagetide policies`, as "s3fifo".
//
// Errors: -EINVAL for an unknown name (the message lists the names), and a capacity of 0 or of
// more than 2^28 entries. Cost: reserves all memory, some 200 bytes for each entry.
int pt_policy_open(const char *name,
                   const struct pt_policy_options *wanted,
                   struct pt_policy **policy);

// Frees a policy. NULL is fine.
void pt_policy_close(struct pt_policy *policy);

// Returns a key for bytes, the same in every process. Different bytes seldom get the same key: the
// probability is one in 37 million among a million keys. NULL with a length above 0 counts as no
// bytes.
uint64_t pt_policy_key(const void *data, size_t len);

// Accesses a key. Returns 1 for a hit, 0 for a miss. After a miss, the caller may insert the key.
int pt_policy_access(struct pt_policy *policy, uint64_t key);

// Adds a key of an entry with len bytes. Returns the number of keys evicted for it, with their
// array in *evicted, in order. The array is valid until the next call with this policy. evicted
// may be NULL.
//
// The insert of a present key is an access, and sets its length. After an error, pt_policy_evicted
// has the keys evicted before the failure.
//
// Errors: -EFBIG for an entry longer than the capacity. -EBUSY if too much is pinned.
int64_t pt_policy_insert(struct pt_policy *policy,
                         uint64_t key,
                         uint64_t len,
                         const uint64_t **evicted);

// Returns the number of keys evicted by the last insert, evict or resize, and their array as
// pt_policy_insert.
int64_t pt_policy_evicted(const struct pt_policy *policy, const uint64_t **evicted);

// Evicts the key that the policy would evict next, into *key. Returns 1, or 0 if all keys are
// pinned, or if there are none.
int pt_policy_evict(struct pt_policy *policy, uint64_t *key);

// Removes a key with its pins and its history. Returns 1, or 0 if the key was absent.
int pt_policy_remove(struct pt_policy *policy, uint64_t key);

// Adds a pin to a key, which is not evicted until it has none. Returns 1, or 0 if the key is
// absent.
int pt_policy_pin(struct pt_policy *policy, uint64_t key);

// Takes a pin from a key. Returns 1, or 0 if the key is absent or has no pin.
int pt_policy_unpin(struct pt_policy *policy, uint64_t key);

// Returns 1 if a key is present, 0 if not. Not an access.
int pt_policy_contains(const struct pt_policy *policy, uint64_t key);

// Changes the capacity to that of the options. Returns the number of keys evicted for it, and
// their array as pt_policy_insert. entries_max and history are ignored.
//
// Errors: -EINVAL if the capacity is 0 or above the first entries_max. -EBUSY if more is pinned.
int64_t pt_policy_resize(struct pt_policy *policy,
                         const struct pt_policy_options *wanted,
                         const uint64_t **evicted);

// Writes the counters.
//
// Errors: -EINVAL for a size below the first version's.
int pt_policy_get_stats(const struct pt_policy *policy, struct pt_policy_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGETIDE_H */
