//! Page words during a reclaim pass: victims are claimed by locking them.
//!
//! ```text
//!   victim --try_claim--> [ claimed ... ]  oldest --> evict: shadow into the word, unlock
//!                                                 --> demoted: the folio joins its new lists
//! ```
//!
//! A claim fails if the page is pinned, locked, or young. Pages are claimed with the lists locked.
//! Claimed words stay locked until core has named the shadows of the batch, the lists are unlocked,
//! and the page is evicted or copied below. See [`driver`](pagetide_core::driver) for the order.

use crate::engine::frame_source::FrameSource;
use crate::engine::mapping::Mapping;
use crate::engine::registry::Slots;
use crate::engine::stats::counters::Event;
use crate::memory::locks::lock;
use crate::memory::node::Node;
use pagetide_core::driver::{self, DrivenPass, LeafRead};
use pagetide_core::folio::Flags;
use pagetide_core::group::NodeLists;
use pagetide_core::ids::{CpuId, FrameId, NodeId, PageId, PageIndex};
use pagetide_core::lru::page_table::{LeafId, LeafLook, wants_around};
use pagetide_core::lru::{Refusal, ShadowEntry, VICTIMS_MAX, Victim};
use pagetide_core::record;
use pagetide_core::tiering::Migration;
use pagetide_sys::{Claim, ClaimedFrame, LeafRef, Lock, LookedAt, PageRef};
use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

/// A locked page to be evicted, or just demoted.
struct Claimed<'m> {
    lock: Lock<PageRef<'m>>,
    /// Epoch of the mapping before the lock.
    epoch: u64,
    /// Frame below, for a page to be demoted.
    target: Option<ClaimedFrame>,
}

pub(crate) struct Claims<'m> {
    source: &'m FrameSource,
    cpu: CpuId,
    mappings: &'m Slots,
    lists: Option<MutexGuard<'m, NodeLists>>,
    claimed: ClaimQueue<'m>,
    /// The pages to evict are unmapped from processes and regions.
    have_left_users: bool,
    /// Young region pages, kept locked to be unmapped together once the lists are unlocked.
    looked: LookedAt<'m>,
    is_in_fault: bool,
}

struct ClaimQueue<'m> {
    slots: [Option<Claimed<'m>>; VICTIMS_MAX],
    oldest: usize,
    len: usize,
}

impl<'m> ClaimQueue<'m> {
    fn new() -> ClaimQueue<'m> {
        ClaimQueue { slots: [const { None }; VICTIMS_MAX], oldest: 0, len: 0 }
    }

    fn slot(&mut self, nth: usize) -> &mut Option<Claimed<'m>> {
        &mut self.slots[(self.oldest + nth) % VICTIMS_MAX]
    }

    fn push(&mut self, claimed: Claimed<'m>) {
        assert!(self.len < VICTIMS_MAX, "a batch has no more victims");
        *self.slot(self.len) = Some(claimed);
        self.len += 1;
    }

    fn youngest(&mut self) -> Option<&mut Claimed<'m>> {
        self.slot(self.len.checked_sub(1)?).as_mut()
    }

    fn pop_youngest(&mut self) -> Option<Claimed<'m>> {
        self.len = self.len.checked_sub(1)?;
        self.slot(self.len).take()
    }

    fn pop_oldest(&mut self) -> Option<Claimed<'m>> {
        self.len = self.len.checked_sub(1)?;
        let oldest = self.slot(0).take();
        self.oldest = (self.oldest + 1) % VICTIMS_MAX;
        oldest
    }
}

