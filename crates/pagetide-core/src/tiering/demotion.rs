//! Reclaim of a node that has slower memory below it: victims are moved there instead.
//!
//! **Problem.** What is too cold for fast memory is not too cold for memory. Evicting it would cost
//! a read of the store, where a move costs a copy; and pages without a store could not leave at
//! all.
//!
//! **Idea.** Demotion is a way out of a reclaim pass, not a pass of its own: victims are chosen as
//! always, and the world tries to move each claimed one before it writes or evicts anything.
//!
//! ```text
//!   victim --claimed--> a frame of the preferred node? --no--> of any slower one? --no-- leftover
//!                              | yes                              | yes                    |
//!                              v                                  v                        v
//!                       copy, Verdict::Demoted             the same           evicted, or kept
//! ```
//!
//! A fast node's background reclaim works up to the PROMO watermark: the room between HIGH and
//! PROMO is what promotions live on.
//!
//! **Data and invariants.** A [`Demotion`] is good for one batch of victims; it never names the
//! node itself or one that is as fast. No direct pass is made to demote, so that reclaim of one
//! node never waits for that of another.
//!
//! **Deliberately ignored.** Limits on which nodes a group may use.
//!
//! Source: the tiering specification, sections 6 and 7 (Linux 6.18).

use super::{BalancingMode, Topology};
use crate::ids::NodeId;
use crate::lru::ReclaimKind;
use crate::page_alloc::{WatermarkLevel, Zone};

/// Whether reclaim may demote: the kernel's `demotion_enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DemotionMode {
    /// Victims are evicted wherever they are, as by default in the kernel.
    #[default]
    Off,
    /// Victims go to slower memory while there is some below their node.
    On,
}

/// What becomes of a claimed victim that found no frame below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftover {
    /// It is evicted, or written back, as if there were no slower memory.
    Evict,
    /// It goes back to its list, refused as busy: memory was to be freed that others may need soon,
    /// and nothing is lost for that.
    Keep,
}

/// Where the victims of one batch may go.
#[derive(Clone, Copy, Debug)]
pub struct Demotion<'t> {
    preferred: NodeId,
    slower: &'t [NodeId],
}

impl<'t> Demotion<'t> {
    /// At which levels a frame is asked for at each target, in turn; nothing is reclaimed for it.
    const LEVELS: [WatermarkLevel; 2] = [WatermarkLevel::Low, WatermarkLevel::Min];

    /// Where victims of `node` may go, or `None`: they may not, or there is nothing slower. `seed`
    /// picks among equally near nodes; a new one for each batch spreads them.
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

    /// The node to try first. Where it is at its LOW watermark, its background reclaim is woken.
    pub const fn preferred(&self) -> NodeId {
        self.preferred
    }

    /// The nodes to try, in order: the preferred one, then all others that are slower, nearest
    /// first. None is reclaimed from directly.
    pub fn targets(&self) -> impl Iterator<Item = NodeId> {
        let preferred = self.preferred;
        let others = self.slower.iter().copied().filter(move |node| *node != preferred);
        core::iter::once(preferred).chain(others)
    }

    /// The first frame that `alloc` has for a victim: at each target down to each level in turn,
    /// the nearest target first.
    pub fn find_frame<F>(
        &self,
        mut alloc: impl FnMut(NodeId, WatermarkLevel) -> Option<F>,
    ) -> Option<F> {
        self.targets()
            .find_map(|node| Self::LEVELS.into_iter().find_map(|level| alloc(node, level)))
    }

    /// What a pass of this kind does with victims that no node had a frame for.
    pub const fn leftover(kind: ReclaimKind) -> Leftover {
        match kind {
            ReclaimKind::Background | ReclaimKind::Direct => Leftover::Evict,
            ReclaimKind::Proactive => Leftover::Keep,
        }
    }
}

/// The level up to which background reclaim of `node` frees frames.
pub fn background_level(topology: &Topology, node: NodeId, mode: BalancingMode) -> WatermarkLevel {
    let makes_room = mode == BalancingMode::Tiering && topology.is_top_tier(node);
    if makes_room { WatermarkLevel::Promo } else { WatermarkLevel::High }
}

/// Frames that a background pass over a node's zone should free; 0 when it is at `level` already.
///
/// `room_below` is how many frames the next slower node has for what moves there
/// ([`room_for_demoted`]): the pass frees no more while there is any, as the rest would be evicted.
/// 0 limits nothing, for nodes that demote nothing.
pub fn background_target(zone: &Zone, level: WatermarkLevel, room_below: u64) -> u64 {
    let target = zone.watermarks().mark(level).saturating_sub(zone.nr_free());
    if room_below > 0 { target.min(room_below) } else { target }
}

/// Frames that could be taken without reclaim for what is demoted: those above MIN.
pub fn room_for_demoted(zone: &Zone) -> u64 {
    zone.nr_free().saturating_sub(zone.watermarks().mark(WatermarkLevel::Min))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_alloc::ZoneConfig;
    use crate::tiering::{AbstractDistance, NodeDescription};
    use alloc::vec::Vec;

    /// Fast node 0; nodes 1 and 2 below it, equally near; node 3 below those.
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
