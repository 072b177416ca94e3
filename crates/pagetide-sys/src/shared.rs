//! Frames that other processes may look at, and how they tell whether a look was good.
//!
//! **Problem.** Another process is to copy a resident page without asking, while we evict, refill
//! and write as ever; and nothing it does may matter to us.
//!
//! **Idea.** It maps the frames, and one number a frame, both read-only. The number is odd while
//! somebody here holds the frame's page locked, and another even one afterwards. Who was told a
//! page's frame and number may copy for as long as the number is that one.
//!
//! ```text
//!   here     LOCK --> odd --> contents, or eviction --> even + 2 --> unlock
//!   there    number == told?  copy  number == told still?  then the copy is the page
//! ```
//!
//! A frame that is taken from its page stays odd until it is another page's. One number more, the
//! *epoch*, stands for all: whoever was told something in an earlier epoch has to ask again.
//!
//! **Invariants.** S1 and S2 as for our own copies; S23: the mappings of a view are read-only, of
//! two memory files that cannot shrink, and live as long as the view.
//!
//! **Ignored.** What the other process does with what it sees: it is told about files it has open,
//! and can see all the others' frames as well. It must be trusted as a reader.
//!
//! Source: Linux memfd_create(2), fcntl(2) `F_SEAL_SHRINK`; the number is a sequence lock's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::memory::FRAME_BYTES;

/// A memory file of `len` bytes, all zero, that can neither shrink nor grow.
pub(crate) fn memory_file(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// One mapping of a memory file, unmapped on drop.
struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: S23 (the mapping belongs to this value): nothing in it is tied to a thread.
unsafe impl Send for Mapped {}
// SAFETY: S23: what is shared of it is atomics, or read by copies that may race (S2).
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(file: BorrowedFd<'_>, len: usize, access: ProtFlags) -> io::Result<Mapped> {
        // SAFETY: S23 (a fresh mapping overlaps nothing): no address is asked for.
        let start = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).expect("S23: mmap never returns page zero unasked");
        Ok(Mapped { start, len })
    }

    fn words(&self) -> &[AtomicU64] {
        let start = self.start.as_ptr().cast_const().cast();
        // SAFETY: S23 (mapped, page aligned, so long); every process reaches it through atomics,
        // and those who map it read-only only load.
        unsafe { std::slice::from_raw_parts(start, self.len / 8) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: S23 (the mapping belongs to this value, and slices borrow from it).
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap refuses only ranges that are not page aligned");
    }
}

/// The numbers of all frames, and the epoch after them: where they are changed.
pub(crate) struct Numbers {
    mapped: Mapped,
    file: OwnedFd,
}

impl Numbers {
    pub(crate) fn new(nr_frames: u32) -> io::Result<Numbers> {
        let len = numbers_len(nr_frames);
        let file = memory_file("pagetide-numbers", len)?;
        let mapped = Mapped::new(file.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Numbers { mapped, file })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The frame's page is locked, or about to be filled. Does nothing the second time.
    pub(crate) fn begin(&self, frame: u32) {
        let number = &self.mapped.words()[frame as usize];
        let now = number.load(Ordering::Relaxed);
        if now & 1 == 0 {
            number.store(now + 1, Ordering::Relaxed);
        }
        // Before any change of the contents: whoever sees a new byte sees the odd number after.
        fence(Ordering::SeqCst);
    }

    /// The frame's page is about to be unlocked.
    pub(crate) fn end(&self, frame: u32) {
        let number = &self.mapped.words()[frame as usize];
        let now = number.load(Ordering::Relaxed);
        if now & 1 == 1 {
            number.store(now + 1, Ordering::Release);
        }
    }

    /// The frame's number now; odd means that nobody may look.
    pub(crate) fn load(&self, frame: u32) -> u64 {
        self.mapped.words()[frame as usize].load(Ordering::Acquire)
    }

    pub(crate) fn epoch(&self, nr_frames: u32) -> u64 {
        self.mapped.words()[nr_frames as usize].load(Ordering::SeqCst)
    }

    pub(crate) fn start_epoch(&self, nr_frames: u32) {
        self.mapped.words()[nr_frames as usize].fetch_add(1, Ordering::SeqCst);
    }
}

fn numbers_len(nr_frames: u32) -> usize {
    ((nr_frames as usize + 1) * 8).next_multiple_of(FRAME_BYTES)
}

/// What a process is told about a resident page: good for as long as the numbers are these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    /// The frame the page is in.
    pub frame: u32,
    /// The frame's number.
    pub number: u64,
    /// The epoch.
    pub epoch: u64,
}

/// Another process's frames, mapped to be looked at.
///
/// # Concurrency
/// Shared freely. Never waits.
pub struct FrameView {
    frames: Mapped,
    numbers: Mapped,
    nr_frames: u32,
}

