//! Groups: a page is charged before it gets a frame, and a group that is full gives pages.
//!
//! ```text
//!   charge --full--> a pass below that limit --freed--> charge again
//!                               |  nothing: empty the access logs once, then give up
//! ```
//!
//! When to give up, [`ChargePath`] says. A group may be removed between two calls: then a pass for
//! it frees nothing. Groups are of memory of one kind.

use super::pass::reclaim;
use super::{Driven, FIRST};
use crate::group::{ChargePath, ChargeStep, GroupPass, Groups, NodeLists, NodePass};
use crate::ids::GroupId;
use crate::lru::ReclaimKind;

/// Charges a page to the group that `named` names, or to the root if that group was removed, and
/// makes room below the limit that stands in the way. Returns the payer; `None` when there is no
/// room to be had. `named` is asked anew each time, as the answer may change.
pub fn charge_group<W: Driven>(world: &mut W, named: impl Fn() -> GroupId) -> Option<GroupId> {
    let mut path = ChargePath::new();
    loop {
        let full = match world.lend_lists(FIRST, |lists| charge_once(lists, named())) {
            Ok(payer) => return Some(payer),
            Err(full) => full,
        };
        world.count_pass(ReclaimKind::Direct);
        let for_limit = |groups: &mut Groups| Some(GroupPass::for_limit(groups, full));
        match path.after_pass(reclaim_group(world, full, for_limit).unwrap_or(0)) {
            ChargeStep::Charge => {}
            ChargeStep::DrainLogs => world.drain_logs(FIRST),
            ChargeStep::GiveUp => return None,
        }
    }
}

/// The payer, or the group that is full.
fn charge_once(lists: &mut NodeLists, named: GroupId) -> Result<GroupId, GroupId> {
    let Some(groups) = lists.groups_mut() else { return Ok(GroupId::ROOT) };
    let payer = if groups.tree().is_online(named) { named } else { GroupId::ROOT };
    groups.charge(payer).map(|()| payer).map_err(|full| full.group)
}

/// Takes pages from a group that uses more than it may, until it fits or nothing can be taken.
pub fn shrink_group<W: Driven>(world: &mut W, group: GroupId) {
    // What other CPUs have not told yet counts, too.
    world.drain_logs(FIRST);
    let above = |groups: &mut Groups| GroupPass::above_limit(groups, group);
    while reclaim_group(world, group, above).is_some_and(|nr_reclaimed| nr_reclaimed > 0) {}
}

/// Takes up to `nr_pages` from a group and those below it, on request; returns how many.
pub fn reclaim_from_group<W: Driven>(world: &mut W, group: GroupId, nr_pages: u64) -> u64 {
    world.drain_logs(FIRST);
    let start = |groups: &mut Groups| {
        (nr_pages > 0).then(|| GroupPass::proactive(groups, group, nr_pages, None))
    };
    reclaim_group(world, group, start).unwrap_or(0)
}

/// Makes a pass that begins with a group; `None` if that is gone, or has nothing to do.
fn reclaim_group<W: Driven>(
    world: &mut W,
    group: GroupId,
    start: impl FnOnce(&mut Groups) -> Option<GroupPass>,
) -> Option<u64> {
    let mut pass = world.lend_current(FIRST, |lists| {
        let groups = lists.groups_mut()?;
        if groups.tree().exists(group) { start(groups).map(NodePass::from) } else { None }
    })?;
    reclaim(world, FIRST, &mut pass);
    Some(pass.scan().reclaimed)
}