impl<'m> Claims<'m> {
    pub(crate) fn new(source: &'m FrameSource, cpu: CpuId, mappings: &'m Slots) -> Claims<'m> {
        let claimed = ClaimQueue::new();
        Claims {
            source,
            cpu,
            mappings,
            lists: None,
            claimed,
            have_left_users: false,
            looked: LookedAt::default(),
            is_in_fault: false,
        }
    }

    pub(crate) fn in_fault(source: &'m FrameSource, cpu: CpuId, mappings: &'m Slots) -> Claims<'m> {
        Claims { is_in_fault: true, ..Claims::new(source, cpu, mappings) }
    }

    fn page(&self, page: PageId) -> Option<PageRef<'m>> {
        self.mappings.get(page.mapping)?.table.page(page.index)
    }

    /// Unmaps all pages to be evicted from memory files and regions, in one batch.
    fn leave_users(&mut self) {
        let has_copies = self.source.pages.pool.is_some();
        if !std::mem::replace(&mut self.have_left_users, true) && !has_copies {
            let evicted = self.claimed.slots.iter().flatten().filter(|one| one.target.is_none());
            let locks = evicted.map(|one| &one.lock);
            Lock::leave_files(locks.clone());
            Lock::drop_from_users(locks);
        }
    }

    fn oldest(&mut self) -> Claimed<'m> {
        self.leave_users();
        self.claimed.pop_oldest().expect("invariant: a claim for each victim that goes")
    }

    fn count_wasted(&self, mapping: Option<&Mapping>, flags: Flags) {
        if !flags.any(Flags::STREAMED) {
            return self.source.pages.counters.count(Event::AroundWasted);
        }
        self.source.pages.counters.count(Event::ReadaheadWasted);
        if let Some(mapping) = mapping {
            mapping.wasted.fetch_add(1, Relaxed);
        }
    }
}

