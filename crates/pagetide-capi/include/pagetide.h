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
 * closed when no call and no guard of it is under way. A guard stays on its thread.
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

// Rises when a program has to be compiled anew, or changed. Structures that only grow do not
// raise it.
#define PT_ABI_VERSION 1

// To be read.
#define PT_READ 1

// To be written. The file must be readable as well: partial pages are read first.
#define PT_WRITE 2

// Made if there is none; with PT_WRITE.
#define PT_CREATE 4

// Cut to nothing; with PT_WRITE.
#define PT_TRUNCATE 8

// No particular pattern: forget earlier advice. For the file from now on.
#define PT_ADVICE_NORMAL 0

// Front to back: read ahead as far as allowed. For the file from now on.
#define PT_ADVICE_SEQUENTIAL 1

// Anywhere: look for no stream. For the file from now on.
#define PT_ADVICE_RANDOM 2

// Accesses say nothing about the future: do not count them. For the file from now on.
#define PT_ADVICE_NOREUSE 3

// The range will be wanted soon: bring it in, beside the caller.
#define PT_ADVICE_WILLNEED 4

// The range will not be wanted: write back what is dirty, and drop it.
#define PT_ADVICE_DONTNEED 5

// Words that the library has in a guard.
#define PT_GUARD_WORDS 10

// A page cache with a hard byte limit.
typedef struct pt_cache pt_cache;

// An open file: its own readahead, advice, and view of write-back errors.
typedef struct pt_file pt_file;

// A tenant of a cache that was opened with groups.
typedef struct pt_group pt_group;

// An address range whose pages come and go; any code may load from it and store to it.
typedef struct pt_region pt_region;

// What a cache is to be. One of memory_bytes and tiers must be given.
typedef struct pt_cache_options {
    // sizeof(pt_cache_options).
    size_t size;
    // The hard limit of managed memory, bytes; rounded down to whole pages, at least 65536.
    uint64_t memory_bytes;
    // The most that pt_cache_resize can grow it to, bytes. Reserves addresses, not memory. 0: the
    // limit is the most.
    uint64_t memory_max_bytes;
    // The replacement policy, by a name that `pagetide policies` lists. NULL: "pagetide".
    const char *policy;
    // Tiers instead of memory_bytes, as "dram=64M" and "slow=256M,latency=300ns"; the list ends
    // with a NULL. NULL: one kind of memory.
    const char *const *tiers;
    // Knobs by the names of docs/config.md, as "readahead_max=0"; the list ends with a NULL. NULL:
    // none.
    const char *const *settings;
    // Where every access is written down, for `pagetide replay`. NULL: nowhere.
    const char *record;
    // 1 if there are to be groups, else 0.
    uint64_t groups;
} pt_cache_options;

// What a cache has done since it was opened, and how full it is now. Counts are exact when nothing
// is running.
typedef struct pt_cache_stats {
    // sizeof(pt_cache_stats).
    size_t size;
    // The limit, bytes.
    uint64_t memory_bytes;
    // Memory in use, bytes; never above the limit.
    uint64_t resident_bytes;
    // The most in use that was seen, bytes.
    uint64_t resident_bytes_max;
    // Changed and not yet written back, bytes.
    uint64_t dirty_bytes;
    // Pages wanted: hits and misses.
    uint64_t accesses;
    // Pages that were in memory when wanted.
    uint64_t hits;
    // Pages that were not.
    uint64_t misses;
    // Pages read straight to the caller because no memory could be had.
    uint64_t bypass_reads;
    // Pages written straight to the file because no memory could be had.
    uint64_t writes_through;
    // Read requests to files.
    uint64_t device_reads;
    // Bytes they read.
    uint64_t device_read_bytes;
    // Write requests to files.
    uint64_t device_writes;
    // Bytes they wrote.
    uint64_t device_write_bytes;
    // Pages that came back after their eviction, where the policy keeps track.
    uint64_t refaults;
    // Those of them that were made active at once.
    uint64_t activations;
    // Pages evicted.
    uint64_t evictions;
    // CPU time spent reclaiming, nanoseconds.
    uint64_t reclaim_cpu_ns;
    // 1 if files bypass the kernel's page cache; 0 once any file refused.
    uint64_t direct_io;
    // 1 if batched requests go through io_uring.
    uint64_t io_uring;
} pt_cache_stats;

