//! Whole free blocks of 2 MiB, for a cache that shrinks.
//!
//! **Problem.** The kernel takes 5 us to free a single frame: as long as for all 512 of a block.
//! **Idea.** Move the pages of some blocks, selected by core ([`blocks_to_empty`]), to free frames
//! elsewhere. A moved page is new to the lists, like a page from another tier.
//!
//! Ignored: pages that are locked, pinned, in write-back, or in groups. Their blocks are released
//! in parts.

use crate::engine::frame_source::FrameSource;
use crate::engine::registry::Slots;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{CpuId, FrameId};
use pagetide_core::page_alloc::{PCP_HUGE_ORDER, block_of, blocks_to_empty};
use pagetide_sys::{ClaimedFrame, current_cpu};
use std::collections::HashSet;

/// Minimum number of frames for moves: 16 MiB.
const NR_MIN: u32 = 8 * PCP_HUGE_ORDER.nr_frames();

impl FrameSource {
    /// Takes up to `nr` free frames of the node, in blocks as whole as possible, or none if `nr` is
    /// small.
    pub(super) fn take_gathered(&self, nth: usize, nr: u32) -> Vec<ClaimedFrame> {
        let node = self.pages.nodes.at(nth);
        if nr < NR_MIN || node.lock_lists().groups().is_some() {
            return Vec::new();
        }
        let free = node.frames.take_free(nr);
        let blocks = blocks_to_empty(free.iter().map(ClaimedFrame::frame));
        let in_blocks: HashSet<u32> = blocks.iter().copied().collect();
        let is_in_block = |claimed: &ClaimedFrame| in_blocks.contains(&block_of(claimed.frame()));
        let (mut gathered, mut targets): (Vec<_>, Vec<_>) = free.into_iter().partition(is_in_block);
        let is_free: HashSet<FrameId> = gathered.iter().map(ClaimedFrame::frame).collect();
        for block in blocks {
            let (cpu, mappings) = (current_cpu(), self.mappings.read());
            let frames = (block << PCP_HUGE_ORDER.0..(block + 1) << PCP_HUGE_ORDER.0).map(FrameId);
            let in_use = frames.filter(|frame| node.has(*frame) && !is_free.contains(frame));
            gathered
                .extend(in_use.filter_map(|frame| self.empty(cpu, &mappings, frame, &mut targets)));
        }
        gathered.extend(targets);
        gathered
    }

    /// Moves the page in `frame`, if possible, to one of `targets`. Returns the claim on the frame.
    fn empty(
        &self,
        cpu: CpuId,
        mappings: &Slots,
        frame: FrameId,
        targets: &mut Vec<ClaimedFrame>,
    ) -> Option<ClaimedFrame> {
        let (folio, node) = (&self.pages.folios[frame], self.pages.nodes.of(frame));
        let page = folio.page();
        let mut lock = mappings.get(page.mapping)?.table.page(page.index)?.try_lock().ok()?;
        // The folio may belong to an evicted page.
        if lock.frame() != Some(frame) || folio.flags().any(Flags::WRITEBACK) {
            return None;
        }
        let target = targets.pop()?;
        node.lock_lists().whole_mut().withdraw(frame);
        let to = target.frame();
        let left = self.move_page(&mut lock, target, Flags::NONE);
        node.lock_lists().whole_mut().moved_in(to);
        node.log_add(cpu, &self.pages.folios, to);
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, PageCache, PolicyName, Store};
    use pagetide_core::driver;
    use pagetide_core::units::PAGE_BYTES;
    use std::collections::HashMap;
    use std::io;
    use std::sync::Mutex;

    const NR_PAGES: u64 = 20_000;

    /// Pages that begin with their number.
    struct Stamped(Mutex<Vec<u8>>);

    impl Store for Stamped {
        fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
            let all = self.0.lock().unwrap();
            target.copy_from_slice(&all[offset as usize..][..target.len()]);
            Ok(target.len())
        }

        fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize> {
            self.0.lock().unwrap()[offset as usize..][..source.len()].copy_from_slice(source);
            Ok(source.len())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(NR_PAGES * PAGE_BYTES as u64)
        }

        fn set_len(&self, _len: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn gathers_whole_blocks(policy: PolicyName) {
        let mut contents = vec![0; NR_PAGES as usize * PAGE_BYTES];
        for (page, number) in contents.chunks_mut(PAGE_BYTES).zip(0_u64..) {
            page[..8].copy_from_slice(&number.to_le_bytes());
        }
        let builder = PageCache::builder().memory(Bytes(40 << 20)).policy(policy);
        let cache = builder.background(false).readahead_max(Bytes(0)).build().unwrap();
        let file = cache.open_store(Box::new(Stamped(Mutex::new(contents)))).unwrap();
        let check = |number: u64| {
            let mut stamp = [0; 8];
            file.read_exact_at(&mut stamp, number * PAGE_BYTES as u64).unwrap();
            assert_eq!(u64::from_le_bytes(stamp), number, "{policy}");
        };
        let scattered =
            |nth: u64| nth.wrapping_mul(nth).wrapping_mul(0x9e37_79b9_7f4a_7c15) % NR_PAGES;
        (0..60_000).map(scattered).for_each(check);
        // Dirty with the same bytes, and pinned.
        let numbers: Vec<u64> = (60_000..60_500).map(scattered).collect();
        for number in &numbers {
            file.write_at(&number.to_le_bytes(), number * PAGE_BYTES as u64).unwrap();
        }
        let pinned = file.page(numbers[0]).unwrap();

        let source = &cache.shared.engine.source;
        let node = source.pages.nodes.at(0);
        let before = node.frames.nr_managed();
        let mut world = source.reclaimer(current_cpu());
        driver::reclaim_on_demand(&mut world, driver::FIRST, NR_MIN.into());
        let gathered = source.take_gathered(0, NR_MIN);
        let nr = gathered.len() as u32;
        let mut nr_in = HashMap::<u32, u32>::new();
        gathered.iter().for_each(|one| *nr_in.entry(block_of(one.frame())).or_default() += 1);
        let nr_whole = nr_in.values().filter(|nr| **nr == PCP_HUGE_ORDER.nr_frames()).count();
        assert!(nr > NR_MIN - 64 && nr_whole >= 6, "{policy}: {nr} frames, {nr_whole} blocks");
        assert_eq!(node.frames.resize(before - nr, gathered), before - nr, "{policy}");
        assert_eq!(pinned[..8], numbers[0].to_le_bytes());
        drop(pinned);
        cache.validate();
        (0..NR_PAGES).for_each(check);
        file.sync_data().unwrap();
        cache.validate();
    }

    #[test]
    fn pages_move_out_of_blocks_and_stay_what_they_are() {
        PolicyName::ALL.iter().copied().for_each(gathers_whole_blocks);
    }
}