impl DrivenPass for Claims<'_> {
    fn lock_lists(&mut self, node: NodeId) {
        self.lists = Some(self.source.pages.nodes.at(node.index()).lock_lists());
    }

    fn lists(&mut self, _node: NodeId) -> &mut NodeLists {
        self.lists.as_deref_mut().expect("invariant: the driver has locked the lists")
    }

    fn unlock_lists(&mut self) {
        self.lists = None;
        self.looked.take_out();
    }

    fn flags(&self, frame: FrameId) -> Flags {
        self.source.pages.folios[frame].flags()
    }

    fn fetch(&self, victims: &[Victim]) {
        for victim in victims {
            self.source.pages.nodes.of(victim.frame).frames.fetch(victim.frame);
            if let Some(page) = self.page(victim.page) {
                page.fetch_to_write();
            }
        }
    }

    fn spares(&mut self, victim: &Victim) -> bool {
        let Some(tiering) = &self.source.tiering else { return false };
        let Some(page) = self.page(victim.page) else { return false };
        let (is_armed, folio) = (page.load().is_hint(), &self.source.pages.folios[victim.frame]);
        lock(&tiering.promotion).spares(tiering.now(), folio, is_armed)
    }

    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal> {
        let mapping = self.mappings.get(victim.page.mapping).ok_or(Refusal::Busy)?;
        // Before the lock, so that later drops are noticed.
        let epoch = mapping.epoch.load(Relaxed);
        let page = mapping.table.page(victim.page.index).ok_or(Refusal::Busy)?;
        let mut claim = page.try_claim();
        if matches!(claim, Claim::Busy) && !self.looked.is_empty() {
            // The page may be locked by this pass.
            self.looked.take_out();
            claim = page.try_claim();
        }
        let lock = match claim {
            Claim::Locked(lock) => lock,
            Claim::Young(mapped) => {
                mapped.into_iter().for_each(|lock| self.looked.add(lock));
                return Err(Refusal::Young);
            }
            Claim::Busy | Claim::Gone => return Err(Refusal::Busy),
        };
        // The word may hold another frame by now. Pages locked by a process stay.
        if lock.frame() != Some(victim.frame) || mapping.locked.holds(victim.page.index.0) {
            return Err(Refusal::Busy);
        }
        self.claimed.push(Claimed { lock, epoch, target: None });
        self.have_left_users = false;
        Ok(())
    }

    fn release(&mut self) {
        self.claimed.pop_youngest();
    }

    fn demote(&mut self, node: NodeId) -> bool {
        let claimed = self.claimed.youngest().expect("invariant: what is demoted is claimed");
        claimed.target = self.source.alloc_demoted(self.cpu, node.index());
        claimed.target.is_some()
    }

    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>) {
        let Claimed { mut lock, epoch, .. } = self.oldest();
        debug_assert_eq!(lock.frame(), Some(frame));
        let mapping = self.mappings.get(page.mapping).map(|mapping| &**mapping);
        let flags = self.flags(frame);
        if flags.any(Flags::PREFETCHED) {
            self.count_wasted(mapping, flags);
        }
        if let Some(recorder) = &self.source.pages.recorder {
            recorder.record(page, record::AccessKind::Evict);
        }
        if let (Some(pool), Some(mapping)) = (&self.source.pages.pool, mapping) {
            pool.store(mapping.copied(), page.index, epoch, lock.bytes());
        }
        self.source.pages.arena.release(lock.evict(shadow.map(|shadow| shadow.bits())));
    }

    fn list_demoted(&mut self, frame: FrameId) {
        let Claimed { mut lock, target, .. } = self.oldest();
        let target = target.expect("invariant: a demoted page has a frame below");
        let left = self.source.move_page(&mut lock, target, Flags::NONE);
        debug_assert_eq!(left.frame(), frame);
        let mut world = self.source.reclaimer(self.cpu);
        driver::list_moved(&mut world, &lock, Migration::Demotion);
        self.source.pages.arena.release(left);
    }

    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone) {
        assert!(self.claimed.len == 0, "invariant: all that was claimed has left, or been moved");
        self.source.pages.nodes.free(self.cpu, frames);
    }

    fn may_walk(&mut self) -> bool {
        if self.is_in_fault {
            self.source.background.notify();
        }
        !self.is_in_fault
    }

    fn take_young(&mut self, victim: &Victim) -> bool {
        self.page(victim.page).is_some_and(|page| {
            page.load().frame() == Some(victim.frame) && page.test_and_clear_young()
        })
    }

    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>) {
        for mapping in self.mappings.iter() {
            mapping.table.for_each_touched_leaf(|words| {
                let first = PageId { mapping: mapping.id, index: words.pages().start };
                leaves.push(LeafId::of(first));
            });
        }
    }

    fn read_leaf(
        &mut self,
        node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool {
        let mapping = self.mappings.get(leaf.mapping);
        let first = PageIndex(leaf.pages().start);
        let Some(words) = mapping.and_then(|mapping| mapping.table.leaf(first)) else {
            return false;
        };
        let node = self.source.pages.nodes.at(node.index());
        match read {
            LeafRead::Walk => {
                words.take_touched();
                read_words(words, &mut self.looked, words.pages(), node, |_| true, look);
                self.looked.take_out();
            }
            LeafRead::Around(pages) => {
                let pages = PageIndex(pages.start)..PageIndex(pages.end);
                let takes = |frame: FrameId| wants_around(self.source.pages.folios[frame].flags());
                read_words(words, &mut self.looked, pages, node, takes, look);
            }
        }
        true
    }
}

/// Reports the words of `range` for the node's frames to `look`. Clears the young bits of frames
/// selected by `takes`. Young pages of other nodes keep their bits, and the leaf its mark.
fn read_words<'m>(
    words: LeafRef<'m>,
    looked: &mut LookedAt<'m>,
    range: Range<PageIndex>,
    node: &Node,
    mut takes: impl FnMut(FrameId) -> bool,
    look: &mut LeafLook<'_>,
) {
    let mut leaves_young = false;
    let takes = |frame| {
        leaves_young |= !node.has(frame);
        node.has(frame) && takes(frame)
    };
    words.for_each_resident(looked, range, takes, |index, frame, was_young| match was_young {
        true => look.young(index, frame),
        false if node.has(frame) => look.resident(index),
        false => {}
    });
    if leaves_young {
        words.mark_touched();
    }
}