// A page that is pinned: it stays where it is, and nothing writes it. Not to be copied or moved.
typedef struct pt_page {
    // Its bytes, to be read alone; NULL once it is unpinned.
    const uint8_t *data;
    // How many there are: 4096, fewer in the last page of a file.
    size_t len;
    // The library's.
    size_t guard[PT_GUARD_WORDS];
} pt_page;

// A page that is locked to be changed: other threads that want it wait. Not to be copied or moved.
typedef struct pt_locked_page {
    // A copy of its bytes, to be changed; NULL once it is unlocked.
    uint8_t *data;
    // How many there are: 4096, fewer in the last page of a file.
    size_t len;
    // The library's.
    size_t guard[PT_GUARD_WORDS];
} pt_locked_page;

// What a group may use and may keep, with those below it; rounded down to whole pages.
typedef struct pt_group_options {
    // sizeof(pt_group_options).
    size_t size;
    // The most it may use, bytes, at least 65536. 0: no limit of its own.
    uint64_t limit_bytes;
    // What it keeps whatever others need, bytes.
    uint64_t min_bytes;
    // What it keeps unless nothing else is left, bytes.
    uint64_t low_bytes;
} pt_group_options;

// What a group uses, with those below it, and what was done in it alone.
typedef struct pt_group_stats {
    // sizeof(pt_group_stats).
    size_t size;
    // The most it may use, bytes; 0 for no limit of its own.
    uint64_t limit_bytes;
    // What is never taken, bytes.
    uint64_t min_bytes;
    // What is taken only where nothing else is left, bytes.
    uint64_t low_bytes;
    // Charged to it, bytes; never above the limit, but where that was lowered.
    uint64_t usage_bytes;
    // Pages wanted of its files: hits and misses.
    uint64_t accesses;
    // Pages that were in memory when wanted.
    uint64_t hits;
    // Pages that were not.
    uint64_t misses;
    // Pages read straight to the caller because no memory could be had.
    uint64_t bypass_reads;
    // Pages written straight to the file because no memory could be had.
    uint64_t writes_through;
    // Pages of it that came back after their eviction, where the policy keeps track.
    uint64_t refaults;
    // Those of them that were made active at once.
    uint64_t activations;
    // Its pages evicted.
    uint64_t evictions;
} pt_group_stats;

// What a region is to be: len_bytes of zeros, or over the file at path.
typedef struct pt_region_options {
    // sizeof(pt_region_options).
    size_t size;
    // The length of an anonymous region, bytes, rounded up to whole pages. 0: over a file.
    uint64_t len_bytes;
    // The file that exists whose bytes it has, to be read and written. While the region lives it
    // is the cache's only way to the file. NULL: an anonymous region.
    const char *path;
    // The folder for what leaves an anonymous region's memory. NULL: TMPDIR, else /var/tmp.
    const char *swap_folder;
    // Threads that serve its faults. 0: the thread that touched a page serves its fault, where
    // that can be, at a fraction of the cost; see docs/regions.md for what it asks of the program.
    uint64_t handlers;
    // 1: the file is opened for reading alone, and need not be writable. What is stored in the
    // region all the same reaches no file, and stays in memory. 0, or without a path: no such
    // thing.
    uint64_t read_only;
} pt_region_options;

