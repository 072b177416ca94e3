//! Executes one piece of work on one list, with its account.
//!
//! ```text
//!   begin_piece   tail -> victims, out to the world      inactive: to try   active: to look at
//!   list_with     back, one by one, on the list of the folio's flags
//!   end_piece     charges folios scanned in vain to the type
//! ```
//!
//! Invariant: when a function returns, every folio taken off a list is a victim or on a list.

use super::balance::{ModeInputs, ScanMode, fractions, scan_targets};
use super::design::Design;
use super::{Activity, ListId, Round, TwoLists, TwoListsCursor, after_trial};
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::refault_distance::ListPages;
use crate::lru::{Context, DEF_PRIORITY, Mechanism, Refusal, Scan, Switches, Victims};
use crate::vmstat::Counter;

#[derive(Debug)]
pub(super) struct Piece {
    list: ListId,
    nr_scanned: u64,
    reclaimed_before: u64,
    pub(super) nr_rotated: u64,
}

impl<D: Design> TwoLists<D> {
    pub(super) fn sizes(&self) -> ListPages {
        self.lists.sizes()
    }

    pub(super) fn begin_round(&mut self, cx: &Context<'_>, scan: &Scan) -> Round {
        let sizes = self.sizes();
        let read = self.design.read(cx, sizes);
        if scan.priority == DEF_PRIORITY && !scan.forced {
            self.cost.take_counted(read.total());
        }
        let may_deactivate = self.permission(cx, scan);
        let mode = ScanMode::choose(&ModeInputs {
            sizes: read,
            can_swap: self.can_swap,
            swappiness: self.swappiness,
            priority: scan.priority,
            is_group: !scan.group.is_global,
            is_file_tiny: false,
            may_deactivate,
        });
        let shares = fractions(self.swappiness, &self.cost);
        let sizes = sizes.map(|size| scan.group.share.unprotected(size));
        Round::new(scan_targets(&sizes, scan.priority, mode, shares), may_deactivate)
    }

    pub(super) fn permission(&self, cx: &Context<'_>, scan: &Scan) -> [bool; 2] {
        let read = self.design.read(cx, self.sizes());
        PageType::ALL
            .map(|page_type| scan.forced || self.design.may_deactivate(cx, &read, page_type))
    }

    pub(super) fn charge(&mut self, page_type: PageType, nr_io: u64, nr_rotated: u64) {
        if self.switches.has(Mechanism::CostModel) {
            let nr_listed = self.sizes().total();
            self.cost.note(page_type, nr_io, nr_rotated, nr_listed);
        }
    }

    fn take<const PREFETCH: bool>(
        &mut self,
        cx: &mut Context<'_>,
        list: ListId,
        nr: u64,
        victims: &mut Victims,
    ) -> u64 {
        for nr_scanned in 0..nr {
            let Some(frame) = self.lists.pop_tail::<PREFETCH>(cx.folios, list) else {
                return nr_scanned;
            };
            if !cx.flags(frame).any(Flags::UNEVICTABLE) {
                victims.take(cx.folios, frame);
            } else if list.activity == Activity::Active {
                self.lists.push_head(cx.folios, frame);
            } else {
                self.list_with(cx, frame, |flags| after_trial(flags, Refusal::Busy));
            }
        }
        nr
    }

    pub(super) fn begin_piece(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        (list, nr): (ListId, u64),
        victims: &mut Victims,
    ) -> Piece {
        let nr_scanned = if self.switches.has(Mechanism::ScanPrefetch) {
            self.take::<true>(cx, list, nr, victims)
        } else {
            self.take::<false>(cx, list, nr, victims)
        };
        match list.activity {
            Activity::Inactive => scan.count_scanned(nr_scanned),
            Activity::Active => {
                cx.vmstat.add(Counter::Pgrefill, nr_scanned);
                self.design.shrank_active(list.page_type, nr_scanned);
            }
        }
        Piece { list, nr_scanned, reclaimed_before: scan.reclaimed, nr_rotated: 0 }
    }

    pub(super) fn end_piece(&mut self, scan: &Scan, cursor: &mut TwoListsCursor) {
        let Some(piece) = cursor.piece.take() else { return };
        let nr_reclaimed = scan.reclaimed - piece.reclaimed_before;
        let nr_rotated = match piece.list.activity {
            Activity::Inactive => piece.nr_scanned - nr_reclaimed,
            Activity::Active => piece.nr_rotated,
        };
        self.charge(piece.list.page_type, 0, nr_rotated);
        if let Some(round) = &mut cursor.round {
            round.count_reclaimed(nr_reclaimed);
        }
    }

    /// Changes the flags of an unlisted folio and adds it at the young end of the list they name.
    pub(super) fn list_with(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        change: impl Fn(Flags) -> Flags,
    ) {
        let before = cx.folios[frame].update(|now| Some(change(now)));
        let (was_active, is_active) =
            (before.any(Flags::ACTIVE), change(before).any(Flags::ACTIVE));
        if is_active {
            self.design.put_back_active();
        }
        match (was_active, is_active) {
            (false, true) => cx.vmstat.count(Counter::Pgactivate),
            (true, false) => cx.vmstat.count(Counter::Pgdeactivate),
            _ => {}
        }
        self.lists.push_head(cx.folios, frame);
    }

    pub(super) fn is_anon_low(&self, cx: &Context<'_>) -> bool {
        let read = self.design.read(cx, self.sizes());
        self.design.is_low(&read, PageType::Anon)
    }
}

/// Hides EXEC from `judge` if executable folios are not protected.
pub(super) fn protecting(
    switches: Switches,
    judge: impl Fn(Flags) -> Flags,
) -> impl Fn(Flags) -> Flags {
    let is_on = switches.has(Mechanism::ExecProtection);
    let hidden = if is_on { Flags::NONE } else { Flags::EXEC };
    move |flags| {
        let judged = judge(flags.without(hidden));
        if flags.any(hidden) { judged.with(hidden) } else { judged }
    }
}