impl FrameView {
    /// Maps the two files that [`FrameArena::shared_files`](crate::FrameArena::shared_files) names,
    /// of an arena of `nr_frames` frames.
    ///
    /// # Errors
    /// What the system says: of mappings, or of files that are not so long.
    pub fn open(
        frames: BorrowedFd<'_>,
        numbers: BorrowedFd<'_>,
        nr_frames: u32,
    ) -> io::Result<FrameView> {
        let lens = (nr_frames as usize * FRAME_BYTES, numbers_len(nr_frames));
        let is_long = |file: BorrowedFd<'_>, len: usize| -> io::Result<bool> {
            Ok(rustix::fs::fstat(file)?.st_size as u64 >= len as u64)
        };
        if nr_frames == 0 || !is_long(frames, lens.0)? || !is_long(numbers, lens.1)? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(FrameView {
            frames: Mapped::new(frames, lens.0, ProtFlags::READ)?,
            numbers: Mapped::new(numbers, lens.1, ProtFlags::READ)?,
            nr_frames,
        })
    }

    /// Copies bytes of the page from `offset` on to `target`; returns whether they are the page's.
    /// If not, `target` holds anything.
    ///
    /// # Safety
    /// `target` is valid for writes of `len` bytes, outside this view.
    #[inline]
    pub unsafe fn read(&self, sight: Sight, offset: usize, target: *mut u8, len: usize) -> bool {
        let words = self.numbers.words();
        let fits = offset <= FRAME_BYTES && len <= FRAME_BYTES - offset;
        if sight.frame >= self.nr_frames || !fits || sight.number & 1 == 1 {
            return false;
        }
        let number = &words[sight.frame as usize];
        let epoch = &words[self.nr_frames as usize];
        if number.load(Ordering::Acquire) != sight.number {
            return false;
        }
        let at = sight.frame as usize * FRAME_BYTES + offset;
        let source = self.frames.start.as_ptr().wrapping_add(at).cast_const();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: S23 (checked ranges are mapped), S2 (racing copies are opaque); the caller
        // answers for the target.
        unsafe {
            crate::copy::machine::copy(source, target, len)
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = source;
            // SAFETY: the caller answers for the target (S20 is how it knows).
            let target = unsafe { std::slice::from_raw_parts_mut(target, len) };
            crate::copy::portable::copy_out(self.frames.words(), at, target);
        }
        fence(Ordering::Acquire);
        number.load(Ordering::Relaxed) == sight.number
            && epoch.load(Ordering::Relaxed) == sight.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArenaOptions, FrameArena, PageTable};
    use pagetide_core::ids::{FrameId, PageIndex};
    use std::sync::Arc;

    const NR_FRAMES: u32 = 3;

    fn arena() -> (Arc<FrameArena>, FrameView) {
        let arena = FrameArena::reserve_shared(NR_FRAMES, ArenaOptions::default()).unwrap();
        let [frames, numbers] = arena.shared_files().unwrap();
        let view = FrameView::open(frames, numbers, NR_FRAMES).unwrap();
        (Arc::new(arena), view)
    }

    fn look(view: &FrameView, sight: Sight) -> Option<[u8; 4]> {
        let mut bytes = [0; 4];
        // SAFETY: S23: an array of its own, so long.
        let is_good = unsafe { view.read(sight, 8, bytes.as_mut_ptr(), bytes.len()) };
        is_good.then_some(bytes)
    }

    #[test]
    fn a_sight_is_good_until_the_page_is_locked() {
        let (arena, view) = arena();
        let table = PageTable::new(Arc::clone(&arena));
        let page = table.page_or_make(PageIndex(5)).unwrap();
        assert_eq!(page.sight(), None);
        let mut lock = page.lock();
        lock.install(arena.claim(FrameId(1)).unwrap());
        lock.write(8, b"once");
        assert_eq!(page.sight(), None);
        drop(lock);
        let sight = page.sight().unwrap();
        assert_eq!(sight.frame, 1);
        assert_eq!(look(&view, sight), Some(*b"once"));
        let mut lock = page.lock();
        assert_eq!(look(&view, sight), None);
        lock.write(8, b"more");
        drop(lock);
        assert_eq!(look(&view, sight), None);
        assert_eq!(look(&view, page.sight().unwrap()), Some(*b"more"));
    }

    #[test]
    fn a_frame_that_changes_pages_was_never_seen() {
        let (arena, view) = arena();
        let table = PageTable::new(Arc::clone(&arena));
        let page = table.page_or_make(PageIndex(0)).unwrap();
        page.lock().install(arena.claim(FrameId(0)).unwrap());
        let first = page.sight().unwrap();
        let mut lock = page.lock();
        let old = lock.relocate(arena.claim(FrameId(2)).unwrap());
        drop(lock);
        let moved = page.sight().unwrap();
        assert_eq!((moved.frame, look(&view, first)), (2, None));
        assert!(look(&view, moved).is_some());
        let other = table.page_or_make(PageIndex(1)).unwrap();
        other.lock().install(old);
        assert_eq!(look(&view, first), None);
        let freed = page.lock().evict(None);
        arena.release(freed);
        assert_eq!(look(&view, moved), None);
        assert!(look(&view, other.sight().unwrap()).is_some());
    }

    #[test]
    fn an_epoch_ends_all_sights() {
        let (arena, view) = arena();
        let table = PageTable::new(Arc::clone(&arena));
        let page = table.page_or_make(PageIndex(0)).unwrap();
        page.lock().install(arena.claim(FrameId(0)).unwrap());
        let sight = page.sight().unwrap();
        arena.start_epoch();
        assert_eq!(look(&view, sight), None);
        assert!(look(&view, page.sight().unwrap()).is_some());
        let wrong = Sight { frame: NR_FRAMES, ..sight };
        assert_eq!(look(&view, wrong), None);
    }

    #[test]
    fn memory_given_back_is_gone_for_all() {
        let (arena, view) = arena();
        let table = PageTable::new(Arc::clone(&arena));
        let page = table.page_or_make(PageIndex(0)).unwrap();
        let mut lock = page.lock();
        lock.install(arena.claim(FrameId(0)).unwrap());
        lock.write(8, b"gone");
        let freed = lock.evict(None);
        drop(lock);
        arena.release(freed);
        assert_eq!(arena.discard(FrameId(0)..FrameId(NR_FRAMES)).unwrap(), NR_FRAMES);
        assert_eq!(arena.count_resident_bytes(), 0);
        page.lock().install(arena.claim(FrameId(0)).unwrap());
        assert_eq!(look(&view, page.sight().unwrap()), Some([0; 4]));
    }
}
