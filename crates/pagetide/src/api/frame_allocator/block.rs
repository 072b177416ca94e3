//! Allocated blocks, which can be split and joined.
//!
//! ```text
//!   FrameBlock o9 --split(o0)--> 512 FrameBlocks o0 --drop--> the allocator, where they merge
//!                                  two halves --join--> FrameBlock o1 --join--> ...
//! ```
//!
//! **Invariant.** A frame is in at most one `FrameBlock`: a split consumes the block, a join both
//! blocks. Contents stay in place.

use super::FrameAllocator;
use pagetide_core::ids::{FrameId, Order};
use pagetide_core::units::Bytes;
use pagetide_sys::current_cpu;
use std::fmt;
use std::iter::FusedIterator;

/// A block of 2^order frames, freed on drop.
///
/// ```
/// use pagetide::{Bytes, FrameAllocator, Order};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let allocator = FrameAllocator::builder().memory(Bytes(16 << 20)).build()?;
/// // 2 MiB in one piece, which can be a huge page of the processor.
/// let huge = allocator.alloc(Order::new(9)?).expect("16 MiB are free");
/// // All but its first 8 KiB are not needed any more.
/// let mut pages = huge.split(Order::BASE);
/// let (first, second) = (pages.next().expect("of 512"), pages.next().expect("of 512"));
/// drop(pages);
/// // Two halves are a whole.
/// let both = second.join(first).expect("neighbours");
/// assert_eq!(both.len_bytes(), 8192);
/// drop(both);
/// allocator.drain();
/// assert_eq!(allocator.stats().free_blocks.largest(), Some(Order::MAX), "merged again");
/// # Ok(())
/// # }
/// ```
#[must_use = "a block that is dropped is free again"]
pub struct FrameBlock<'a> {
    pub(super) allocator: &'a FrameAllocator,
    pub(super) first: FrameId,
    pub(super) order: Order,
}

impl<'a> FrameBlock<'a> {
    /// Returns the first frame's number, a multiple of 2^order.
    pub fn first(&self) -> FrameId {
        self.first
    }

    /// Returns the order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the length in bytes.
    pub fn len_bytes(&self) -> usize {
        Bytes::from_pages(self.order.nr_frames().into()).0 as usize
    }

    /// Returns the start of [`FrameBlock::len_bytes`] mapped, readable and writable bytes,
    /// exclusive to this block until it is dropped. The initial contents are arbitrary.
    ///
    /// Aligned to the block's length up to 2 MiB, so that a block of order 9 can be a huge page.
    pub fn as_ptr(&self) -> *mut u8 {
        self.allocator.arena.address(self.first)
    }

    /// Returns the first frame of the buddy block for a join, or `None` for the largest order.
    pub fn buddy(&self) -> Option<FrameId> {
        (self.order < Order::MAX).then(|| FrameId(self.first.0 ^ self.order.nr_frames()))
    }

    /// Splits the block into blocks of `order`, by address. Each is freed alone, and merges with
    /// free neighbours. The iterator frees the rest.
    ///
    /// A block of that order or below stays whole.
    ///
    /// # Cost
    /// The zone's lock, and a word for each part. A huge page stays whole until parts of it are
    /// returned to the system, which a [`FrameAllocator`] never does.
    pub fn split(self, order: Order) -> FrameBlocks<'a> {
        let part = order.min(self.order);
        if part < self.order {
            self.allocator.zone.lock_zone().split_held(self.first, self.order, part);
        }
        let blocks = FrameBlocks {
            allocator: self.allocator,
            next: self.first.0,
            end: self.first.0 + self.order.nr_frames(),
            order: part,
        };
        std::mem::forget(self);
        blocks
    }

    /// Joins this block and its [buddy](FrameBlock::buddy), in either order.
    ///
    /// # Errors
    /// [`JoinError`], which returns the blocks, if they are not the halves of one block.
    ///
    /// # Cost
    /// The zone's lock.
    pub fn join(self, other: FrameBlock<'a>) -> Result<FrameBlock<'a>, JoinError<'a>> {
        let halves = [self, other];
        let [one, two] = &halves;
        if !std::ptr::eq(one.allocator, two.allocator) || one.order != two.order {
            return Err(JoinError { blocks: halves });
        }
        let (allocator, order) = (one.allocator, one.order);
        let joined = allocator.zone.lock_zone().join_held([one.first, two.first], order);
        let Some(first) = joined else { return Err(JoinError { blocks: halves }) };
        halves.into_iter().for_each(std::mem::forget);
        Ok(FrameBlock { allocator, first, order: Order(order.0 + 1) })
    }
}

impl Drop for FrameBlock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.allocator.zone.free_one(current_cpu(), self.order, self.first);
    }
}

impl fmt::Debug for FrameBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameBlock({} {})", self.first, self.order)
    }
}

/// The parts of a block, from [`FrameBlock::split`].
#[must_use = "blocks that are dropped are free again"]
pub struct FrameBlocks<'a> {
    allocator: &'a FrameAllocator,
    /// Remaining frames `next..end`, in whole parts.
    next: u32,
    end: u32,
    order: Order,
}

impl<'a> Iterator for FrameBlocks<'a> {
    type Item = FrameBlock<'a>;

    fn next(&mut self) -> Option<FrameBlock<'a>> {
        let first = self.next;
        (first < self.end).then(|| {
            self.next += self.order.nr_frames();
            FrameBlock { allocator: self.allocator, first: FrameId(first), order: self.order }
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let nr_blocks = ((self.end - self.next) >> self.order.0) as usize;
        (nr_blocks, Some(nr_blocks))
    }
}

impl ExactSizeIterator for FrameBlocks<'_> {}
impl FusedIterator for FrameBlocks<'_> {}

impl Drop for FrameBlocks<'_> {
    fn drop(&mut self) {
        if self.next < self.end {
            let rest = (self.next..self.end).step_by(self.order.nr_frames() as usize);
            self.allocator.zone.free(current_cpu(), self.order, rest.map(FrameId));
        }
    }
}

impl fmt::Debug for FrameBlocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameBlocks({} {}, {} left)", FrameId(self.next), self.order, self.len())
    }
}

/// Two blocks that are not halves of one block: of different orders or allocators, not buddies, or
/// of the largest order.
pub struct JoinError<'a> {
    blocks: [FrameBlock<'a>; 2],
}

impl<'a> JoinError<'a> {
    /// Returns the blocks, in the order given.
    pub fn into_blocks(self) -> [FrameBlock<'a>; 2] {
        self.blocks
    }
}

impl fmt::Debug for JoinError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinError").field(&self.blocks[0]).field(&self.blocks[1]).finish()
    }
}

impl fmt::Display for JoinError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, two] = &self.blocks;
        let (first, second) = (one.first, two.first);
        if !std::ptr::eq(one.allocator, two.allocator) {
            return write!(f, "{first} and {second} are of two allocators");
        }
        if one.order != two.order {
            return write!(
                f,
                "{first} of order {} and {second} of order {} differ in length",
                one.order.0, two.order.0
            );
        }
        match one.buddy() {
            Some(buddy) => write!(
                f,
                "{first} and {second} of order {} are not halves of one block: the other half of \
                 {first} is {buddy}",
                one.order.0
            ),
            None => write!(f, "{first} is as large as blocks get, order {}", one.order.0),
        }
    }
}

impl std::error::Error for JoinError<'_> {}
