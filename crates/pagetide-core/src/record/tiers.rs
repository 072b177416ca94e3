//! Tiers in the record header.
//!
//! **Problem.** Decisions depend on the nodes and on tiering's settings. **Idea.** The header ends
//! with both.
//!
//! ```text
//!   [ nodes: 1 ] [ switches: 1 ] [ mode: 1 ] [ demotion: 1 ] [ knobs: 9 x 4 ] [ began: 8 ]
//!   [ frames: 4, most: 4, distance: 4 ] x nodes, fastest first      absent without nodes
//! ```
//!
//! **Ignored.** Technology and real latency of the memory. Compressed copies of evicted pages.

use super::RecordError;
use crate::tiering::{
    AbstractDistance, BalancingMode, DemotionMode, TieringKnobs, TieringSwitches, Topology,
    TopologyError,
};
use crate::units::Millis;
use alloc::vec::Vec;

/// Maximum nodes in a record.
const NODES_MAX: usize = 8;
const SETTINGS_BYTES: usize = 3 + NR_KNOBS * 4 + 8;
const NODE_BYTES: usize = 12;
const NR_KNOBS: usize = 9;

/// One node of a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedNode {
    /// Frames.
    pub nr_frames: u32,
    /// Maximum frames, the size of the tables.
    pub nr_frames_max: u32,
    /// Distance.
    pub distance: AbstractDistance,
}

const NO_NODE: RecordedNode =
    RecordedNode { nr_frames: 0, nr_frames_max: 0, distance: AbstractDistance(0) };

/// Nodes of a recorded run, at most eight, fastest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedNodes {
    /// Unused entries have no frames.
    all: [RecordedNode; NODES_MAX],
    len: usize,
}

impl RecordedNodes {
    /// Copies these nodes.
    pub fn new(nodes: &[RecordedNode]) -> RecordedNodes {
        let mut all = [NO_NODE; NODES_MAX];
        all[..nodes.len()].copy_from_slice(nodes);
        RecordedNodes { all, len: nodes.len() }
    }

    /// Returns the nodes.
    pub fn as_slice(&self) -> &[RecordedNode] {
        &self.all[..self.len]
    }
}

/// Tiers of a recorded run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedTiers {
    /// Nodes.
    pub nodes: RecordedNodes,
    /// Purpose of hint faults.
    pub mode: BalancingMode,
    /// Demotion mode.
    pub demotion: DemotionMode,
    /// Active tiering mechanisms.
    pub switches: TieringSwitches,
    /// Tiering knobs.
    pub knobs: TieringKnobs,
    /// Clock at the start of the run.
    pub began: Millis,
}

impl RecordedTiers {
    /// Creates tiers with Linux's settings.
    pub fn new(nodes: RecordedNodes) -> RecordedTiers {
        RecordedTiers {
            nodes,
            mode: BalancingMode::Tiering,
            demotion: DemotionMode::On,
            switches: TieringSwitches::default(),
            knobs: TieringKnobs::default(),
            began: Millis(0),
        }
    }

    /// Returns the nodes as a chain.
    ///
    /// # Errors
    /// As [`Topology::chain`].
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        let nodes = self.nodes.as_slice().iter();
        Topology::chain(nodes.map(|node| (node.distance, node.nr_frames.into())))
    }
}

pub(super) fn append(tiers: Option<&RecordedTiers>, out: &mut Vec<u8>) {
    let Some(tiers) = tiers else { return out.push(0) };
    out.push(tiers.nodes.len as u8);
    let TieringSwitches { hot_selection, rate_limit, auto_threshold, auto } = tiers.switches;
    let switches = [hot_selection, rate_limit, auto_threshold, auto];
    let bits = switches.iter().rev().fold(0, |bits, is_on| bits << 1 | u8::from(*is_on));
    out.extend_from_slice(&[bits, tiers.mode as u8, u8::from(tiers.demotion == DemotionMode::On)]);
    for number in numbers_of(&tiers.knobs) {
        let number = u32::try_from(number).expect("knobs were checked where they came from");
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&tiers.began.0.to_le_bytes());
    for node in tiers.nodes.as_slice() {
        out.extend_from_slice(&node.nr_frames.to_le_bytes());
        out.extend_from_slice(&node.nr_frames_max.to_le_bytes());
        out.extend_from_slice(&node.distance.0.to_le_bytes());
    }
}

