//! What this process may use, apart from what the program may.
//!
//! ```text
//!   before the program   files as long as the hard limit allows: the frames are one; CPU time
//!   as it starts         its own limits, which it inherits
//!   after that           those again, and as many descriptors as there may be
//! ```
//!
//! A limit on CPU time is each process's own, and the server's would end all programs of the run at
//! the limit of one. A privileged process raises its hard limits as well.
//!
//! How long the program may make files, its library looks at. A limit that is met here all the same
//! is an error of one call: the signal that comes with it does not end the run.
//!
//! Source: getrlimit(2).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use std::io;
use std::sync::Arc;

/// Limits that the program is to have, and this process is not.
const OWN: [Resource; 2] = [Resource::Fsize, Resource::Cpu];

/// The limits as this process found them, in the order of [`OWN`].
#[derive(Debug)]
pub(crate) struct Kept([Rlimit; 2]);

/// Lets files of this process be as long as they may, and the process use all CPU time that it may.
///
/// # Errors
/// Where the signal cannot be caught.
pub(crate) fn raise_own() -> io::Result<Kept> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let kept = Kept(OWN.map(getrlimit));
    OWN.into_iter().for_each(raise);
    Ok(kept)
}

impl Kept {
    /// The program is about to start.
    pub(crate) fn give_back(&self) {
        for (resource, limit) in OWN.into_iter().zip(self.0) {
            // It was the limit a moment ago.
            let _ = setrlimit(resource, limit);
        }
    }
}

/// After the program has started: two descriptors for each open file and one for each thread under
/// us, and files as long as they may be.
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
    // Where even that is refused, opens and writes will say so.
    let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
}
