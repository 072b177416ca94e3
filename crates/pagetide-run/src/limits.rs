//! Resource limits of this process, as opposed to the program's limits.
//!
//! ```text
//!   before the program   file length up to the hard limit (the frames are a file), and CPU time
//!   at its start         the inherited limits, which the program inherits too
//!   after the start      the raised limits again, and the maximum number of descriptors
//! ```
//!
//! A server that reached its CPU limit would end all programs of the run. A privileged process
//! raises its hard limits as well. The preload library enforces the program's limit on file length.
//! If this process still reaches such a limit, one call fails, and SIGXFSZ does not end the run.
//!
//! Source: getrlimit(2).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use std::io;
use std::sync::Arc;

/// Limits raised for this process but not for the program.
const OWN: [Resource; 2] = [Resource::Fsize, Resource::Cpu];

/// The inherited limits, in the order of [`OWN`].
#[derive(Debug)]
pub(crate) struct Kept([Rlimit; 2]);

/// Raises the limits on file length and CPU time.
///
/// # Errors
/// Fails if SIGXFSZ cannot be caught.
pub(crate) fn raise_own() -> io::Result<Kept> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let kept = Kept(OWN.map(getrlimit));
    OWN.into_iter().for_each(raise);
    Ok(kept)
}

impl Kept {
    /// Restores the inherited limits just before the program starts.
    pub(crate) fn give_back(&self) {
        for (resource, limit) in OWN.into_iter().zip(self.0) {
            // Cannot fail: this was the limit a moment ago.
            let _ = setrlimit(resource, limit);
        }
    }
}

/// Raises all limits after the program's start. The server needs two descriptors per open file and
/// one per program thread.
pub(crate) fn raise_all() {
    raise(Resource::Nofile);
    OWN.into_iter().for_each(raise);
}

fn raise(resource: Resource) {
    let limit = getrlimit(resource);
    let none = Rlimit { current: None, maximum: None };
    if OWN.contains(&resource) && setrlimit(resource, none).is_ok() {
        return;
    }
    // If refused too, later opens and writes fail with their own errors.
    let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
}
