//! Guards: a page in place, pinned to be read or locked to be changed.
//!
//! A guard of Rust's is put into the caller's own memory, beside what it gives: no allocation. So
//! its bytes stay where they are until it is taken out again, on the same thread.

use crate::arguments::given;
use crate::door::{Failure, call};
use crate::file::pt_file;
use pagetide::{PageGuard, PageGuardMut};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Words that the library has in a guard.
pub const PT_GUARD_WORDS: usize = 10;

const NO_GUARD: [MaybeUninit<usize>; PT_GUARD_WORDS] = [MaybeUninit::uninit(); PT_GUARD_WORDS];

const _: () = assert!(size_of::<PageGuard<'_>>() <= size_of::<[usize; PT_GUARD_WORDS]>());
const _: () = assert!(size_of::<PageGuardMut<'_>>() <= size_of::<[usize; PT_GUARD_WORDS]>());
const _: () = assert!(align_of::<PageGuard<'_>>() <= align_of::<usize>());
const _: () = assert!(align_of::<PageGuardMut<'_>>() <= align_of::<usize>());

/// A page that is pinned: it stays where it is, and nothing writes it. Not to be copied or moved.
#[repr(C)]
pub struct pt_page {
    /// Its bytes, to be read alone; NULL once it is unpinned.
    pub data: *const u8,
    /// How many there are: 4096, fewer in the last page of a file.
    pub len: usize,
    /// The library's.
    pub guard: [MaybeUninit<usize>; PT_GUARD_WORDS],
}

/// A page that is locked to be changed: other threads that want it wait. Not to be copied or moved.
#[repr(C)]
pub struct pt_locked_page {
    /// A copy of its bytes, to be changed; NULL once it is unlocked.
    pub data: *mut u8,
    /// How many there are: 4096, fewer in the last page of a file.
    pub len: usize,
    /// The library's.
    pub guard: [MaybeUninit<usize>; PT_GUARD_WORDS],
}

/// Pins page index, which begins at byte index * 4096, and fills in where its bytes are. Brings it
/// in first if it is absent. Keep it short: while it is pinned the page cannot leave memory, and
/// calls that write it wait. To be unpinned by the same thread, before the file is closed.
///
/// Errors: -EACCES if not opened with PT_READ; -ENODATA past the end of the file; the system's;
/// -EBUSY if all memory is in use: unpin others, or pt_file_pread, which always works; -EDEADLK if
/// this thread has the page locked. Nothing is pinned then, and data is NULL.
/// Waits for another thread that has it locked.
/// Cost of a page in memory: about 14 ns to pin and unpin; one atomic each, no lock.
#[unsafe(no_mangle)]
pub extern "C" fn pt_page_pin(
    file: Option<&pt_file>,
    index: u64,
    page: Option<&mut MaybeUninit<pt_page>>,
) -> c_int {
    let mut page = page;
    let status = call(|| {
        let page = given(page.as_deref_mut(), "page")?;
        let guard = given(file, "file")?.0.page(index)?;
        let (data, len) = (guard.as_ptr(), guard.len());
        let page = page.write(pt_page { data, len, guard: NO_GUARD });
        let place = page.guard.as_mut_ptr().cast::<PageGuard<'_>>();
        // SAFETY: S35: the guard fits, as is asserted.
        unsafe { place.write(guard) };
        Ok(())
    });
    if status != 0
        && let Some(page) = page
    {
        page.write(pt_page { data: std::ptr::null(), len: 0, guard: NO_GUARD });
    }
    status
}

/// Lets go of a page that is pinned; its data is NULL then. Waits for nothing.
///
/// Errors: -EINVAL if it is not pinned.
#[unsafe(no_mangle)]
pub extern "C" fn pt_page_unpin(page: Option<&mut pt_page>) -> c_int {
    call(|| {
        let page = given(page, "page")?;
        if page.data.is_null() {
            return Err(Failure::invalid("the page is not pinned, or was unpinned already"));
        }
        page.data = std::ptr::null();
        // SAFETY: S35: there is a guard while there is data, and it is taken out once.
        unsafe { page.guard.as_mut_ptr().cast::<PageGuard<'_>>().drop_in_place() };
        Ok(())
    })
}

/// Locks page index to be changed, and fills in where a copy of its bytes is, which is published as
/// a whole when it is unlocked. Brings it in first if it is absent. The file does not grow. To be
/// unlocked by the same thread, before the file is closed.
///
/// The bytes that differ are written; bytes between two of them may be, too, where they are fewer
/// than 128.
///
/// Errors: -EACCES if not opened with PT_WRITE; -EINVAL past the end of the file; the system's;
/// -EBUSY if all memory is in use: pt_file_pwrite always works; -EDEADLK if this thread has the
/// page pinned or locked. Nothing is locked then, and data is NULL.
/// Waits for other threads that have it pinned or locked.
/// Cost: a copy of the page now, and another when it is unlocked.
#[unsafe(no_mangle)]
pub extern "C" fn pt_page_lock(
    file: Option<&pt_file>,
    index: u64,
    page: Option<&mut MaybeUninit<pt_locked_page>>,
) -> c_int {
    call(|| {
        let nothing = pt_locked_page { data: std::ptr::null_mut(), len: 0, guard: NO_GUARD };
        let page = given(page, "page")?.write(nothing);
        let guard = given(file, "file")?.0.page_mut(index)?;
        let place = page.guard.as_mut_ptr().cast::<PageGuardMut<'_>>();
        // SAFETY: S35: the guard fits, as is asserted.
        unsafe { place.write(guard) };
        // SAFETY: S35: the guard is where it stays, and no other has it.
        let bytes = unsafe { &mut *place };
        (page.data, page.len) = (bytes.as_mut_ptr(), bytes.len());
        Ok(())
    })
}

/// Publishes what was changed, and lets go of the page; its data is NULL then. Waits for nothing.
///
/// Errors: -EINVAL if it is not locked.
/// Cost: a comparison with what the page was, and a copy.
#[unsafe(no_mangle)]
pub extern "C" fn pt_page_unlock(page: Option<&mut pt_locked_page>) -> c_int {
    call(|| {
        let page = given(page, "page")?;
        if page.data.is_null() {
            return Err(Failure::invalid("the page is not locked, or was unlocked already"));
        }
        page.data = std::ptr::null_mut();
        // SAFETY: S35: there is a guard while there is data, and it is taken out once.
        drop(unsafe { page.guard.as_ptr().cast::<PageGuardMut<'_>>().read() });
        Ok(())
    })
}
