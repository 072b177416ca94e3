//! The background threads.
//!
//! ```text
//!   reclaimer    frees frames ahead of need, ticks
//!   flusher      writes dirty pages
//!   prefetcher   reads pages ahead
//!   sizer        adapts the memory limit, if enabled
//!   warmer       rereads the resident set of an earlier run, if requested
//!   collapser    makes huge pages of memory shared with other processes
//! ```
//!
//! Each thread waits for its signal and calls a function of the engine. Without them, callers do
//! the same work.

mod collapser;
mod flusher;
mod prefetcher;
mod reclaimer;
mod sizer;
mod warmer;

use crate::engine::Engine;
use crate::engine::devices::Devices;
use crate::engine::errors::BuildError;
use crate::engine::flush::scope::OnLocked;
use crate::engine::limits::Limits;
use crate::memory::locks::lock;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

type WorkerLoop = fn(&Arc<Engine>);

pub(crate) struct CacheShared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) limits: Limits,
    pub(crate) devices: Devices,
    workers: Mutex<Vec<JoinHandle<()>>>,
    has_warmer: AtomicBool,
}

impl CacheShared {
    pub(crate) fn start(engine: Engine, limits: &Limits) -> Result<Arc<CacheShared>, BuildError> {
        let shared = Arc::new(CacheShared {
            engine: Arc::new(engine),
            limits: *limits,
            devices: Devices::default(),
            workers: Mutex::default(),
            has_warmer: AtomicBool::new(false),
        });
        if limits.has_workers {
            let loops: [(&str, WorkerLoop); 3] = [
                ("pagetide-reclaim", reclaimer::run),
                ("pagetide-flush", flusher::run),
                ("pagetide-ahead", prefetcher::run),
            ];
            let has_blocks = shared.engine.pages.arena.nr_to_collapse() > 0;
            let sizer = shared.engine.sizer.as_ref();
            let sizer = sizer.map(|_| ("pagetide-size", sizer::run as WorkerLoop));
            let collapser = has_blocks.then_some(("pagetide-huge", collapser::run as WorkerLoop));
            for (name, work) in loops.into_iter().chain(collapser).chain(sizer) {
                shared.spawn(name, work).map_err(BuildError::Thread)?;
            }
        }
        Ok(shared)
    }

    pub(crate) fn start_warmer(&self) -> io::Result<()> {
        if self.limits.has_workers && !self.has_warmer.swap(true, Relaxed) {
            self.spawn("pagetide-warm", warmer::run)?;
        }
        Ok(())
    }

    fn spawn(&self, name: &str, work: WorkerLoop) -> io::Result<()> {
        let engine = Arc::clone(&self.engine);
        let thread = std::thread::Builder::new().name(name.into());
        lock(&self.workers).push(thread.spawn(move || work(&engine))?);
        Ok(())
    }
}

impl Drop for CacheShared {
    fn drop(&mut self) {
        let engine = &self.engine;
        engine.flusher.stop();
        engine.source.background.stop();
        engine.collapser.stop();
        engine.warmer.signal.stop();
        engine.sizer.iter().for_each(|sizer| sizer.signal.stop());
        engine.prefetcher.signal.stop();
        for worker in lock(&self.workers).drain(..) {
            // A panic has printed a message. The rest is written below all the same.
            let _ = worker.join();
        }
        engine.flusher.flush_all(OnLocked::End);
        if let Some(recorder) = &engine.pages.recorder {
            recorder.finish();
        }
    }
}
