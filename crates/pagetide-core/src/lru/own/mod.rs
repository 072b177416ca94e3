//! Pagetide's own policy: without settings, near the best design on each kind of trace.
//!
//! **Problem.** Each published policy loses by tens of points on some traces: LRU and S3-FIFO on a
//! loop, LIRS on a shifting working set, W-TinyLFU on recency.
//!
//! **Idea.** Three parts, measured in `docs/policies.md`, and a waiting list.
//!
//! ```text
//!   accesses --+--> page_clock   distinct pages since an access            the unit of distances
//!              |        |
//!              |        v
//!              +--> engine       probation | main, judged by instants      chooses victims
//!              |        ^
//!              |        | setting: probation's share and order, hits needed for main
//!              +--> selection    the engine four times, in miniature       chooses the setting
//!
//!   readahead ---> unread         waits for the first access, which is then judged
//! ```
//!
//! A hit writes nothing shared. It counts in the folio's descriptor, up to three. The first hit in
//! each epoch, and every hit of a sampled page, also goes to the CPU's access log.
//!
//! **Data and invariants.** The token of a shadow entry holds:
//!
//! ```text
//!   36              16 15            0
//!   +-----------------+--------------+
//!   | evictions so far| epoch of the |      evictions in units of 1/4096 memory: they wrap
//!   | (21 bits)       | last access  |      after 512 memories, and two memories count
//!   +-----------------+--------------+
//! ```
//!
//! A refaulted page that enters a full main displaces main's oldest folio, which becomes the next
//! victim of probation.
//!
//! The folios held when reclaim begins define the memory size. If it changes by more than an
//! eighth, epochs follow and the miniatures restart. Folios that cannot be evicted (unevictable, or
//! anonymous without swap) are on a separate list.
//!
//! Ignored: swappiness below 200, priorities (a pass scans until it has a victim or has seen all),
//! and guards until their page is a victim. Sources: each part names its own. The combination is
//! our own.

mod ages;
mod capability;
mod contest;
mod engine;
mod expansion;
mod explain;
mod listing;
mod page_clock;
mod sampled_pages;
mod selection;
mod stamp;
#[cfg(test)]
mod tests;
mod tuning;
mod unread;
mod victims;

pub use selection::{SelectionSummary, SettingChange, SettingSummary};
pub use tuning::{NR_SETTINGS, ProbationOrder, Setting, Tuning};
pub use victims::PagetideCursor;

use super::capability::Capabilities;
use super::{
    AccessPath, AccessRule, Context, LOG_LEN, LruConfig, LruPolicy, LruvecId, Mechanism, PassPlan,
    Progress, PutBack, Refusal, ShadowEntry, Switches, TOKEN_BITS,
};
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::{ReclaimKind, Scan, Victims};
use alloc::boxed::Box;
use engine::{Engine, PARTS_A_PAGE, Past, Place, Stamp};
use listing::keeps;
use page_clock::Epoch;
use selection::Selection;
use unread::Unread;

const EPOCH_BITS: u32 = 16;
const AGE_BITS: u32 = TOKEN_BITS - EPOCH_BITS;
/// Evictions in a shadow entry are counted in this part of memory.
const EVICTION_UNITS: u32 = 4096;
/// A miss without a free frame evicts 1/256 of memory, up to the kernel's batch. A pass costs
/// several times as much as a victim.
const BATCH_PARTS: u32 = 256;
const BATCH_MAX: u32 = 32;
/// A call that reads several pages must not evict its first ones.
const BATCH_PARTS_OF_PROBATION: u32 = 8;
/// After four memories without an eviction, hits are not logged.
const EPOCHS_LOGGED: u32 = 64;

/// Minimum swappiness at which anonymous folios go first.
const ANON_FIRST: u8 = 200;

/// Pagetide's own policy.
pub struct Pagetide {
    id: LruvecId,
    /// Flags of folios that cannot be evicted.
    keeps: Flags,
    is_anon_first: bool,
    /// File folios spared since the last anonymous folio.
    nr_files_spared: u32,
    tuning: Tuning,
    switches: Switches,
    engine: Engine,
    selection: Option<Box<Selection>>,
    unread: Unread,
    kept: FolioList,
    evicted: u64,
    epochs_without_eviction: u32,
    /// After the first eviction or demotion.
    is_full: bool,
    /// In parts of a page, as a power of two.
    unit_shift: u32,
}

