//! Shrinking and growing a live zone.
//!
//! **Problem.** A page cache gets less memory, or more, while frames are in use.
//!
//! **Idea.** The arena keeps its largest address range. A shrink takes *free* frames out of
//! service, and growth brings the latest back. Nothing in use moves.
//!
//! ```text
//!   [ managed: free | on per-CPU lists | handed out ][ offline ]
//!             '------------- take_free ------------------^
//!             ^------------- give_back ------------------'
//! ```
//!
//! **Data and invariants.** Offline blocks have their own list. To shrink, the caller loops:
//! reclaim, drain the per-CPU lists, take free frames. Then it updates watermarks and per-CPU
//! limits.
//!
//! **Ignored.** Choice of frames. **Source.** Original. Simpler than memory hotplug.

use super::{Zone, watermark_inputs};
use crate::ids::{FrameId, Order};
use crate::page_alloc::Watermarks;
use crate::page_alloc::buddy::order_within;

impl Zone {
    /// Takes up to `nr_frames` free frames out of service, in the largest blocks, and passes each
    /// to `visit`. Returns the number.
    ///
    /// Ignores the watermarks: reclaim first. Call [`Zone::rederive_watermarks`] afterwards.
    pub fn take_free(&mut self, nr_frames: u32, mut visit: impl FnMut(FrameId, Order)) -> u32 {
        let mut nr_taken = 0;
        let mut order = Order::MAX;
        while nr_taken < nr_frames {
            order = order.min(order_within(nr_frames - nr_taken));
            match self.buddy.take(order) {
                Some(frame) => {
                    self.buddy.put_offline(frame, order);
                    visit(frame, order);
                    nr_taken += order.nr_frames();
                }
                None if order > Order::BASE => order = Order(order.0 - 1),
                None => break,
            }
        }
        self.note_fall();
        nr_taken
    }

    /// Returns up to `nr_frames` offline frames to service, last taken first, after `visit`.
    /// Returns the number. Call [`Zone::rederive_watermarks`] afterwards.
    pub fn give_back(&mut self, nr_frames: u32, mut visit: impl FnMut(FrameId, Order)) -> u32 {
        let mut nr_given = 0;
        while nr_given < nr_frames {
            let Some((frame, order)) = self.buddy.take_offline(nr_frames - nr_given) else { break };
            visit(frame, order);
            self.buddy.put(frame, order);
            nr_given += order.nr_frames();
        }
        self.look_at_high();
        nr_given
    }

    /// Derives the watermarks from the frames in service.
    pub fn rederive_watermarks(&mut self) {
        let inputs = watermark_inputs(&self.config, self.nr_managed());
        self.watermarks = Watermarks::for_zone(&inputs);
        self.look_at_high();
    }
}
