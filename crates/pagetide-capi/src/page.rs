//! Guards: a page in place, pinned for reading or locked for changes.
//!
//! The Rust guard is stored in the caller's memory, without an allocation, and stays in place until
//! taken out, on the same thread.

use crate::arguments::given;
use crate::door::{Failure, call};
use crate::file::pt_file;
use pagetide::{PageGuard, PageGuardMut};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The number of words of a guard.
pub const PT_GUARD_WORDS: usize = 10;

const NO_GUARD: [MaybeUninit<usize>; PT_GUARD_WORDS] = [MaybeUninit::uninit(); PT_GUARD_WORDS];

const _: () = assert!(size_of::<PageGuard<'_>>() <= size_of::<[usize; PT_GUARD_WORDS]>());
const _: () = assert!(size_of::<PageGuardMut<'_>>() <= size_of::<[usize; PT_GUARD_WORDS]>());
const _: () = assert!(align_of::<PageGuard<'_>>() <= align_of::<usize>());
const _: () = assert!(align_of::<PageGuardMut<'_>>() <= align_of::<usize>());

/// A pinned page, which stays in place and is not written. Do not copy or move the structure.
#[repr(C)]
pub struct pt_page {
    /// The read-only bytes. NULL once unpinned.
    pub data: *const u8,
    /// The number of bytes: 4096, fewer in the last page of a file.
    pub len: usize,
    /// Private.
    pub guard: [MaybeUninit<usize>; PT_GUARD_WORDS],
}

/// A locked page, for which other threads wait. Do not copy or move the structure.
#[repr(C)]
pub struct pt_locked_page {
    /// A copy of the bytes, to be changed. NULL once unlocked.
    pub data: *mut u8,
    /// The number of bytes: 4096, fewer in the last page of a file.
    pub len: usize,
    /// Private.
    pub guard: [MaybeUninit<usize>; PT_GUARD_WORDS],
}

/// Pins page index, which begins at byte index * 4096, and fills an absent page first. Sets data
/// and len. Unpin soon: a pinned page cannot leave memory, and writers wait. Unpin in the same
/// thread, before the file is closed.
///
/// Errors: -EACCES if not opened with PT_READ. -ENODATA past the end of the file. The system's.
/// -EBUSY if all memory is in use: unpin other pages, or use pt_file_pread, which always works.
/// -EDEADLK if this thread has the page locked. On failure, nothing is pinned, and data is NULL.
/// Waits for a thread that has the page locked.
/// Cost for a page in memory: about 14 ns to pin and unpin, one atomic each, no lock.
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

/// Unpins a page, and sets data to NULL. Never waits.
///
/// Errors: -EINVAL if the page is not pinned.
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

/// Locks page index for changes, and fills an absent page first. data is a copy of the page, which
/// is published as a whole on unlock. The file does not grow. Unlock in the same thread, before
/// the file is closed.
///
/// Changed bytes are written, and also unchanged bytes between two changes less than 128 bytes
/// apart.
///
/// Errors: -EACCES if not opened with PT_WRITE. -EINVAL past the end of the file. The system's.
/// -EBUSY if all memory is in use: pt_file_pwrite always works. -EDEADLK if this thread has the
/// page pinned or locked. On failure, nothing is locked, and data is NULL.
/// Waits for threads that have the page pinned or locked.
/// Cost: a copy of the page, and another on unlock.
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
        // SAFETY: S35: the guard fits, as asserted.
        unsafe { place.write(guard) };
        // SAFETY: S35: the guard is in its final place, and exclusive.
        let bytes = unsafe { &mut *place };
        (page.data, page.len) = (bytes.as_mut_ptr(), bytes.len());
        Ok(())
    })
}

/// Publishes the changes, unlocks the page, and sets data to NULL. Never waits.
///
/// Errors: -EINVAL if the page is not locked.
/// Cost: a comparison with the old contents, and a copy.
#[unsafe(no_mangle)]
pub extern "C" fn pt_page_unlock(page: Option<&mut pt_locked_page>) -> c_int {
    call(|| {
        let page = given(page, "page")?;
        if page.data.is_null() {
            return Err(Failure::invalid("the page is not locked, or was unlocked already"));
        }
        page.data = std::ptr::null_mut();
        // SAFETY: S35: there is a guard while data is not null, and it is taken out once.
        drop(unsafe { page.guard.as_ptr().cast::<PageGuardMut<'_>>().read() });
        Ok(())
    })
}
