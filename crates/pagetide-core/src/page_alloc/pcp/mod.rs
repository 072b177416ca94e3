//! Per-CPU lists: frames that a CPU takes and returns without the zone's lock.
//!
//! **Problem.** The zone's lock is one cache line that all CPUs contend for.
//!
//! **Idea.** An empty list fetches a batch from the zone. A full list returns its coldest blocks. A
//! tuning (`pcp_tuning/`) sets the amounts.
//!
//! ```text
//!              free: head                    refill: tail (in the zone's order)
//!                 |   alloc: head               |
//!                 v   ^                         v
//!   list o0      [hot . . . . . . . . . . . cold]--> drain: tail
//!   list o1      [. . .]
//!   ...          5 lists: orders 0 to 3, and 9
//! ```
//!
//! **The seam.** A world wraps the zone in a lock and each `Pcp` in a try-lock, and makes two calls
//! to allocate and two to free. `None` from the first call requests the second:
//!
//! ```text
//! alloc:  match pcps[cpu].try_lock() {
//!             Some(pcp) => pcp.alloc(table, &request)
//!                             .or_else(|| pcp.refill(&mut zone.lock(), &request)),
//!             None      => zone.lock().alloc(&request),
//!         }
//! free:   match pcps[cpu].try_lock() {
//!             Some(pcp) => if let Some(drain) = pcp.free(table, frame, order, signals) {
//!                             pcp.drain(&mut zone.lock(), drain)
//!                          },
//!             None      => zone.lock().free(frame, order),
//!         }
//! tick:   once a second, for each CPU, in pieces of a batch: if let Some(drain) = pcp.tick() {
//!             pcp.drain(&mut zone.lock(), drain)
//!         }
//! ```
//!
//! `None` from both allocating calls means that the zone is at the request's level. The caller
//! wakes background reclaim, and tries a lower level, direct reclaim or [`Pcp::full_drain`] of
//! every CPU. Lock order: per-CPU list, then zone.
//!
//! **Data and invariants.** Blocks are linked through the shared [`FrameTable`]. The holder of a
//! list's lock owns its blocks. The hottest base frames are in an array (`pcp/hot.rs`), so that a
//! hit need not write a shared line. `count` is in frames, refills in blocks. Frames here are *not*
//! in `NR_FREE`. The struct is at most four cache lines.
//!
//! Unlike Linux, only a refill checks the watermarks.
//!
//! **Ignored.** Nodes: the lists hold frames of one zone.
//!
//! **Source.** The page allocators of Linux 6.6 and 6.18.

use super::frame_table::{FrameList, FrameState, FrameTable, Kind};
use super::pcp_limits::{PCP_ORDER_MAX, PcpLimits};
use super::pcp_tuning::{Gauge, PcpTuning, Tuning, ZoneSignals, ZoneView};
use super::zone::{AllocRequest, Zone};
use crate::ids::{FrameId, Order};
use hot::HotFrames;

/// Order of a huge page, 2 MiB, also kept on a list.
pub const PCP_HUGE_ORDER: Order = Order(9);

const SMALL_LISTS: usize = PCP_ORDER_MAX.0 as usize + 1;
const LISTS: usize = SMALL_LISTS + 1;
/// List of base frames, extended by the hot frames.
const HOT_LIST: usize = 0;

const _: () = assert!(size_of::<Pcp>() <= 256);

/// Frames to return to the zone. Pass this to [`Pcp::drain`] of the same `Pcp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the frames stay on the list until the drain is carried out"]
pub struct Drain(Work);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Frames to return, starting with this list.
    Frames { nr_frames: u32, first_list: u8 },
    /// A block without a list, to return directly.
    Bypass { frame: FrameId, order: Order },
}

impl Drain {
    /// Returns the frames to drain. Whole blocks may exceed this.
    pub const fn nr_frames(&self) -> u32 {
        match self.0 {
            Work::Frames { nr_frames, .. } => nr_frames,
            Work::Bypass { order, .. } => order.nr_frames(),
        }
    }

    /// Splits the drain into pieces of about `nr_frames_max` frames (not 0).
    pub fn pieces(self, nr_frames_max: u32) -> impl Iterator<Item = Drain> {
        let mut left = Some(self.0);
        core::iter::from_fn(move || {
            let piece = left.take()?;
            let Work::Frames { nr_frames, first_list } = piece else { return Some(Drain(piece)) };
            let now = nr_frames.min(nr_frames_max);
            if now < nr_frames {
                left = Some(Work::Frames { nr_frames: nr_frames - now, first_list });
            }
            Some(Drain(Work::Frames { nr_frames: now, first_list }))
        })
    }
}