// Faults of a region so far, and memory it takes now.
typedef struct pt_region_stats {
    // sizeof(pt_region_stats).
    size_t size;
    // Faults on pages that were not in memory.
    uint64_t missing_faults;
    // On pages in memory that were not mapped: to learn that they are used.
    uint64_t minor_faults;
    // Stores to pages that were mapped for reading.
    uint64_t wp_faults;
    // On pages that could not be had: the thread got SIGBUS.
    uint64_t failed_faults;
    // Memory that its pages take now, bytes.
    uint64_t resident_bytes;
    // 1 if the thread that touched a page serves its fault: system calls that are given addresses
    // of pages that are not mapped then fail with EFAULT. 0 if threads of the region do.
    uint64_t is_served_in_place;
} pt_region_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// PT_ABI_VERSION of the library that is loaded. A program that finds another than it was compiled
// with should not go on.
uint32_t pt_abi_version(void);

// The library's version, as "0.1.0". Never NULL, never freed.
const char *pt_version(void);

// What the last call of this thread that failed had to say: what happened, with numbers, and what
// to do. Never NULL; empty if none has failed. Good until this thread's next call that fails.
// Calls that succeed leave it as it is.
const char *pt_last_error(void);

// Opens a cache: reserves its memory, and starts its threads.
//
// Errors: -EINVAL, the sentence names the option; -ENOMEM if there is not so much memory; what the
// system says of the record and of threads.
// Cost: tables as long as the memory has pages are written once; the memory comes as it is used.
int pt_cache_open(const struct pt_cache_options *wanted, struct pt_cache **cache);

// Closes a cache. It lives on until its last file and region are closed, then writes back what is
// dirty, and stops its threads. Errors of that last write-back cannot be told: sync first. NULL
// does nothing.
//
// Cost: of the last one, that write-back, and the memory's return to the system.
void pt_cache_close(struct pt_cache *cache);

// Changes the limit, up to memory_max_bytes. Shrinking evicts until it fits, and gives the memory
// to the system.
//
// Errors: -EINVAL outside what it was opened for, or less than groups are promised, and then
// nothing changed; -EBUSY if too much is pinned or cannot be written back: some was given up.
// Waits for another resize, where there are tiers.
// Cost: an eviction for each page that has to go, and the write-back of those that are dirty.
int pt_cache_resize(const struct pt_cache *cache, uint64_t memory_bytes);

// Writes back all that is dirty, of all files; does not make it durable: pt_cache_sync does.
//
// Errors: what the system said of a page that could not be written, which stays dirty; -EDEADLK if
// this thread has a page locked.
// Waits for other threads that have dirty pages locked.
// Cost: the device's, one request for up to 64 neighbouring pages, several at once.
int pt_cache_flush(const struct pt_cache *cache);

// What the cache has done so far: fills the structure, whose size must be set.
//
// Cost: takes locks in turn, and reads every thread's counts: not for every request.
int pt_cache_get_stats(const struct pt_cache *cache, struct pt_cache_stats *stats);

// One counter, by its name: the kernel's in /proc/vmstat where it has one, as "pgsteal_file".
//
// Errors: -ENOENT if there is none of that name; pt_cache_describe_counters lists them.
// Cost: that of pt_cache_get_stats.
int pt_cache_get_counter(const struct pt_cache *cache, const char *name, uint64_t *value);

// Some ten lines for people: how full it is, hits, files, reclaim, tiers. As snprintf has it: at
// most capacity bytes are written, the last of them zero, and the length of the whole text is
// returned. A buffer of 0 bytes may be NULL.
//
// Cost: that of pt_cache_get_stats.
int64_t pt_cache_describe(const struct pt_cache *cache, char *buffer, size_t capacity);

// Every counter, a line each: its name, a space, its value. Returns as pt_cache_describe does.
int64_t pt_cache_describe_counters(const struct pt_cache *cache, char *buffer, size_t capacity);

// Writes back all that is dirty, of all files, and makes it durable; where that fails for one, the
// others still are, and the first error is told.
//
// Errors: as pt_cache_flush, and what the system said of a file that could not be made durable.
// Waits as pt_cache_flush does.
int pt_cache_sync(const struct pt_cache *cache);

// Writes back what is dirty and not locked, and drops what is not in use, of all files. Returns
// the bytes that came free.
int64_t pt_cache_drop(const struct pt_cache *cache);

