//! Reads into locked frames, skipping pages without a frame.
//!
//! Problem: a few resident pages would cut a read into small ones, which take a device longer.
//! Idea: resident pages are read as well, into unused memory.
//!
//! ```text
//!   file:     | 7 | 8 | 9 | 10 | 11 |
//!   parts:    [ frames ][skip] [frame]     one preadv
//! ```
//!
//! Invariant: S8, the caller has the frames locked, and only the kernel accesses skipped bytes.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use pagetide_core::readahead::READ_OVER_MAX;
use pagetide_core::units::PAGE_BYTES;

use super::error::StoreError;
use super::{PAGE, StoreFile, is_refusal_of_direct};
use crate::page::token::{Lock, PageHandle};

/// IOV_MAX on Linux.
pub(crate) const PARTS_MAX: usize = 1024;

const SKIPPED_BYTES: usize = READ_OVER_MAX as usize * PAGE_BYTES;

#[repr(align(4096))]
struct Skipped(UnsafeCell<[u8; SKIPPED_BYTES]>);

// SAFETY: S8 (the kernel gets only exclusively held memory, or memory that nothing reads): no
// reference to the bytes is ever made.
unsafe impl Sync for Skipped {}

static SKIPPED: Skipped = Skipped(UnsafeCell::new([0; SKIPPED_BYTES]));

impl StoreFile {
    /// Reads from `offset` into locked frames of pages in the file's order, the first at `offset`.
    /// Pages between them are skipped. Returns the bytes read, including skipped pages.
    ///
    /// A short count means the end of the file, and the frames are zero from there. Interrupted and
    /// short reads are continued. Panics if a lock holds no resident page.
    ///
    /// # Errors
    /// Fails with [`StoreError::Read`]. The frames' contents are then unspecified.
    pub fn read_frames<H: PageHandle>(
        &self,
        offset: u64,
        frames: &mut [Lock<H>],
    ) -> Result<usize, StoreError> {
        self.continue_read_frames(offset, frames, 0)
    }

    pub(crate) fn continue_read_frames<H: PageHandle>(
        &self,
        offset: u64,
        frames: &mut [Lock<H>],
        mut done: usize,
    ) -> Result<usize, StoreError> {
        let len = len_of(frames);
        let mut direct = self.direct().filter(|_| offset.is_multiple_of(PAGE));
        while done < len {
            let file = direct.filter(|_| done.is_multiple_of(PAGE_BYTES));
            let at = offset + done as u64;
            if file.is_none() && done > 0 && self.is_known_end(at) {
                break;
            }
            let result = match &mut *frames {
                // A single frame needs no allocation: the read may serve a fault.
                [frame] => {
                    let part = [part(frame, done)];
                    self.through(file, |file| read_parts(file, &part, at))
                }
                frames => {
                    let parts = parts(frames, done);
                    self.through(file, |file| read_parts(file, &parts, at))
                }
            };
            match result {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if file.is_some() && is_refusal_of_direct(&error) => direct = None,
                Err(source) => return Err(StoreError::Read { offset, len, source }),
            }
        }
        let first = first_of(frames);
        for frame in frames {
            let nr_read = done.saturating_sub(place_of(frame, first)).min(PAGE_BYTES);
            if nr_read < PAGE_BYTES {
                frame.fill_zero(nr_read..PAGE_BYTES);
            }
        }
        Ok(done)
    }
}

/// Returns the memory from byte `done`, in at most [`PARTS_MAX`] parts. Adjacent frames share a
/// part, which the kernel looks up at once.
pub(crate) fn parts<H: PageHandle>(frames: &mut [Lock<H>], done: usize) -> Vec<libc::iovec> {
    let mut parts: Vec<libc::iovec> = Vec::new();
    let mut at = done;
    let first = first_of(frames);
    for frame in frames {
        let place = place_of(frame, first);
        if place + PAGE_BYTES <= done {
            continue;
        }
        while at < place {
            let iov_len = (place - at).min(SKIPPED_BYTES);
            parts.push(libc::iovec { iov_base: SKIPPED.0.get().cast(), iov_len });
            at += iov_len;
        }
        let part = part(frame, at - place);
        at = place + PAGE_BYTES;
        match parts.last_mut() {
            Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == part.iov_base => {
                last.iov_len += part.iov_len;
            }
            _ => parts.push(part),
        }
    }
    parts.truncate(PARTS_MAX);
    parts
}

fn part<H: PageHandle>(frame: &mut Lock<H>, done: usize) -> libc::iovec {
    let iov_base = frame.fill_target().wrapping_add(done).cast();
    libc::iovec { iov_base, iov_len: PAGE_BYTES - done }
}

fn read_parts(file: &File, parts: &[libc::iovec], offset: u64) -> io::Result<usize> {
    let offset =
        libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let nr_parts = parts.len() as libc::c_int;
    // SAFETY: S8 (the kernel gets only exclusively held memory, or memory that nothing reads): the
    // parts are frames that the caller has locked by `&mut` until after the call, and skipped
    // pages.
    let count = unsafe { libc::preadv(file.as_raw_fd(), parts.as_ptr(), nr_parts, offset) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

pub(crate) fn first_of<H: PageHandle>(frames: &[Lock<H>]) -> u64 {
    frames.first().map_or(0, |frame| frame.page().index().0)
}

pub(crate) fn place_of<H: PageHandle>(frame: &Lock<H>, first: u64) -> usize {
    (frame.page().index().0 - first) as usize * PAGE_BYTES
}

/// Counts skipped pages.
pub(crate) fn len_of<H: PageHandle>(frames: &[Lock<H>]) -> usize {
    frames.last().map_or(0, |last| place_of(last, first_of(frames)) + PAGE_BYTES)
}
