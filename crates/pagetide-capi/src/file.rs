//! Files, read and written by calls.

use crate::arguments::{bytes, duplicate, given, memory_mut, path_or_none};
use crate::cache::pt_cache;
use crate::door::{Failure, call, count};
use pagetide::{Advice, File, OpenOptions, PinnedRange};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::Path;

/// An open file with its own readahead, advice, and view of write-back errors.
pub struct pt_file(pub File);

/// Open for reading.
pub const PT_READ: u32 = 1;
/// Open for writing. The file must be readable as well, because partial pages are read first.
pub const PT_WRITE: u32 = 2;
/// Create a missing file. Needs PT_WRITE.
pub const PT_CREATE: u32 = 4;
/// Truncate the file to length 0. Needs PT_WRITE.
pub const PT_TRUNCATE: u32 = 8;
/// Create the file, and fail with -EEXIST if there is one. Needs PT_WRITE.
pub const PT_CREATE_NEW: u32 = 16;

/// No particular pattern: drops earlier advice. For the file from now on.
pub const PT_ADVICE_NORMAL: u32 = 0;
/// Sequential: reads ahead as far as allowed. For the file from now on.
pub const PT_ADVICE_SEQUENTIAL: u32 = 1;
/// Random: stops looking for streams. For the file from now on.
pub const PT_ADVICE_RANDOM: u32 = 2;
/// Accesses do not predict the future, and are not counted. For the file from now on.
pub const PT_ADVICE_NOREUSE: u32 = 3;
/// The range will be needed soon: fills its pages in the background.
pub const PT_ADVICE_WILLNEED: u32 = 4;
/// The range will not be needed: writes back dirty pages, and drops them.
pub const PT_ADVICE_DONTNEED: u32 = 5;

/// Opens a regular file, with PT_ flags. Two opens of one file share pages. Sees all writes of
/// programs that have closed the file.
///
/// Errors: the system's. -EINVAL if flags has neither PT_READ nor PT_WRITE. -EBUSY if a region is
/// over the file. -EFBIG, -EDQUOT.
/// Cost: a few system calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_file_open(
    cache: Option<&pt_cache>,
    path: *const c_char,
    flags: u32,
    file: Option<&mut MaybeUninit<Box<pt_file>>>,
) -> c_int {
    call(|| {
        let (cache, file) = (given(cache, "cache")?, given(file, "file")?);
        // SAFETY: S34: text, or null.
        let (path, options) = unsafe { opening(path, flags) }?;
        file.write(Box::new(pt_file(cache.0.open(path, options)?)));
        Ok(())
    })
}

/// Opens the regular file of a descriptor, with the access of the descriptor. Shares pages with all
/// other opens of the file. The caller keeps fd, and may close fd at once. Flags for open(2), such
/// as the mode of a new file, are the caller's choice.
///
/// Keeps the open file description of fd, and its locks by flock(2) and F_OFD_SETLK, until
/// pt_file_close, which first writes back all dirty pages. The locks of F_SETLK belong to the
/// process, and end when any descriptor of the file is closed.
///
/// Errors: -EACCES if fd is not open for reading, because partial pages are read first. -EBADF.
/// Otherwise as pt_file_open.
/// Cost: as pt_file_open. The file keeps one descriptor more.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_open_fd(
    cache: Option<&pt_cache>,
    fd: c_int,
    file: Option<&mut MaybeUninit<Box<pt_file>>>,
) -> c_int {
    call(|| {
        let (cache, file) = (given(cache, "cache")?, given(file, "file")?);
        file.write(Box::new(pt_file(cache.0.open_file(duplicate(fd)?)?)));
        Ok(())
    })
}