// The generations as Linux's lru_gen has them, or with full 1 as lru_gen_full; nothing where the
// policy has none. Returns as pt_cache_describe does.
int64_t pt_cache_describe_lru_gen(const struct pt_cache *cache,
                                  uint64_t full,
                                  char *buffer,
                                  size_t capacity);

// Carries out commands to the generations, in the format of Linux's lru_gen. Returns how many
// pages were evicted.
//
// Errors: -EINVAL for the first that cannot be carried out; those before it are.
int64_t pt_cache_command_lru_gen(const struct pt_cache *cache, const char *commands);

// Which pages of files are in memory, and how hot they are, as text for pt_cache_warm (the format
// is in docs/formats.md). Returns as pt_cache_describe does; what is in memory may have changed by
// the next call.
//
// Cost: a visit to each page in memory.
int64_t pt_cache_dump(const struct pt_cache *cache, char *buffer, size_t capacity);

// Brings in what a text of pt_cache_dump names, of each file once it is opened and if it has not
// changed: the hottest pages first, beside the program, until memory is full.
//
// Errors: -EINVAL for text that is no dump, or was cut.
int pt_cache_warm(const struct pt_cache *cache, const char *dump);

// Opens a regular file, with PT_ flags. Two opens of one file share its pages. What other programs
// had written when they closed the file is seen from now on.
//
// Errors: the system's; -EINVAL if flags has neither PT_READ nor PT_WRITE; -EBUSY if a region is
// over the file; -EFBIG, -EDQUOT.
// Cost: a few system calls.
int pt_file_open(const struct pt_cache *cache,
                 const char *path,
                 uint32_t flags,
                 struct pt_file **file);

// Closes a file. What is dirty is written back, now or later; errors of that are told to the next
// that opens it: sync first. Unpin its pages before. NULL does nothing.
//
// Cost: none but of a cache without background threads, which writes back before it returns.
void pt_file_close(struct pt_file *file);

// Reads up to len bytes at offset; returns how many. Fewer only where the file ends, 0 at or past
// its end. Never fails for lack of memory.
//
// Errors: -EACCES if not opened with PT_READ; the system's; -EDEADLK if this thread has the page
// locked. The buffer then has anything.
// Waits for other threads that have a page of it locked.
// Cost of what is in memory, within one page: the copy, and 10 to 18 ns.
int64_t pt_file_pread(const struct pt_file *file, void *buffer, size_t len, uint64_t offset);

// Writes len bytes at offset; returns len. The file grows as needed, a gap reads as zeros. They
// are in memory then, and stored after the next sync. Never fails for lack of memory.
//
// Errors: -EACCES if not opened with PT_WRITE; -EFBIG; the system's; -EDEADLK if this thread has a
// page of it pinned or locked. Pages before the one that failed are written.
// Waits for other threads that have a page pinned or locked, and for write-back while too much is
// dirty.
// Cost of what is in memory: a lock and the copy; a page written in part is read first.
int64_t pt_file_pwrite(const struct pt_file *file, const void *buffer, size_t len, uint64_t offset);

// The file's length, bytes, with what is not written back yet. Free.
int64_t pt_file_len(const struct pt_file *file);

// Cuts the file to len bytes, or extends it with zeros. In effect at once, durable after the next
// sync. A page that is pinned keeps its bytes until it is unpinned.
//
// Errors: -EACCES, -EFBIG; the system's, and the length is what it was.
// Waits for requests of the file that other threads have under way, and for no guard.
// Cost: a system call, and a visit to each page that is cut off.
int pt_file_set_len(const struct pt_file *file, uint64_t len);

// Writes back what is dirty of the file, and makes it durable: what was written before this call
// survives a crash when it returns 0.
//
// Errors: what the system said of any write-back of the file since the last sync through this
// handle, told once, the pages being dirty still; what it said of making it durable; -EDEADLK if
// this thread has a page of it locked.
// Waits for other threads that have dirty pages of it locked.
// Cost: the device's, one request for up to 64 neighbouring pages, several at once.
int pt_file_sync(const struct pt_file *file);