impl Pagetide {
    pub(super) fn tuned(config: &LruConfig, tuning: Tuning) -> Pagetide {
        let nr_frames = config.nr_frames.max(1);
        let mut policy = Pagetide {
            id: config.id,
            keeps: keeps(config),
            is_anon_first: config.swappiness >= ANON_FIRST,
            nr_files_spared: 0,
            tuning,
            switches: config.switches,
            engine: Engine::new(nr_frames, &tuning, config.switches),
            selection: None,
            unread: Unread::default(),
            kept: FolioList::new(),
            evicted: 0,
            epochs_without_eviction: 0,
            is_full: false,
            unit_shift: (PARTS_A_PAGE * (nr_frames / EVICTION_UNITS).max(1)).ilog2(),
        };
        policy.start_selection(0);
        policy
    }

    fn set_capacity(&mut self, capacity: u32) {
        self.engine.set_capacity(capacity);
        let chosen = self.selection.as_ref().map_or(0, |it| it.chosen());
        self.start_selection(chosen);
    }

    fn start_selection(&mut self, chosen: usize) {
        self.selection = self.switches.has(Mechanism::SettingSelection).then(|| {
            let capacity = self.engine.capacity();
            Box::new(Selection::new(capacity, chosen, &self.tuning, self.switches))
        });
    }

    /// Stops watching the page if it is no longer sampled.
    fn sample(&mut self, folios: &Folios, frame: FrameId) {
        let page = folios[frame].page();
        match &mut self.selection {
            Some(selection) if selection.samples(page) => {
                if let Some(setting) = selection.access(page) {
                    self.engine.set_setting(self.tuning.settings[setting]);
                }
            }
            _ => {
                folios[frame].set_hits(folios[frame].hits().with_watched(false));
            }
        }
    }

    /// Hits are logged again, unless nothing was evicted for long.
    #[cold]
    fn end_epoch(&mut self, folios: &Folios) {
        let engine = &mut self.engine;
        self.unread.end_epoch(folios, |frame| engine.push_old(folios, frame));
        self.epochs_without_eviction += 1;
        if self.epochs_without_eviction <= EPOCHS_LOGGED {
            folios.end_tick();
        }
    }

    /// Restarts the logging of hits.
    fn note_departure(&mut self, folios: &Folios) {
        self.is_full = true;
        if self.epochs_without_eviction > EPOCHS_LOGGED {
            folios.end_tick();
        }
        self.epochs_without_eviction = 0;
    }

    fn pack(&self, epoch: Epoch) -> u64 {
        self.evicted >> self.unit_shift << EPOCH_BITS | u64::from(epoch)
    }

    fn unpack(&self, shadow: ShadowEntry) -> Past {
        let now = self.evicted >> self.unit_shift;
        let units = now.wrapping_sub(shadow.token() >> EPOCH_BITS) & ((1 << AGE_BITS) - 1);
        Past { evicted: units << self.unit_shift, epoch: shadow.token() as Epoch }
    }
}

impl LruPolicy for Pagetide {
    type Cursor = PagetideCursor;

    const ACCESS: AccessRule = AccessRule::CountAndLog;

    fn new(config: &LruConfig) -> Pagetide {
        Pagetide::tuned(config, Tuning::default())
    }

    fn plan_pass(&self, _kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        PassPlan::page_by_page(target.or_else(|| Some(self.batch())))
    }

