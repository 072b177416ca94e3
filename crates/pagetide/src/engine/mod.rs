//! The engine: the state that handles and worker threads share.
//!
//! ```text
//!   prefetcher, filler --> frame source --> flusher --> pages --> memory
//! ```
//!
//! Each part owns its data, and uses the parts to its right.
//!
//! Lock order, outermost first (take none to the left while holding one to the right):
//!
//! ```text
//!   sizes of tiers < mapping.resize < mapping.flush < agreement < page lock (tried)
//!   page lock < agreement, registry (read)
//!   directory of groups                                         < registry (read)
//!   registry (read) < access log < lists < promotion < zone
//!   registry (read) < lists < pages locked by processes
//!   registry (read) < lists < per-CPU list < zone
//!   leaves, held for a few lines each: dirty index, error state, readahead state, recorder,
//!   sample of reuse, owned pins
//! ```
//!
//! An allocation under a page lock may reclaim, but reclaim only *tries* the locks of other pages,
//! with the lists locked. No thread waits for a page while it holds a lock that another page's user
//! may need.

pub(crate) mod agreement;
pub(crate) mod delay;
pub(crate) mod devices;
pub(crate) mod dirty;
pub(crate) mod errors;
pub(crate) mod fill;
pub(crate) mod flush;
pub(crate) mod foreign;
pub(crate) mod frame_source;
pub(crate) mod groups;
pub(crate) mod held;
pub(crate) mod in_flight;
pub(crate) mod leaving;
pub(crate) mod limits;
pub(crate) mod locked;
mod longest;
pub(crate) mod mapping;
pub(crate) mod open;
pub(crate) mod owned_pins;
pub(crate) mod pages;
pub(crate) mod prefetch;
pub(crate) mod registry;
pub(crate) mod resident;
pub(crate) mod sizer;
pub(crate) mod staging;
pub(crate) mod stats;
pub(crate) mod swap;
pub(crate) mod tiering;
pub(crate) mod validate;
pub(crate) mod warm;
pub(crate) mod write_errors;
pub(crate) mod written;

use crate::engine::fill::Filler;
use crate::engine::flush::Flusher;
use crate::engine::frame_source::FrameSource;
use crate::engine::pages::Pages;
use crate::engine::prefetch::Prefetcher;
use crate::engine::registry::Registry;
use crate::engine::sizer::Sizer;
use crate::engine::warm::Warmer;
use crate::memory::locks::{Signal, lock};
use pagetide_sys::{FrameLender, UffdError};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

pub(crate) struct Engine {
    pub(crate) pages: Arc<Pages>,
    pub(crate) mappings: Arc<Registry>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) source: Arc<FrameSource>,
    pub(crate) filler: Filler,
    pub(crate) prefetcher: Prefetcher,
    pub(crate) warmer: Warmer,
    pub(crate) sizer: Option<Sizer>,
    pub(crate) collapser: Signal,
    /// Lends the memory of frames to regions. Created with the first region.
    pub(crate) lender: Mutex<Option<Arc<FrameLender>>>,
    /// All files opened so far bypass the kernel's page cache.
    pub(crate) direct_io: AtomicBool,
    pub(crate) io_uring: bool,
}

impl Engine {
    /// Creates the lender on first use.
    pub(crate) fn lender(&self) -> Result<Arc<FrameLender>, UffdError> {
        let mut lender = lock(&self.lender);
        if lender.is_none() {
            *lender = Some(Arc::new(FrameLender::new(&self.pages.arena)?));
        }
        Ok(Arc::clone(lender.as_ref().expect("made just now")))
    }
}