// As pt_file_sync, without making it durable: other programs see what was written from here on.
//
// Errors, waits and cost: as pt_file_sync, but for the device's own flush.
int pt_file_flush(const struct pt_file *file);

// Takes advice, one of PT_ADVICE_, about a range of bytes; len 0 is to the end.
//
// Errors: -EINVAL for other advice; of PT_ADVICE_DONTNEED the system's, and what could not be
// written back was kept, or -EDEADLK if this thread has a page of the file locked.
// Cost: of PT_ADVICE_WILLNEED a message to a thread of the cache, of PT_ADVICE_DONTNEED that of
// pt_file_flush, of the others none.
int pt_file_advise(const struct pt_file *file, uint32_t advice, uint64_t offset, uint64_t len);

// How many pages of a range of bytes are in memory now.
//
// Cost: a look at each page of it that ever was.
int64_t pt_file_resident_pages(const struct pt_file *file, uint64_t offset, uint64_t len);

// Pins page index, which begins at byte index * 4096, and fills in where its bytes are. Brings it
// in first if it is absent. Keep it short: while it is pinned the page cannot leave memory, and
// calls that write it wait. To be unpinned by the same thread, before the file is closed.
//
// Errors: -EACCES if not opened with PT_READ; -ENODATA past the end of the file; the system's;
// -EBUSY if all memory is in use: unpin others, or pt_file_pread, which always works; -EDEADLK if
// this thread has the page locked. Nothing is pinned then, and data is NULL.
// Waits for another thread that has it locked.
// Cost of a page in memory: about 14 ns to pin and unpin; one atomic each, no lock.
int pt_page_pin(const struct pt_file *file, uint64_t index, struct pt_page *page);

// Lets go of a page that is pinned; its data is NULL then. Waits for nothing.
//
// Errors: -EINVAL if it is not pinned.
int pt_page_unpin(struct pt_page *page);

// Locks page index to be changed, and fills in where a copy of its bytes is, which is published as
// a whole when it is unlocked. Brings it in first if it is absent. The file does not grow. To be
// unlocked by the same thread, before the file is closed.
//
// The bytes that differ are written; bytes between two of them may be, too, where they are fewer
// than 128.
//
// Errors: -EACCES if not opened with PT_WRITE; -EINVAL past the end of the file; the system's;
// -EBUSY if all memory is in use: pt_file_pwrite always works; -EDEADLK if this thread has the
// page pinned or locked. Nothing is locked then, and data is NULL.
// Waits for other threads that have it pinned or locked.
// Cost: a copy of the page now, and another when it is unlocked.
int pt_page_lock(const struct pt_file *file, uint64_t index, struct pt_locked_page *page);

// Publishes what was changed, and lets go of the page; its data is NULL then. Waits for nothing.
//
// Errors: -EINVAL if it is not locked.
// Cost: a comparison with what the page was, and a copy.
int pt_page_unlock(struct pt_locked_page *page);

// Makes a group. Its name is its alone in this cache.
//
// Errors: -EOPNOTSUPP if the cache was opened without groups; -EEXIST; -EINVAL if the options make
// no sense together or promise more than there is; -EDQUOT if there are too many.
// Cost: lists of its own, which for some policies are as long as the memory has pages.
int pt_group_create(const struct pt_cache *cache,
                    const char *name,
                    const struct pt_group_options *wanted,
                    struct pt_group **group);

// Makes a group below another: what it uses, that one uses, too.
//
// Errors and cost: as pt_group_create; -ENOENT if that one was removed.
int pt_group_create_below(const struct pt_group *parent,
                          const char *name,
                          const struct pt_group_options *wanted,
                          struct pt_group **group);

// Lets go of the handle; the group stays: pt_group_remove removes it. NULL does nothing.
void pt_group_close(struct pt_group *group);