/// Reads the output of [`append`] at `start`. Returns tiers and end offset.
pub(super) fn decode(
    bytes: &[u8],
    start: usize,
) -> Result<(Option<RecordedTiers>, usize), RecordError> {
    let up_to =
        |end: usize| bytes.get(start..end).ok_or(RecordError::HeaderShort { needed_bytes: end });
    let nr_nodes = usize::from(up_to(start + 1)?[0]);
    match nr_nodes {
        0 => return Ok((None, start + 1)),
        1..=NODES_MAX => {}
        _ => return Err(RecordError::BadTiers),
    }
    let end = start + 1 + SETTINGS_BYTES + nr_nodes * NODE_BYTES;
    let mut input = Input(&up_to(end)?[1..]);
    let [bits, mode, demotion] = input.take();
    let is_on = |nth: u8| bits >> nth & 1 == 1;
    let knobs = core::array::from_fn(|_| u32::from_le_bytes(input.take()).into());
    let began = Millis(u64::from_le_bytes(input.take()));
    let nodes = nodes_of(&mut input, nr_nodes);
    let mode = match mode {
        0 => BalancingMode::Off,
        2 => BalancingMode::Tiering,
        _ => return Err(RecordError::BadTiers),
    };
    let demotion = match demotion {
        0 => DemotionMode::Off,
        1 => DemotionMode::On,
        _ => return Err(RecordError::BadTiers),
    };
    let switches = TieringSwitches {
        hot_selection: is_on(0),
        rate_limit: is_on(1),
        auto_threshold: is_on(2),
        auto: is_on(3),
    };
    let tiers = RecordedTiers { nodes, mode, demotion, switches, knobs: knobs_of(knobs), began };
    let is_sane = bits < 16 && tiers.knobs.check().is_ok();
    if is_sane { Ok((Some(tiers), end)) } else { Err(RecordError::BadTiers) }
}

fn nodes_of(input: &mut Input<'_>, nr_nodes: usize) -> RecordedNodes {
    let mut number = || u32::from_le_bytes(input.take());
    let all = core::array::from_fn(|nth| match nth < nr_nodes {
        true => RecordedNode {
            nr_frames: number(),
            nr_frames_max: number(),
            distance: AbstractDistance(number()),
        },
        false => NO_NODE,
    });
    RecordedNodes { all, len: nr_nodes }
}

fn numbers_of(knobs: &TieringKnobs) -> [u64; NR_KNOBS] {
    let TieringKnobs {
        scan_period_min,
        scan_period_max,
        scan_pages,
        scan_rate_max,
        scan_delay,
        hot_threshold,
        promote_rate_frames,
        rate_window,
        free_space_frames,
    } = *knobs;
    [
        scan_period_min.0,
        scan_period_max.0,
        scan_pages,
        scan_rate_max,
        scan_delay.0,
        hot_threshold.0,
        promote_rate_frames,
        rate_window.0,
        free_space_frames,
    ]
}

fn knobs_of(numbers: [u64; NR_KNOBS]) -> TieringKnobs {
    let [min, max, scan_pages, scan_rate_max, delay, threshold, rate, window, free] = numbers;
    TieringKnobs {
        scan_period_min: Millis(min),
        scan_period_max: Millis(max),
        scan_pages,
        scan_rate_max,
        scan_delay: Millis(delay),
        hot_threshold: Millis(threshold),
        promote_rate_frames: rate,
        rate_window: Millis(window),
        free_space_frames: free,
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_first_chunk().expect("the length was checked");
        self.0 = rest;
        *first
    }
}
