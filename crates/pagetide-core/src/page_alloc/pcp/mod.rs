//! Per-CPU lists: frames a CPU can take and return without the zone's lock.
//!
//! **Problem.** One lock per zone is one cache line that every allocation on every CPU fights over.
//!
//! **Idea.** Each CPU keeps some blocks of its own. Taking from an empty list fetches a batch from
//! the zone; returning to a full one sends the coldest back. How many at a time, and what full is,
//! a tuning says (`pcp_tuning/`).
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
//! **The seam.** A world wraps the zone in a lock and each `Pcp` in a try-lock, and makes the same
//! calls, two to allocate and two to free; no decision is its own. `None` from the first call is
//! what asks for the second:
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
//! `None` from the whole of `alloc` means that the zone is at the request's level: the caller wakes
//! background reclaim, and tries a lower level, direct reclaim or [`Pcp::full_drain`] of every CPU.
//! Lock order: per-CPU list, then zone.
//!
//! **Data and invariants.** Blocks are linked through the words of the shared [`FrameTable`]; those
//! on these lists belong to the holder of this list's lock. The hottest frames of the list that
//! most requests go to are not linked but kept in an array (`pcp/hot.rs`), so that a hit need not
//! write a line that other CPUs' frames are in. `count` is in frames; refills are in
//! blocks. Frames here are *not* free: the zone's `NR_FREE` left them out when they came. The
//! struct is at most 256 bytes, four cache lines.
//!
//! Ours: watermarks are checked when a list is refilled, not on every allocation as in Linux, so
//! that a hit reads no shared line; the frames were taken out of `NR_FREE` by a check like any
//! other.
//!
//! **Deliberately ignored.** Which node a frame is of: one zone's lists hold one zone's frames.
//!
//! Source: the page allocator specification, sections 3, 4 and 7.

use super::frame_table::{FrameList, FrameState, FrameTable, Kind};
use super::pcp_limits::{PCP_ORDER_MAX, PcpLimits};
use super::pcp_tuning::{Gauge, PcpTuning, Tuning, ZoneSignals, ZoneView};
use super::zone::{AllocRequest, Zone};
use crate::ids::{FrameId, Order};
use hot::HotFrames;

/// The order of a huge page, 2 MiB, whose blocks are also kept.
pub const PCP_HUGE_ORDER: Order = Order(9);

const SMALL_LISTS: usize = PCP_ORDER_MAX.0 as usize + 1;
const LISTS: usize = SMALL_LISTS + 1;
/// The list whose hottest frames are kept apart: base frames, what most requests are for.
const HOT_LIST: usize = 0;

const _: () = assert!(size_of::<Pcp>() <= 256);

/// Frames to return to the zone, as [`Pcp::free`] or [`Pcp::full_drain`] decided. Pass it to
/// [`Pcp::drain`] on the same `Pcp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the frames stay on the list until the drain is carried out"]
pub struct Drain(Work);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Send back this many frames, beginning with this list.
    Frames { nr_frames: u32, first_list: u8 },
    /// This block has no list: it goes straight to the zone.
    Bypass { frame: FrameId, order: Order },
}

impl Drain {
    /// Frames that will go back; whole blocks go, so a few more may.
    pub const fn nr_frames(&self) -> u32 {
        match self.0 {
            Work::Frames { nr_frames, .. } => nr_frames,
            Work::Bypass { order, .. } => order.nr_frames(),
        }
    }

    /// The drain in pieces of about `nr_frames_max` frames, so that the zone's lock can be let go
    /// in between. `nr_frames_max` is not 0.
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
/// No lock inside: the world wraps each in a try-lock. Any CPU may take it, to drain it.
#[derive(Debug)]
pub struct Pcp {
    lists: [FrameList; LISTS],
    /// Before the head of [`HOT_LIST`].
    hot: HotFrames,
    pub(super) gauge: Gauge,
    pub(super) tuning: Tuning,
}

impl Pcp {
    /// Empty lists with the default tuning.
    pub fn new(limits: PcpLimits) -> Pcp {
        Pcp::with_tuning(limits, PcpTuning::default())
    }

