//! Frames set aside, in exchange for memory outside the arena.
//!
//! Problem: the bytes of several pages are rarely adjacent, and a program wants one slice. Idea: a
//! copy outside the arena, and as many frames without memory, so that the limit holds.

use crate::engine::frame_source::{FrameSource, NoFrame};
use crate::engine::mapping::Mapping;
use pagetide_core::ids::GroupId;
use pagetide_sys::{ClaimedFrame, current_cpu};
use std::sync::Arc;

/// Frames that are free again once this value is dropped.
pub(crate) struct Aside {
    source: Arc<FrameSource>,
    frames: Vec<(ClaimedFrame, GroupId)>,
}

impl FrameSource {
    /// Sets `nr` frames aside, charged to the mapping's group, and frees their memory. Evicts pages
    /// as a miss does.
    pub(crate) fn set_aside(
        self: &Arc<FrameSource>,
        mapping: &Mapping,
        nr: u64,
    ) -> Result<Aside, NoFrame> {
        if nr > self.pages.nodes.nr_frames() {
            return Err(NoFrame);
        }
        let mut aside = Aside { source: Arc::clone(self), frames: Vec::new() };
        for _ in 0..nr {
            let cpu = current_cpu();
            let payer = self.charge(cpu, mapping)?;
            let mut claimed = self.alloc_frame(cpu).inspect_err(|_| self.refund(payer))?;
            self.pages.arena.empty(&mut claimed);
            aside.frames.push((claimed, payer));
        }
        Ok(aside)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (claimed, payer) in self.frames.drain(..) {
            self.source.free_claimed(current_cpu(), claimed);
            self.source.refund(payer);
        }
    }
}