// Opens a file for the group, as pt_file_open: the pages it brings in are charged to the group. A
// file is of one group at a time, that of the first of its handles that are open.
//
// Errors: as pt_file_open; -ENOENT if the group was removed.
int pt_group_open_file(const struct pt_group *group,
                       const char *path,
                       uint32_t flags,
                       struct pt_file **file);

// Gives the group other limits. Where it uses more than it now may, pages go until it fits; what
// is dirty or pinned stays until later misses find it.
//
// Errors: as pt_group_create; -ENOENT if it was removed.
// Cost: an eviction for each page that has to go.
int pt_group_set(const struct pt_group *group, const struct pt_group_options *wanted);

// What the group uses, and what it did: fills the structure, whose size must be set.
//
// Errors: -ENOENT if it was removed.
// Cost: takes a lock, and reads every thread's counts: not for every request.
int pt_group_get_stats(const struct pt_group *group, struct pt_group_stats *stats);

// Frees memory of the group before it is needed, in the calling thread; writes how many bytes came
// free, which may be fewer. freed_bytes may be NULL.
//
// Errors: -ENOENT if it was removed.
// Cost: an eviction for each page.
int pt_group_reclaim(const struct pt_group *group, uint64_t wanted_bytes, uint64_t *freed_bytes);

// Removes the group. Its files and pages are its parent's from now on. The handle is still to be
// closed.
//
// Errors: -EBUSY if there are groups below it; -ENOENT if it was removed before.
int pt_group_remove(const struct pt_group *group);

// Makes a region, which competes for memory with all else in the cache. A page that cannot be had
// ends the access with SIGBUS, as in a mapped file; pt_region_sync says why. Not for memory that
// devices write, nor for a child after fork.
//
// Errors: -EINVAL if not just one of len_bytes and path is given; -EBUSY if the file is open in
// this cache; -EACCES or -EPERM where the system refuses userfaultfd; the system's.
// Cost: a reservation of addresses, whatever its length, and threads.
int pt_region_create(const struct pt_cache *cache,
                     const struct pt_region_options *wanted,
                     struct pt_region **region);

// Ends a region: no code may use its addresses any more. The contents of an anonymous one are
// gone, those over a file are written back, whose errors cannot be told: sync first. NULL does
// nothing.
//
// Cost: that write-back, and a visit to each page that was touched.
void pt_region_destroy(struct pt_region *region);

// Where it begins; page aligned. NULL of NULL. Free.
void *pt_region_address(const struct pt_region *region);

// Its length, bytes. Of a file whose last page is partial, what is stored past this reaches no
// file. Free.
int64_t pt_region_len(const struct pt_region *region);

// Maps the pages of a range of bytes, as far as they fit, so that a system call can be given their
// addresses: one that reads from them with access PT_READ, one that writes to them with PT_WRITE.
// Nothing keeps them from leaving again: a call that fails with EFAULT is to be repeated.
//
// Errors: -EINVAL for other access; -ENODATA if the range leaves the region; the system's.
// Cost: a fill for each absent page, and a system call for each that is not mapped.
int pt_region_populate(const struct pt_region *region,
                       uint64_t offset,
                       uint64_t len,
                       uint32_t access);

// Writes back what is dirty, and makes it durable. Of an anonymous region nothing is written; the
// call says whether its pages could leave memory.
//
// Errors: as pt_file_sync; of an anonymous region what the system said of the swap folder.
// Cost: as pt_file_sync; of an anonymous region none.
int pt_region_sync(const struct pt_region *region);

// Takes advice about a range of bytes; len 0 is to the end. PT_ADVICE_WILLNEED brings it into
// memory, PT_ADVICE_DONTNEED writes it back and lets the memory go, but keeps the contents; other
// advice has no meaning here.
//
// Errors and cost: as pt_file_advise.
int pt_region_advise(const struct pt_region *region,
                     uint32_t advice,
                     uint64_t offset,
                     uint64_t len);

// Faults so far, and memory taken now: fills the structure, whose size must be set.
//
// Cost: a look at every page that was ever touched.
int pt_region_get_stats(const struct pt_region *region, struct pt_region_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGETIDE_H */