    /// Empty lists with this tuning.
    pub fn with_tuning(limits: PcpLimits, tuning: PcpTuning) -> Pcp {
        Pcp {
            lists: [FrameList::EMPTY; LISTS],
            hot: HotFrames::EMPTY,
            gauge: Gauge { count: 0, high: limits.high_min(), limits },
            tuning: Tuning::new(tuning),
        }
    }

    /// Follows the zone after a resize or a change of the knob. Frames over the new limit go with
    /// the next free.
    pub fn set_limits(&mut self, limits: PcpLimits) {
        self.gauge.limits = limits;
        self.tuning.follow_limits(&mut self.gauge);
    }

    /// Frames on the lists.
    pub const fn count(&self) -> u32 {
        self.gauge.count
    }

    /// Frames at which a free drains, now.
    pub const fn high(&self) -> u32 {
        self.gauge.high
    }

    /// Frames per visit to the zone, before scaling.
    pub const fn batch(&self) -> u32 {
        self.gauge.limits.batch()
    }

    /// Takes a block from this CPU's own lists; `None` asks for [`Pcp::refill`].
    ///
    /// # Cost
    /// O(1), no shared line but the frame's own word, which is only read when it is a hot one.
    #[inline]
    pub fn alloc(&mut self, table: &FrameTable, request: &AllocRequest) -> Option<FrameId> {
        let list = list_of(request.order)?;
        self.tuning.note_alloc(&self.gauge, request.order.nr_frames());
        self.take_head(table, list, request.order)
    }

    /// Fetches blocks from the zone and takes one, after [`Pcp::alloc`] found none.
    ///
    /// `None` when the watermarks or the zone's lists say no. Orders without a list take one block
    /// past the lists.
    pub fn refill(&mut self, zone: &mut Zone, request: &AllocRequest) -> Option<FrameId> {
        let Some(list) = list_of(request.order) else {
            return zone.alloc(request);
        };
        let order = request.order;
        // First, as it may find the zone under HIGH: this very refill is not to grow anything then.
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

    /// Returns a block to this CPU's lists. A [`Drain`] must be passed to [`Pcp::drain`], under the
    /// zone's lock.
    ///
    /// # Panics
    /// When the block was not handed out at that order: a double free, a foreign frame.
    ///
    /// # Cost
    /// O(1), no shared line but the frame's own word.
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

    /// Keeps a frame hot if nothing else has to be decided about it; `false`: nothing changed.
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

    /// Lets the limit decay. To be called about once a second; without it, limits and lists only
    /// follow events.
    ///
    /// The drain may be long: carry it out in [`Drain::pieces`].
    pub fn tick(&mut self) -> Option<Drain> {
        let nr_frames = self.tuning.tick(&mut self.gauge).min(self.gauge.count);
        (nr_frames > 0).then_some(Drain(Work::Frames { nr_frames, first_list: 0 }))
    }

    /// A piece of work towards empty lists, or `None` when they are. Loop with [`Pcp::drain`], and
    /// let go of the zone's lock in between: for a CPU gone offline, a failed direct reclaim, a
    /// shrink.
    pub fn full_drain(&self) -> Option<Drain> {
        let nr_frames = self.nr_frames_of_piece();
        (nr_frames > 0).then_some(Drain(Work::Frames { nr_frames, first_list: 0 }))
    }

    /// Returns blocks to the zone, the coldest of each list first: all of the list last freed to,
    /// then the next list, around, until at least the frames decided on are gone.
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

    /// Walks every list.
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

    /// All on the lists, or as many as one visit moves.
    fn nr_frames_of_piece(&self) -> u32 {
        self.gauge.count.min(self.gauge.batch_max())
    }

    #[inline]
    fn take_head(&mut self, table: &FrameTable, list: usize, order: Order) -> Option<FrameId> {
        let hottest = if list == HOT_LIST { self.hot.pop() } else { None };
        let frame = match hottest {
            Some(frame) => {
                // Its word says so still, or it was freed twice.
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

/// The list for blocks of this order, if there is one.
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
