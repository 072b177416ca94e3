//! Charges pages to groups.
//!
//! ```text
//!   charge --full--> a pass below that limit --freed--> charge again
//!                               |  nothing: drain the access logs once, then fail
//! ```
//!
//! [`ChargePath`] decides when to give up. Groups need one memory tier.

use super::pass::reclaim;
use super::{Driven, FIRST};
use crate::group::{ChargePath, ChargeStep, GroupPass, Groups, NodeLists, NodePass};
use crate::ids::GroupId;
use crate::lru::ReclaimKind;

/// Charges a page to the group from `named` (called for each attempt), or to the root if removed.
/// Reclaims below a full limit. Returns the payer, or `None` without room.
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

fn charge_once(lists: &mut NodeLists, named: GroupId) -> Result<GroupId, GroupId> {
    let Some(groups) = lists.groups_mut() else { return Ok(GroupId::ROOT) };
    let payer = if groups.tree().is_online(named) { named } else { GroupId::ROOT };
    groups.charge(payer).map(|()| payer).map_err(|full| full.group)
}

/// Reclaims from a group above its limit.
pub fn shrink_group<W: Driven>(world: &mut W, group: GroupId) {
    // Include the unreported accesses of other CPUs.
    world.drain_logs(FIRST);
    let above = |groups: &mut Groups| GroupPass::above_limit(groups, group);
    while reclaim_group(world, group, above).is_some_and(|nr_reclaimed| nr_reclaimed > 0) {}
}

/// Reclaims up to `nr_pages` from a group and its descendants. Returns the number.
pub fn reclaim_from_group<W: Driven>(world: &mut W, group: GroupId, nr_pages: u64) -> u64 {
    world.drain_logs(FIRST);
    let start = |groups: &mut Groups| {
        (nr_pages > 0).then(|| GroupPass::proactive(groups, group, nr_pages, None))
    };
    reclaim_group(world, group, start).unwrap_or(0)
}

/// Runs a pass for a group. Returns `None` without a group or a pass.
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
