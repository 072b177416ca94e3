//! Resizing a running cache.
//!
//! ```text
//!   grow       frames out of service --> the zone: at once
//!   shrink     free frames --> out of service, returned to the system
//!              too few?  free frames below, demote, evict the rest, write dirty pages
//!              many?     gather whole blocks first (`gather`)
//! ```
//!
//! Problem: the frames hold pages in use. Idea: only free frames leave, so that a shrink is reclaim
//! by core's driver, and no thread is stopped. Tiers shrink before any tier grows, so that the sum
//! never exceeds the larger of both sizes.
//!
//! Ignored: the compressed tier, which keeps its size.

use crate::engine::errors::ResizeError;
use crate::engine::flush::scope::OnLocked;
use crate::engine::frame_source::FrameSource;
use crate::engine::frame_source::reclaim::Reclaimer;
use crate::engine::limits::Limits;
use crate::memory::locks::lock;
use pagetide_core::driver::{self, Resizes};
use pagetide_core::ids::NodeId;
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::units::Bytes;
use pagetide_sys::current_cpu;
use std::ops::RangeInclusive;

#[derive(Clone, Copy, Default, Debug)]
struct GivenUp {
    wanted: u64,
    given_up: u64,
}

impl GivenUp {
    fn add(&mut self, other: GivenUp) {
        self.wanted += other.wanted;
        self.given_up += other.given_up;
    }

    fn done(self) -> Result<(), ResizeError> {
        let GivenUp { wanted, given_up } = self;
        if given_up < wanted { Err(ResizeError::Busy { given_up, wanted }) } else { Ok(()) }
    }
}

fn check(memory: Bytes, range: &RangeInclusive<u32>) -> Result<u32, ResizeError> {
    let [least, most] = [range.start(), range.end()].map(|end| Bytes::from_pages((*end).into()));
    if memory < least || memory > most {
        return Err(ResizeError::OutOfRange { given: memory, least, most });
    }
    Ok(memory.whole_pages() as u32)
}

impl FrameSource {
    pub(crate) fn resize(&self, memory: Bytes, limits: &Limits) -> Result<(), ResizeError> {
        let Some(tiering) = &self.tiering else {
            let least = Bytes(MEMORY_MIN).whole_pages() as u32;
            let nr_frames = check(memory, &(least..=limits.nr_frames_max))?;
            self.check_promised(memory)?;
            return self.resize_nodes(&[nr_frames], limits);
        };
        let sizes = lock(&tiering.sizes);
        let nr_frames = check(memory, &sizes.range_of_all())?;
        self.resize_nodes(&sizes.share(nr_frames), limits)
    }

    pub(crate) fn resize_tier(
        &self,
        nth: usize,
        memory: Bytes,
        limits: &Limits,
    ) -> Result<(), ResizeError> {
        if nth >= self.pages.nodes.len() {
            return Err(ResizeError::NoSuchTier { given: nth, tiers: self.pages.nodes.len() });
        }
        let Some(tiering) = &self.tiering else { return self.resize(memory, limits) };
        let mut sizes = lock(&tiering.sizes);
        let mut wanted = self.node_sizes();
        wanted[nth] = check(memory, &sizes.range_of(nth, &wanted))?;
        let resized = self.resize_nodes(&wanted, limits);
        sizes.set_shares(self.node_sizes());
        resized
    }

    fn node_sizes(&self) -> Vec<u32> {
        self.pages.nodes.iter().map(|node| node.frames.nr_managed()).collect()
    }

    /// Resizes each node. Shrinks the fastest first, which demotes its pages.
    fn resize_nodes(&self, sizes: &[u32], limits: &Limits) -> Result<(), ResizeError> {
        let nr_frames: u32 = sizes.iter().sum();
        span!("resize", frames = nr_frames);
        self.pages.dirty.set_limits(limits.dirty_limits(nr_frames));
        self.pages.reuse.resize(nr_frames);
        let mut all = GivenUp::default();
        for (nth, size) in sizes.iter().enumerate() {
            if *size < self.pages.nodes.at(nth).frames.nr_managed() {
                all.add(self.shrink(nth, *size));
            }
        }
        // A failed shrink must not be followed by growth, or the limit is exceeded.
        all.done()?;
        for (nth, size) in sizes.iter().enumerate() {
            self.pages.nodes.at(nth).frames.resize(*size, Vec::new());
        }
        Ok(())
    }

    fn shrink(&self, nth: usize, nr_frames: u32) -> GivenUp {
        let frames = &self.pages.nodes.at(nth).frames;
        let was = frames.nr_managed();
        let now = frames.resize(nr_frames, Vec::new());
        let mut world = self.reclaimer(current_cpu());
        let now = driver::shrink_node(&mut world, NodeId(nth as u8), now, nr_frames);
        GivenUp { wanted: (was - nr_frames).into(), given_up: was.saturating_sub(now).into() }
    }
}

impl Resizes for Reclaimer<'_> {
    fn take_out_of_service(&mut self, node: NodeId, nr_frames: u32) -> u32 {
        let frames = &self.source.pages.nodes.at(node.index()).frames;
        let nr_surplus = frames.nr_managed().saturating_sub(nr_frames);
        frames.resize(nr_frames, self.source.take_gathered(node.index(), nr_surplus))
    }

    fn write_back(&mut self) {
        self.source.flusher.flush_all(OnLocked::Skip);
        self.source.flusher.flush_for_room();
    }
}
