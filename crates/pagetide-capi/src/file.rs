//! Files: what is read and written by calls.

use crate::arguments::{bytes, bytes_mut, given, path_or_none};
use crate::cache::pt_cache;
use crate::door::{Failure, call, count};
use pagetide::{Advice, File, OpenOptions};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::Path;

/// An open file: its own readahead, advice, and view of write-back errors.
pub struct pt_file(pub File);

/// To be read.
pub const PT_READ: u32 = 1;
/// To be written. The file must be readable as well: partial pages are read first.
pub const PT_WRITE: u32 = 2;
/// Made if there is none; with PT_WRITE.
pub const PT_CREATE: u32 = 4;
/// Cut to nothing; with PT_WRITE.
pub const PT_TRUNCATE: u32 = 8;

/// No particular pattern: forget earlier advice. For the file from now on.
pub const PT_ADVICE_NORMAL: u32 = 0;
/// Front to back: read ahead as far as allowed. For the file from now on.
pub const PT_ADVICE_SEQUENTIAL: u32 = 1;
/// Anywhere: look for no stream. For the file from now on.
pub const PT_ADVICE_RANDOM: u32 = 2;
/// Accesses say nothing about the future: do not count them. For the file from now on.
pub const PT_ADVICE_NOREUSE: u32 = 3;
/// The range will be wanted soon: bring it in, beside the caller.
pub const PT_ADVICE_WILLNEED: u32 = 4;
/// The range will not be wanted: write back what is dirty, and drop it.
pub const PT_ADVICE_DONTNEED: u32 = 5;

/// Opens a regular file, with PT_ flags. Two opens of one file share its pages. What other programs
/// had written when they closed the file is seen from now on.
///
/// Errors: the system's; -EINVAL if flags has neither PT_READ nor PT_WRITE; -EBUSY if a region is
/// over the file; -EFBIG, -EDQUOT.
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

/// A path, and the flags of an open, as Rust has them.
///
/// # Safety
/// As the header asks for text.
pub(crate) unsafe fn opening<'a>(
    path: *const c_char,
    flags: u32,
) -> Result<(&'a Path, OpenOptions), Failure> {
    let unknown = flags & !(PT_READ | PT_WRITE | PT_CREATE | PT_TRUNCATE);
    if unknown != 0 {
        return Err(Failure::invalid(format!("the flags have {unknown:#x}, which mean nothing")));
    }
    // SAFETY: S34: text, or null.
    let path = given(unsafe { path_or_none(path) }, "path")?;
    let is_set = |flag: u32| flags & flag != 0;
    let options = OpenOptions::new().read(is_set(PT_READ)).write(is_set(PT_WRITE));
    Ok((path, options.create(is_set(PT_CREATE)).truncate(is_set(PT_TRUNCATE))))
}

/// Closes a file. What is dirty is written back, now or later; errors of that are told to the next
/// that opens it: sync first. Unpin its pages before. NULL does nothing.
///
/// Cost: none but of a cache without background threads, which writes back before it returns.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_close(file: Option<Box<pt_file>>) {
    call(|| {
        drop(file);
        Ok(())
    });
}

/// Reads up to len bytes at offset; returns how many. Fewer only where the file ends, 0 at or past
/// its end. Never fails for lack of memory.
///
/// Errors: -EACCES if not opened with PT_READ; the system's; -EDEADLK if this thread has the page
/// locked. The buffer then has anything.
/// Waits for other threads that have a page of it locked.
/// Cost of what is in memory, within one page: the copy, and 10 to 18 ns.
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
        let target = unsafe { bytes_mut(buffer, len) }?;
        Ok(file.0.read_at(target, offset)? as u64)
    })
}

/// Writes len bytes at offset; returns len. The file grows as needed, a gap reads as zeros. They
/// are in memory then, and stored after the next sync. Never fails for lack of memory.
///
/// Errors: -EACCES if not opened with PT_WRITE; -EFBIG; the system's; -EDEADLK if this thread has a
/// page of it pinned or locked. Pages before the one that failed are written.
/// Waits for other threads that have a page pinned or locked, and for write-back while too much is
/// dirty.
/// Cost of what is in memory: a lock and the copy; a page written in part is read first.
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

/// The file's length, bytes, with what is not written back yet. Free.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_len(file: Option<&pt_file>) -> i64 {
    count(|| Ok(given(file, "file")?.0.len()))
}

/// Cuts the file to len bytes, or extends it with zeros. In effect at once, durable after the next
/// sync. A page that is pinned keeps its bytes until it is unpinned.
///
/// Errors: -EACCES, -EFBIG; the system's, and the length is what it was.
/// Waits for requests of the file that other threads have under way, and for no guard.
/// Cost: a system call, and a visit to each page that is cut off.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_set_len(file: Option<&pt_file>, len: u64) -> c_int {
    call(|| Ok(given(file, "file")?.0.set_len(len)?))
}

/// Writes back what is dirty of the file, and makes it durable: what was written before this call
/// survives a crash when it returns 0.
///
/// Errors: what the system said of any write-back of the file since the last sync through this
/// handle, told once, the pages being dirty still; what it said of making it durable; -EDEADLK if
/// this thread has a page of it locked.
/// Waits for other threads that have dirty pages of it locked.
/// Cost: the device's, one request for up to 64 neighbouring pages, several at once.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_sync(file: Option<&pt_file>) -> c_int {
    call(|| Ok(given(file, "file")?.0.sync_data()?))
}

/// As pt_file_sync, without making it durable: other programs see what was written from here on.
///
/// Errors, waits and cost: as pt_file_sync, but for the device's own flush.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_flush(file: Option<&pt_file>) -> c_int {
    call(|| Ok(given(file, "file")?.0.flush()?))
}

/// Takes advice, one of PT_ADVICE_, about a range of bytes; len 0 is to the end.
///
/// Errors: -EINVAL for other advice; of PT_ADVICE_DONTNEED the system's, and what could not be
/// written back was kept, or -EDEADLK if this thread has a page of the file locked.
/// Cost: of PT_ADVICE_WILLNEED a message to a thread of the cache, of PT_ADVICE_DONTNEED that of
/// pt_file_flush, of the others none.
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

/// How many pages of a range of bytes are in memory now.
///
/// Cost: a look at each page of it that ever was.
#[unsafe(no_mangle)]
pub extern "C" fn pt_file_resident_pages(file: Option<&pt_file>, offset: u64, len: u64) -> i64 {
    count(|| Ok(given(file, "file")?.0.resident_pages(offset, len)))
}