/// The lists of one CPU for one zone.
///
/// # Concurrency
/// The world wraps this in a try-lock. Any CPU may take it, to drain.
#[derive(Debug)]
pub struct Pcp {
    lists: [FrameList; LISTS],
    /// Precede the head of [`HOT_LIST`].
    hot: HotFrames,
    pub(super) gauge: Gauge,
    pub(super) tuning: Tuning,
}

impl Pcp {
    /// Creates empty lists with the default tuning.
    pub fn new(limits: PcpLimits) -> Pcp {
        Pcp::with_tuning(limits, PcpTuning::default())
    }

    /// Creates empty lists.
    pub fn with_tuning(limits: PcpLimits, tuning: PcpTuning) -> Pcp {
        Pcp {
            lists: [FrameList::EMPTY; LISTS],
            hot: HotFrames::EMPTY,
            gauge: Gauge { count: 0, high: limits.high_min(), limits },
            tuning: Tuning::new(tuning),
        }
    }

    /// Sets limits after a resize or knob change. The next free drains excess frames.
    pub fn set_limits(&mut self, limits: PcpLimits) {
        self.gauge.limits = limits;
        self.tuning.follow_limits(&mut self.gauge);
    }

    /// Returns the frames on the lists.
    pub const fn count(&self) -> u32 {
        self.gauge.count
    }

    /// Returns the limit at which a free drains, in frames.
    pub const fn high(&self) -> u32 {
        self.gauge.high
    }

    /// Returns the frames per visit to the zone, unscaled.
    pub const fn batch(&self) -> u32 {
        self.gauge.limits.batch()
    }

    /// Takes a block from the lists. `None` requests [`Pcp::refill`].
    ///
    /// # Cost
    /// O(1). Touches no shared line but the frame's own word, read-only for hot frames.
    #[inline]
    pub fn alloc(&mut self, table: &FrameTable, request: &AllocRequest) -> Option<FrameId> {
        let list = list_of(request.order)?;
        self.tuning.note_alloc(&self.gauge, request.order.nr_frames());
        self.take_head(table, list, request.order)
    }

    /// Fetches blocks from the zone and takes one, after [`Pcp::alloc`] failed.
    ///
    /// Returns `None` below the watermark or without blocks. Orders without a list bypass the
    /// lists.
    pub fn refill(&mut self, zone: &mut Zone, request: &AllocRequest) -> Option<FrameId> {
        let Some(list) = list_of(request.order) else {
            return zone.alloc(request);
        };
        let order = request.order;
        // First, because a zone below HIGH must not grow the lists.
        if !zone.admit(request) {
            return None;
        }
        let pressure = zone.table().pressure.now();
        let nr_blocks = if pressure.is_starving() {
            1
        } else {
            self.tuning.blocks_to_fetch(&mut self.gauge, order, pressure.is_below_high())
        };
        let nr_taken = zone.take_bulk(request, nr_blocks, |table, frame| {
            self.lists[list].push_tail(table, frame, Kind::InPcp, order);
        });
        self.gauge.count += nr_taken << order.0;
        self.take_head(zone.table(), list, order)
    }

    /// Returns a block to the lists. Pass a [`Drain`] to [`Pcp::drain`], under the zone's lock.
    ///
    /// # Panics
    /// If the block was not allocated at that order: a double free, a foreign frame.
    ///
    /// # Cost
    /// O(1). Touches no shared line but the frame's own word.
    #[inline]
    pub fn free(
        &mut self,
        table: &FrameTable,
        frame: FrameId,
        order: Order,
        signals: ZoneSignals,
    ) -> Option<Drain> {
        if self.free_hit(table, frame, order, signals) {
            return None;
        }
        table.assert_allocated(frame, order);
        let Some(list) = list_of(order) else {
            return Some(Drain(Work::Bypass { frame, order }));
        };
        if list == HOT_LIST {
            self.keep_hot(table, frame);
        } else {
            self.lists[list].push_head(table, frame, Kind::InPcp, order);
        }
        self.gauge.count += order.nr_frames();
        let pressure = table.pressure.now();
        let zone = ZoneView { signals, below_high: pressure.is_below_high() };
        let mut nr_frames = self.tuning.frames_to_drain(&mut self.gauge, order, zone);
        if pressure.is_starving() {
            nr_frames = nr_frames.max(self.nr_frames_of_piece());
        }
        let first_list = list as u8;
        (nr_frames > 0).then_some(Drain(Work::Frames { nr_frames, first_list }))
    }