    #[inline(always)]
    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let folio = &cx.folios[frame];
        let flags = folio.flags();
        if flags.any(Flags::ANON) {
            self.nr_files_spared = 0;
        }
        let is_sampled = self.selection.as_ref().is_some_and(|it| it.samples(folio.page()));
        let hits = folio.hits().with_watched(is_sampled);
        if flags.any(Flags::PREFETCHED) {
            folio.set_hits(hits.with_tick(0));
            return self.add_unread(cx.folios, frame);
        }
        folio.set_hits(hits.with_tick(cx.folios.tick()));
        let stamp = Stamp::of_flagged(folio, flags);
        let last = flags.any(Flags::WORKINGSET).then_some(stamp.epoch);
        let is_main =
            flags.any(Flags::ACTIVE) || last.is_some() && self.gets_main(cx, flags, stamp);
        if flags.any(Flags::ACTIVE) {
            folio.clear(Flags::ACTIVE);
        }
        let place = match is_main {
            true => Place::Main,
            false => self.engine.place_of_new(!self.is_full),
        };
        let before = self.engine.clock.now();
        let epoch = self.engine.touch(last, stamp.weight());
        if self.engine.clock.now() != before {
            self.end_epoch(cx.folios);
        }
        let stamp = Stamp { epoch, place, ..stamp };
        stamp.put(folio);
        self.settle(cx.folios, frame, flags, stamp);
        if is_sampled {
            self.sample(cx.folios, frame);
        }
    }

    #[inline(always)]
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let folio = &cx.folios[frame];
        let mut may_move = true;
        if folio.flags().link() > 0 {
            may_move = self.touch_unlisted(cx, frame);
        }
        let has_ended = self.engine.hit(folio);
        if may_move {
            self.engine.move_hit(cx.folios, frame);
        }
        if has_ended {
            self.end_epoch(cx.folios);
        }
        if folio.hits().is_watched() {
            self.sample(cx.folios, frame);
        }
    }

    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        if cx.flags(frame).link() == 0 {
            self.engine.move_to_old_end(cx.folios, frame);
        }
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.unlink(cx.folios, frame);
    }

    #[inline]
    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        let folio = &cx.folios[frame];
        let flags = folio.set(Flags::WORKINGSET);
        cx.count_refault(flags.page_type());
        let past = self.unpack(shadow);
        let mut stamp = Stamp { epoch: past.epoch, ..Stamp::of_flagged(folio, flags) };
        stamp.place = match self.engine.is_history(past, stamp.parts()) {
            true => Place::Main,
            false => Place::Probation,
        };
        if !kind.is_ahead() {
            if self.gets_main(cx, flags, stamp) {
                folio.set(Flags::ACTIVE);
            } else {
                stamp.place = Place::Probation;
            }
        }
        stamp.put(folio);
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut PagetideCursor,
        victims: &mut Victims,
    ) -> Progress {
        let wanted = scan.nr_victims_wanted();
        if wanted > 0 {
            self.begin_batch(cursor);
        }
        while victims.len() < wanted {
            let Some(looked) = self.look(cx.folios, cursor) else { break };
            scan.count_scanned(1);
            if let Some(frame) = looked
                && self.may_go(cx, scan, cursor, frame)
            {
                victims.take(cx.folios, frame);
            }
        }
        Progress::of_batch(victims)
    }

    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut PagetideCursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        let stamp = Stamp::of(&cx.folios[frame]);
        let is_main = stamp.place == Place::Main;
        let shadow = ShadowEntry::new(self.pack(stamp.epoch), self.id, is_main);
        self.evicted += u64::from(stamp.weight());
        self.note_departure(cx.folios);
        Some(shadow)
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut PagetideCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        self.relist(cx.folios, frame);
        match refusal {
            Refusal::Young => self.young(cx, frame),
            Refusal::Dirty => {
                cx.folios[frame].set(Flags::RECLAIM);
            }
            Refusal::Busy => {}
        }
        PutBack::Listed
    }

    fn nr_folios(&self) -> u64 {
        [self.engine.len(), self.unread.len(), self.kept.len()].map(u64::from).iter().sum()
    }

    fn validate(&self, folios: &Folios) {
        self.engine.validate(folios);
        self.kept.validate(folios);
        self.unread.validate(folios);
        let listed = self.engine.iter(folios).map(|frame| (frame, Some(0)));
        let kept = self.kept.iter(folios).map(|frame| (frame, Some(1)));
        let unread = self.unread.iter(folios).map(|frame| (frame, None));
        for (frame, link) in listed.chain(kept).chain(unread) {
            let flags = folios[frame].flags();
            assert!(flags.any(Flags::ON_LIST), "{frame} listed but not flagged");
            let is_there = link.map_or(Unread::has(flags.link()), |link| flags.link() == link);
            assert!(is_there, "{frame} is on another list");
        }
        if let Some(selection) = &self.selection {
            selection.validate();
        }
    }
}
