//! The mapping itself: `mmap` with 2 MiB alignment, advice, and freeing.
//!
//! Invariants (S1): `base` is 2 MiB aligned. `len` bytes from it stay mapped readable and writable
//! until drop. Nothing else knows the address.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};

use super::FRAME_BYTES;
use super::ahead::HugeAhead;
use super::given_back::{BLOCK_BYTES, BLOCK_FRAMES, GivenBack, PageSize};
use crate::machine::{cpu::read_thread_cpu_time_ns, prefetch::fetch_line};
use crate::memory::{addresses, copy};

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const NODES_MAX: u32 = 1024;
/// A vector of 64 KiB.
const MINCORE_BYTES: usize = (64 << 10) * FRAME_BYTES;
/// Between attempts to free memory.
const PAUSE: Duration = Duration::from_micros(50);
const PAUSES_MAX: u32 = 200;

pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// The mapped file, if other processes may map the memory.
    file: Option<OwnedFd>,
    /// The blocks to keep small, if huge pages are in use.
    given_back: Option<GivenBack>,
    /// The blocks of a memory file that become huge pages on request. Empty for private memory.
    ahead: HugeAhead,
    /// True once blocks of a file may be huge pages.
    was_collapsed: AtomicBool,
}

// SAFETY: S1 (the mapping belongs to this value): nothing in it is tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: S2 (racing copies are opaque): `&Mapping` gives out a pointer, and every use of it is
// either opaque to races or backed by exclusive ownership (S4).
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn reserve(len: usize, huge_pages: bool) -> io::Result<Mapping> {
        let mut mapping = Mapping::map(len, READ_WRITE, MapFlags::empty())?;
        mapping.want_huge_pages(huge_pages);
        Ok(mapping)
    }

    /// As [`Mapping::reserve`], with small pages, and without a commit charge for untouched memory.
    /// KSM must not merge a page that a pipe holds. The provenance is exposed, because the address
    /// may be given away.
    pub(super) fn reserve_thin(len: usize) -> io::Result<Mapping> {
        let mapping = Mapping::map(len, READ_WRITE, MapFlags::NORESERVE)?;
        mapping.advise(0..len, PageSize::Small);
        // SAFETY: S1 (the range is this mapping). The advice changes no contents. A kernel without
        // the advice does not merge.
        let _ = unsafe { madvise(mapping.base().cast(), len, Advice::LinuxUnmergeable) };
        mapping.base().expose_provenance();
        Ok(mapping)
    }

    /// As [`Mapping::reserve`], with a memory file. Untouched memory takes only addresses.
    pub(super) fn reserve_shared(len: usize, huge_pages: bool) -> io::Result<Mapping> {
        let mut mapping = Mapping::map(len, ProtFlags::empty(), MapFlags::empty())?;
        let file = crate::memory::mapped::memory_file("pagetide-frames", len)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: S1 (the range is this mapping, which no other code knows yet): a mapping of the
        // file replaces it. The file has the same length and cannot shrink.
        unsafe { mmap(mapping.base().cast(), len, READ_WRITE, flags, &file, 0) }?;
        mapping.file = Some(file);
        mapping.want_huge_pages(huge_pages);
        mapping.ahead = HugeAhead::new(if huge_pages { len / BLOCK_BYTES } else { 0 });
        Ok(mapping)
    }

    fn want_huge_pages(&mut self, huge_pages: bool) {
        self.advise(0..self.len, if huge_pages { PageSize::Huge } else { PageSize::Small });
        self.given_back = huge_pages.then(|| GivenBack::new(self.len));
    }

    fn map(len: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Mapping> {
        let base = addresses::reserve(len, access, flags)?;
        let (ahead, was_collapsed) = (HugeAhead::default(), AtomicBool::new(false));
        Ok(Mapping { base, len, file: None, given_back: None, ahead, was_collapsed })
    }

    /// Returns false if memory for the advice ran out. EINVAL, without huge pages in the kernel,
    /// counts as success.
    fn advise(&self, bytes: Range<usize>, size: PageSize) -> bool {
        let advice = match size {
            PageSize::Small => Advice::LinuxNoHugepage,
            PageSize::Huge => Advice::LinuxHugepage,
        };
        let len = bytes.end.min(self.len) - bytes.start;
        let start = self.base().wrapping_add(bytes.start).cast();
        // SAFETY: S1 (the range is this mapping's). The advice changes no contents.
        let taken = unsafe { madvise(start, len, advice) };
        taken != Err(Errno::NOMEM)
    }

    pub(super) fn withhold(&self, bytes: Range<usize>) {
        if let Some(given_back) = &self.given_back {
            given_back.give(bytes, &|bytes, size| self.advise(bytes, size));
        }
    }

    pub(super) fn take_again(&self, bytes: Range<usize>) {
        self.ahead.forget(bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES));
        if let Some(given_back) = &self.given_back {
            given_back.take(bytes, &|bytes, size| self.advise(bytes, size));
        }
    }

    /// Existing huge pages are split when their pages leave.
    pub(super) fn stay_small(&self) {
        if let Some(given_back) = &self.given_back {
            given_back.give_all(&|bytes, size| self.advise(bytes, size));
        }
    }

    /// Drops the contents of `len` bytes from `start`, to be filled again by other means than a
    /// touch.
    ///
    /// # Safety
    /// As for [`Mapping::discard`].
    pub(super) unsafe fn empty(&self, start: usize, len: usize) -> io::Result<()> {
        let start = self.base().wrapping_add(start).cast();
        // SAFETY: S1 (inside the mapping) and S4 (owned exclusively), both by the caller.
        Ok(unsafe { madvise(start, len, Advice::LinuxDontNeed) }?)
    }

    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// # Safety
    /// As for [`copy::copy_out_to`].
    #[inline]
    pub(super) unsafe fn copy_out(&self, at: usize, target: *mut u8, len: usize) {
        // SAFETY: S57: the two functions have the same contract.
        unsafe { copy::copy_out_to(self.cells(), at, target, len) };
    }

    pub(super) fn copy_in(&self, at: usize, source: &[u8]) {
        copy::copy_in(self.cells(), at, source);
    }

    pub(super) fn copy_within(&self, source: usize, target: usize, len: usize) {
        copy::copy_within(self.cells(), source, target, len);
    }

    pub(super) fn zero(&self, at: usize, len: usize) {
        copy::zero(self.cells(), at, len);
    }

    #[inline]
    pub(super) fn fetch(&self, at: usize) {
        fetch_line(self.base().wrapping_add(at).cast_const());
    }

    #[inline]
    pub(super) fn cells(&self) -> &[AtomicU64] {
        let cells = self.base().cast_const().cast();
        // SAFETY: S1 (the mapping is mapped, and 2 MiB aligned), S2 (racing accesses are atomic).
        unsafe { slice::from_raw_parts(cells, self.len / size_of::<u64>()) }
    }

    /// Present pages stay on their node.
    pub(super) fn bind(&self, start: usize, len: usize, node: u32) -> io::Result<()> {
        let mut mask = [0_u64; NODES_MAX as usize / 64];
        let Some(word) = mask.get_mut(node as usize / 64) else { return Err(Errno::INVAL.into()) };
        *word = 1 << (node % 64);
        let start = self.base().wrapping_add(start);
        // SAFETY: S1 (the caller checked that the range is this mapping's, and a placement changes
        // no contents). S9: the mask lives until the call returns, and has the stated length.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                start,
                len,
                libc::MPOL_BIND,
                mask.as_ptr(),
                // The kernel reads one bit less than the stated number.
                u64::from(NODES_MAX) + 1,
                0,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(super) fn keep_from_children(&self) -> io::Result<()> {
        // SAFETY: S1 (the range is this mapping). The advice changes no contents here.
        Ok(unsafe { madvise(self.base().cast(), self.len, Advice::LinuxDontFork) }?)
    }

    pub(super) fn touch(&self) -> io::Result<()> {
        // SAFETY: S1 (the range is this mapping). Populating changes no contents.
        match unsafe { madvise(self.base().cast(), self.len, Advice::LinuxPopulateWrite) } {
            // Kernels before 5.14 lack the advice.
            Err(Errno::INVAL) => {
                self.touch_by_writing();
                Ok(())
            }
            result => Ok(result?),
        }
    }

    fn touch_by_writing(&self) {
        for at in (0..self.len).step_by(FRAME_BYTES) {
            // SAFETY: S1 (`at` is inside the mapping). Called while the arena is being built, when
            // no other thread has it, and all of it is still zero.
            unsafe { self.base().wrapping_add(at).write_volatile(0) };
        }
    }

    pub(super) fn count_resident_bytes(&self) -> u64 {
        let mut present = vec![0_u8; MINCORE_BYTES / FRAME_BYTES];
        let starts = (0..self.len).step_by(MINCORE_BYTES);
        let pages = starts.map(|at| {
            let len = MINCORE_BYTES.min(self.len - at);
            self.count_present(at, &mut present[..len / FRAME_BYTES])
        });
        (pages.sum::<usize>() * FRAME_BYTES) as u64
    }

    fn count_present(&self, start: usize, present: &mut [u8]) -> usize {
        let len = present.len() * FRAME_BYTES;
        assert!(start + len <= self.len, "S1: the pages are the mapping's");
        let start = self.base().wrapping_add(start).cast();
        // SAFETY: S1 (the range is mapped), and `present` has a byte for each of its pages.
        let result = unsafe { libc::mincore(start, len, present.as_mut_ptr()) };
        if result == 0 { present.iter().filter(|&&page| page & 1 != 0).count() } else { 0 }
    }

    pub(super) fn nr_to_collapse(&self) -> usize {
        self.ahead.nr_blocks()
    }

    pub(super) fn collapse(&self, block: usize) -> bool {
        let is_full = self.is_full(block);
        if is_full {
            self.ask_for_huge(block);
        }
        is_full
    }

    /// Reverts the advice afterwards, so that the kernel makes no other huge pages there.
    pub(super) fn collapse_one(&self, block: usize) {
        let bytes = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
        self.advise(bytes.clone(), PageSize::Huge);
        self.ask_for_huge(block);
        self.advise(bytes, PageSize::Small);
    }

    pub(super) fn is_full(&self, block: usize) -> bool {
        self.count_present(block * BLOCK_BYTES, &mut [0; BLOCK_FRAMES]) == BLOCK_FRAMES
    }

    /// Acts once per block. Absent pages become present.
    pub(super) fn make_huge(&self, bytes: Range<usize>) {
        for block in bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES) {
            if self.ahead.is_next(block) {
                let started_ns = read_thread_cpu_time_ns();
                let page = self.base().wrapping_add(bytes.start.max(block * BLOCK_BYTES));
                // The kernel does not collapse an empty block.
                // SAFETY: S1 (inside the mapping). Populating changes no contents.
                let _ = unsafe { madvise(page.cast(), FRAME_BYTES, Advice::LinuxPopulateRead) };
                self.ask_for_huge(block);
                self.ahead.note(read_thread_cpu_time_ns() - started_ns);
            }
        }
    }

    /// Fails silently if memory is fragmented or in use, if the advice is small pages, or before
    /// Linux 6.1.
    fn ask_for_huge(&self, block: usize) {
        self.was_collapsed.store(true, Relaxed);
        let start = self.base().wrapping_add(block * BLOCK_BYTES).cast();
        // SAFETY: S1 (a whole block of the mapping). Contents stay the same for all readers.
        let _ = unsafe { libc::madvise(start, BLOCK_BYTES, libc::MADV_COLLAPSE) };
    }

    pub(super) fn split(&self, start: usize) {
        let start = self.base().wrapping_add(start).cast();
        // SAFETY: S1 (inside the mapping). The advice changes no contents. Kernels before 5.4 lack
        // the advice, and collapsing.
        let _ = unsafe { madvise(start, FRAME_BYTES, Advice::LinuxCold) };
    }

    /// Drops contents, and [withholds](Self::withhold) the memory.
    ///
    /// # Safety
    /// The range is inside the mapping, and the caller owns its frames exclusively.
    pub(super) unsafe fn discard(&self, start: usize, len: usize) -> io::Result<()> {
        self.withhold(start..start + len);
        let first = self.base().wrapping_add(start).cast();
        let advice = match self.file {
            None => Advice::LinuxDontNeed,
            Some(_) => Advice::LinuxRemove,
        };
        let mut nr_pauses = 0;
        loop {
            // SAFETY: S1 (inside the mapping) and S4 (owned exclusively), both by the caller. A
            // reader that is still copying sees old bytes or zeros, and its ticket is invalid.
            unsafe { madvise(first, len, advice) }?;
            if nr_pauses == PAUSES_MAX || !self.was_collapsed.load(Relaxed) {
                return Ok(());
            }
            // A huge page with a part under device I/O is not split, and keeps all memory.
            if self.count_present(start, &mut vec![0; len / FRAME_BYTES]) == 0 {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
            nr_pauses += 1;
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: S1 (the mapping belongs to this value, and slices borrow from it).
        unsafe { addresses::give_back(self.base(), self.len) };
    }
}