/// Converts a path and the flags of an open.
///
/// # Safety
/// As the header requires for text.
pub(crate) unsafe fn opening<'a>(
    path: *const c_char,
    flags: u32,
) -> Result<(&'a Path, OpenOptions), Failure> {
    let unknown = flags & !(PT_READ | PT_WRITE | PT_CREATE | PT_TRUNCATE | PT_CREATE_NEW);
    if unknown != 0 {
        return Err(Failure::invalid(format!("the flags have {unknown:#x}, which mean nothing")));
    }
    // SAFETY: S34: text, or null.
    let path = given(unsafe { path_or_none(path) }, "path")?;
    let is_set = |flag: u32| flags & flag != 0;
    let options = OpenOptions::new().read(is_set(PT_READ)).write(is_set(PT_WRITE));
    let options = options.create(is_set(PT_CREATE)).create_new(is_set(PT_CREATE_NEW));
    Ok((path, options.truncate(is_set(PT_TRUNCATE))))
}

/// Closes a file. Dirty pages are written back, now or later. The next open of the file reports
/// errors of this write-back, so sync first. Unpin all pages before. NULL does nothing.
///
/// Cost: none, except in a cache without background threads, which writes back before the return.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_close(file: Option<Box<pt_file>>) {
    call(|| {
        drop(file);
        Ok(())
    });
}

/// Reads up to len bytes at offset. Returns the number of bytes, fewer only at the end of the file,
/// 0 at or past the end. Never fails for lack of memory.
///
/// Errors: -EACCES if not opened with PT_READ. The system's. -EDEADLK if this thread has the page
/// locked. The buffer's contents are then unspecified.
/// Waits for threads that have a page of the range locked.
/// Cost for memory within one page: the copy, and 10 to 18 ns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_file_pread(
    file: Option<&pt_file>,
    buffer: *mut c_void,
    len: usize,
    offset: u64,
) -> i64 {
    count(|| {
        let file = given(file, "file")?;
        // SAFETY: S34: the caller's buffer, for the time of the call.
        let target = unsafe { memory_mut(buffer, len) }?;
        Ok(file.0.read_into(target, offset)?.len() as u64)
    })
}

/// Writes len bytes at offset. Returns len. The file grows as needed, and a gap reads as zeros. The
/// bytes are in memory, and stored after the next sync. Never fails for lack of memory.
///
/// Errors: -EACCES if not opened with PT_WRITE. -EFBIG. The system's. -EDEADLK if this thread has a
/// page of the range pinned or locked. Pages before the failed one are written.
/// Waits for threads that have a page of the range pinned or locked, and for write-back while too
/// much is dirty.
/// Cost for pages in memory: a lock and the copy. A partly written page is read first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pt_file_pwrite(
    file: Option<&pt_file>,
    buffer: *const c_void,
    len: usize,
    offset: u64,
) -> i64 {
    count(|| {
        let file = given(file, "file")?;
        // SAFETY: S34: the caller's buffer, for the time of the call.
        let source = unsafe { bytes(buffer, len) }?;
        Ok(file.0.write_at(source, offset)? as u64)
    })
}

/// The bytes of a range of a file, pinned until pt_file_unpin.
pub struct pt_pinned(pub PinnedRange);

/// Pins len bytes at offset, and stores their address in data. The bytes are read-only, in one
/// piece, and do not change. Absent pages are read first. Unlike a page of pt_page_pin, may be kept
/// for any time, and unpinned by any thread, even after pt_file_close.
///
/// Counts against the limit, because nothing can evict the bytes. A range within one page, or in
/// adjacent memory of the cache, is pinned in place. Other ranges are copied, and so is every range
/// of a file that is open for writing in this cache.
///
/// Errors: -EACCES if not opened with PT_READ. -ENODATA if the file ends early. The system's.
/// -EBUSY if too little memory is left beside pins: pt_file_pread always works. -EDEADLK if this
/// thread has a page locked. On failure, nothing is pinned.
/// No thread waits for a pin. A call that would change a page pinned in place fails with -EBUSY: a
/// write to a file that was opened for writing later, and a read of a page that another program has
/// changed.
/// Cost in place: two atomics per page, and an allocation. A copy: the read, and a system call per
/// page.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_pin(
    file: Option<&pt_file>,
    offset: u64,
    len: usize,
    data: Option<&mut MaybeUninit<*const c_void>>,
    pinned: Option<&mut MaybeUninit<Box<pt_pinned>>>,
) -> c_int {
    call(|| {
        let (file, data) = (given(file, "file")?, given(data, "data")?);
        let pinned = given(pinned, "pinned")?;
        let range = file.0.pin(offset..offset.saturating_add(len as u64))?;
        data.write(range.as_ptr().cast());
        pinned.write(Box::new(pt_pinned(range)));
        Ok(())
    })
}