    /// Keeps a frame hot. Returns false, without a change, if another decision is due.
    #[inline]
    fn free_hit(
        &mut self,
        table: &FrameTable,
        frame: FrameId,
        order: Order,
        signals: ZoneSignals,
    ) -> bool {
        let is_quiet = table.pressure.now().is_none() && !signals.reclaim_active;
        let is_kept = order == Order::BASE
            && is_quiet
            && table.is_allocated(frame, Order::BASE)
            && !self.hot.contains(frame)
            && self.tuning.note_kept(&self.gauge);
        if is_kept {
            self.push_hot(table, frame);
            self.gauge.count += 1;
        }
        is_kept
    }

    /// Decays the limit. Call this about once a second.
    ///
    /// The drain may be long. Use [`Drain::pieces`].
    pub fn tick(&mut self) -> Option<Drain> {
        let nr_frames = self.tuning.tick(&mut self.gauge).min(self.gauge.count);
        (nr_frames > 0).then_some(Drain(Work::Frames { nr_frames, first_list: 0 }))
    }

    /// Returns the next piece to empty the lists, or `None` if empty. Release the zone's lock
    /// between pieces.
    pub fn full_drain(&self) -> Option<Drain> {
        let nr_frames = self.nr_frames_of_piece();
        (nr_frames > 0).then_some(Drain(Work::Frames { nr_frames, first_list: 0 }))
    }

    /// Returns blocks to the zone, coldest first, from the list last freed to, until enough frames
    /// are gone.
    pub fn drain(&mut self, zone: &mut Zone, drain: Drain) {
        let (nr_frames, first_list) = match drain.0 {
            Work::Bypass { frame, order } => return zone.free(frame, order),
            Work::Frames { nr_frames, first_list } => (nr_frames, usize::from(first_list)),
        };
        self.cool_all(zone.table());
        let mut lists = (first_list..LISTS).chain(0..first_list).peekable();
        let mut nr_sent = 0;
        zone.free_bulk(|table| {
            if nr_sent >= nr_frames {
                return None;
            }
            while lists.next_if(|&list| self.lists[list].is_empty()).is_some() {}
            let list = *lists.peek()?;
            let (frame, order) = self.take_tail(table, list)?;
            nr_sent += order.nr_frames();
            Some((frame, order))
        });
    }

    /// Checks every list.
    ///
    /// # Cost
    /// O(frames on the lists).
    pub fn validate(&self, table: &FrameTable) {
        let mut count = 0;
        for (index, list) in self.lists.iter().enumerate() {
            let order = order_of(index);
            list.validate(table, |frame| {
                assert_eq!(table.state(frame), FrameState::InPcp(order), "{frame} in list {index}");
                count += order.nr_frames();
            });
        }
        count += self.validate_hot(table);
        assert_eq!(self.gauge.count, count, "frames counted and listed");
    }

    fn nr_frames_of_piece(&self) -> u32 {
        self.gauge.count.min(self.gauge.batch_max())
    }

    #[inline]
    fn take_head(&mut self, table: &FrameTable, list: usize, order: Order) -> Option<FrameId> {
        let hottest = if list == HOT_LIST { self.hot.pop() } else { None };
        let frame = match hottest {
            Some(frame) => {
                // Still allocated, unless freed twice.
                table.assert_allocated(frame, order);
                frame
            }
            None => {
                let frame = self.lists[list].pop_head(table)?;
                table.set_allocated(frame, order);
                frame
            }
        };
        self.gauge.count -= order.nr_frames();
        Some(frame)
    }

    fn take_tail(&mut self, table: &FrameTable, list: usize) -> Option<(FrameId, Order)> {
        let frame = self.lists[list].tail()?;
        let order = order_of(list);
        self.lists[list].remove(table, frame);
        table.set_allocated(frame, order);
        self.gauge.count -= order.nr_frames();
        Some((frame, order))
    }
}

#[inline]
fn list_of(order: Order) -> Option<usize> {
    match order {
        order if order <= PCP_ORDER_MAX => Some(usize::from(order.0)),
        PCP_HUGE_ORDER => Some(SMALL_LISTS),
        _ => None,
    }
}

fn order_of(list: usize) -> Order {
    if list < SMALL_LISTS { Order(list as u8) } else { PCP_HUGE_ORDER }
}

mod hot;
#[cfg(test)]
mod tests;
