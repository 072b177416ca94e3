//! Demotion: reclaim moves victims to slower memory.
//!
//! **Problem.** Evicting a cool page costs a later read, a move only a copy. Pages without a store
//! cannot be evicted at all.
//!
//! **Idea.** The world tries to move each claimed victim before it writes or evicts.
//!
//! ```text
//!   victim --claimed--> a frame of the preferred node? --no--> of any slower one? --no-- leftover
//!                              | yes                              | yes                    |
//!                              v                                  v                        v
//!                       copy, Verdict::Demoted             the same           evicted, or kept
//! ```
//!
//! A fast node's background reclaim frees up to PROMO, as room for promotions.
//!
//! **Data and invariants.** A [`Demotion`] lasts for one batch and names only slower nodes.
//! Demotion starts no direct pass, so reclaim of a node never waits for another node.
//!
//! **Ignored.** Limits on the nodes of a group.
//!
//! **Source.** Linux 6.18's memory tiers and demotion.

use super::{BalancingMode, Topology};
use crate::ids::NodeId;
use crate::lru::ReclaimKind;
use crate::page_alloc::{WatermarkLevel, Zone};

/// Demotion switch, the kernel's `demotion_enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DemotionMode {
    /// Victims are evicted. The kernel's default.
    #[default]
    Off,
    /// Victims move to slower memory, if any.
    On,
}

/// Handling of a victim without a frame below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftover {
    /// Evict or write back, as without slower memory.
    Evict,
    /// Return to the list, refused as busy.
    Keep,
}

/// Targets for the victims of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Demotion<'t> {
    preferred: NodeId,
    slower: &'t [NodeId],
}

impl<'t> Demotion<'t> {
    /// Levels to try at each target, without reclaim.
    const LEVELS: [WatermarkLevel; 2] = [WatermarkLevel::Low, WatermarkLevel::Min];

    /// Returns the targets for victims of `node`, if any. A new `seed` per batch spreads equally
    /// near nodes.
    pub fn of(
        topology: &'t Topology,
        node: NodeId,
        mode: DemotionMode,
        seed: u64,
    ) -> Option<Demotion<'t>> {
        if mode == DemotionMode::Off {
            return None;
        }
        let preferred = topology.choose_demotion_target(node, seed)?;
        Some(Demotion { preferred, slower: topology.demotion_fallback(node) })
    }

    /// Returns the first target. At its LOW watermark, wake its background reclaim.
    pub const fn preferred(&self) -> NodeId {
        self.preferred
    }

    /// Returns the targets in order: the preferred node, then other slower nodes, nearest first.
    pub fn targets(&self) -> impl Iterator<Item = NodeId> {
        let preferred = self.preferred;
        let others = self.slower.iter().copied().filter(move |node| *node != preferred);
        core::iter::once(preferred).chain(others)
    }

    /// Returns the first frame from `alloc`: targets in order, each at both levels.
    pub fn find_frame<F>(
        &self,
        mut alloc: impl FnMut(NodeId, WatermarkLevel) -> Option<F>,
    ) -> Option<F> {
        self.targets()
            .find_map(|node| Self::LEVELS.into_iter().find_map(|level| alloc(node, level)))
    }

    /// Returns the handling without a target frame.
    pub const fn leftover(kind: ReclaimKind) -> Leftover {
        match kind {
            ReclaimKind::Background | ReclaimKind::Direct => Leftover::Evict,
            ReclaimKind::Proactive => Leftover::Keep,
        }
    }
}

/// Returns the target level of background reclaim of `node`.
pub fn background_level(topology: &Topology, node: NodeId, mode: BalancingMode) -> WatermarkLevel {
    let makes_room = mode == BalancingMode::Tiering && topology.is_top_tier(node);
    if makes_room { WatermarkLevel::Promo } else { WatermarkLevel::High }
}