/// Unpins a range, and ends the use of its bytes. Never waits. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_unpin(pinned: Option<Box<pt_pinned>>) {
    call(|| {
        drop(pinned);
        Ok(())
    });
}

/// Returns the file's length in bytes, including unwritten data. Free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_len(file: Option<&pt_file>) -> i64 {
    count(|| Ok(given(file, "file")?.0.len()))
}

/// Truncates the file to len bytes, or extends it with zeros. Takes effect at once, and is durable
/// after the next sync. A pinned page keeps its bytes until unpinned.
///
/// Errors: -EACCES, -EFBIG. The system's, with the length unchanged.
/// Waits for other threads' running requests on the file, but not for guards.
/// Cost: a system call, and a visit of each removed page.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_set_len(file: Option<&pt_file>, len: u64) -> c_int {
    call(|| Ok(given(file, "file")?.0.set_len(len)?))
}

/// Writes back the file's dirty pages, and makes them durable: on return of 0, all earlier writes
/// survive a crash.
///
/// Errors: the system's error of any write-back of the file since the last sync through this
/// handle, reported once, with the pages still dirty. The system's error of the sync.
/// -EDEADLK if this thread has a page of the file locked.
/// Waits for threads that have dirty pages of the file locked.
/// Cost: the device's, one request per up to 64 neighbouring pages, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_sync(file: Option<&pt_file>) -> c_int {
    call(|| Ok(given(file, "file")?.0.sync_data()?))
}

/// As pt_file_sync, but not durably: other programs see all earlier writes.
///
/// Errors, waits and cost: as pt_file_sync, except the device's flush.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_flush(file: Option<&pt_file>) -> c_int {
    call(|| Ok(given(file, "file")?.0.flush()?))
}

/// Takes advice, one of PT_ADVICE_, about a range of bytes. len 0 is to the end.
///
/// Errors: -EINVAL for other advice. For PT_ADVICE_DONTNEED the system's, with unwritten pages
/// kept, or -EDEADLK if this thread has a page of the file locked.
/// Cost: PT_ADVICE_WILLNEED a message to a thread of the cache, PT_ADVICE_DONTNEED as
/// pt_file_flush, other advice none.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_advise(
    file: Option<&pt_file>,
    advice: u32,
    offset: u64,
    len: u64,
) -> c_int {
    call(|| Ok(given(file, "file")?.0.advise(advice_of(advice)?, offset, len)?))
}

pub(crate) fn advice_of(advice: u32) -> Result<Advice, Failure> {
    match advice {
        PT_ADVICE_NORMAL => Ok(Advice::Normal),
        PT_ADVICE_SEQUENTIAL => Ok(Advice::Sequential),
        PT_ADVICE_RANDOM => Ok(Advice::Random),
        PT_ADVICE_NOREUSE => Ok(Advice::NoReuse),
        PT_ADVICE_WILLNEED => Ok(Advice::WillNeed),
        PT_ADVICE_DONTNEED => Ok(Advice::DontNeed),
        _ => Err(Failure::invalid(format!("{advice} is no advice"))),
    }
}

/// Returns the number of pages of a range of bytes that are in memory now.
///
/// Cost: a look at each page of the range that was ever used.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_resident_pages(file: Option<&pt_file>, offset: u64, len: u64) -> i64 {
    count(|| Ok(given(file, "file")?.0.resident_pages(offset, len)))
}
