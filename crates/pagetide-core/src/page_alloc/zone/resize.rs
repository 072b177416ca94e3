//! Shrinking and growing a live zone.
//!
//! **Problem.** A page cache is told to use less memory, or more, while its frames are in use.
//!
//! **Idea.** The arena's address range stays reserved at its largest. A shrink takes *free* frames
//! out of service, whichever they are, and a growth brings the latest of them back: nothing in use
//! moves, and frame numbers never change.
//!
//! ```text
//!   [ managed: free | on per-CPU lists | handed out ][ offline ]
//!             '------------- take_free ------------------^
//!             ^------------- give_back ------------------'
//! ```
//!
//! **Data and invariants.** Offline blocks are on a list of their own, threaded through the frame
//! table. To shrink by n, the caller loops: reclaim, drain the per-CPU lists, take what is free.
//! Watermarks and per-CPU limits follow when the caller says so, once the new size is reached.
//!
//! **Deliberately ignored.** Which frames go: a caller that wants one contiguous end of the arena
//! free has to move contents, which is not for an allocator to decide.
//!
//! Source: our own; much simpler than memory hotplug.

use super::{Zone, watermark_inputs};
use crate::ids::{FrameId, Order};
use crate::page_alloc::Watermarks;
use crate::page_alloc::buddy::order_within;

impl Zone {
    /// Takes up to `nr_frames` free frames out of service, as few and large blocks as possible, and
    /// tells `visit` which. Returns how many; fewer means no more are free in the zone.
    ///
    /// Ignores the watermarks: the caller reclaims first, and then calls
    /// [`Zone::rederive_watermarks`].
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

    /// Puts up to `nr_frames` offline frames back in service, the last taken first, and tells
    /// `visit` which, before they can be taken. Returns how many; fewer means all are in
    /// service. [`Zone::rederive_watermarks`] comes next.
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

    /// Derives the watermarks from the frames now in service.
    pub fn rederive_watermarks(&mut self) {
        let inputs = watermark_inputs(&self.config, self.nr_managed());
        self.watermarks = Watermarks::for_zone(&inputs);
        self.look_at_high();
    }
}