/// Returns the frames to free by a background pass.
///
/// `room_below` ([`room_for_demoted`]) limits the target, because more victims would be evicted. 0
/// is no limit.
pub fn background_target(zone: &Zone, level: WatermarkLevel, room_below: u64) -> u64 {
    let target = zone.watermarks().mark(level).saturating_sub(zone.nr_free());
    if room_below > 0 { target.min(room_below) } else { target }
}

/// Returns the frames above MIN, available to demoted pages.
pub fn room_for_demoted(zone: &Zone) -> u64 {
    zone.nr_free().saturating_sub(zone.watermarks().mark(WatermarkLevel::Min))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_alloc::ZoneConfig;
    use crate::tiering::{AbstractDistance, NodeDescription};
    use alloc::vec::Vec;

    /// Node 0 fast, 1 and 2 slower and equally near, 3 slowest.
    fn three_tiers() -> Topology {
        let node = |distance, has_cpus| NodeDescription {
            distance: AbstractDistance(distance),
            has_cpus,
            nr_frames: 100,
        };
        let nodes = [node(576, true), node(2000, false), node(2000, false), node(4000, false)];
        Topology::new(&nodes, &[10; 16]).unwrap()
    }

    #[test]
    fn the_preferred_node_is_tried_first_and_every_slower_one_once() {
        let topology = three_tiers();
        for seed in 0..20 {
            let demotion = Demotion::of(&topology, NodeId(0), DemotionMode::On, seed).unwrap();
            let preferred = demotion.preferred();
            let targets: Vec<NodeId> = demotion.targets().collect();
            let other = NodeId(3 - preferred.0);
            assert_eq!(targets, [preferred, other, NodeId(3)], "seed {seed}");
        }
    }

    #[test]
    fn nothing_is_demoted_from_the_slowest_node_or_while_it_is_off() {
        let topology = three_tiers();
        let of = |node, mode| Demotion::of(&topology, NodeId(node), mode, 0).is_some();
        assert!(of(0, DemotionMode::On) && of(1, DemotionMode::On));
        assert!(!of(3, DemotionMode::On));
        assert!(!of(0, DemotionMode::Off));
        assert_eq!(DemotionMode::default(), DemotionMode::Off);
    }

    #[test]
    fn only_requests_keep_what_they_cannot_demote() {
        assert_eq!(Demotion::leftover(ReclaimKind::Background), Leftover::Evict);
        assert_eq!(Demotion::leftover(ReclaimKind::Direct), Leftover::Evict);
        assert_eq!(Demotion::leftover(ReclaimKind::Proactive), Leftover::Keep);
    }

    #[test]
    fn a_pass_frees_what_the_level_wants_and_the_node_below_takes() {
        let whole = Zone::new(ZoneConfig::with_frames(4096));
        for level in [WatermarkLevel::High, WatermarkLevel::Promo] {
            assert_eq!(background_target(&whole, level, 0), 0, "all is free");
        }
        assert_eq!(
            room_for_demoted(&whole),
            whole.nr_free() - whole.watermarks().mark(WatermarkLevel::Min)
        );
        let none = Zone::new(ZoneConfig { nr_online: 0, ..ZoneConfig::with_frames(4096) });
        let promo = none.watermarks().mark(WatermarkLevel::Promo);
        let target = |room| background_target(&none, WatermarkLevel::Promo, room);
        assert_eq!((target(0), room_for_demoted(&none)), (promo, 0));
        assert_eq!((target(1), target(1 << 20)), (1.min(promo), promo));
    }

    #[test]
    fn fast_nodes_make_room_for_promotions() {
        let topology = three_tiers();
        let level = |node, mode| background_level(&topology, NodeId(node), mode);
        assert_eq!(level(0, BalancingMode::Tiering), WatermarkLevel::Promo);
        assert_eq!(level(0, BalancingMode::Off), WatermarkLevel::High);
        assert_eq!(level(1, BalancingMode::Tiering), WatermarkLevel::High);
    }
}
