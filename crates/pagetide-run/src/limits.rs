//! What this process may use, apart from what the program may.
//!
//! ```text
//!   before the program   files as long as the hard limit allows: the frames are one
//!   as it starts         its own limits, which it inherits
//!   after that           that again, and as many descriptors as there may be
//! ```
//!
//! How long the program may make files, its library looks at. A limit that is met here all the same
//! is an error of one call: the signal that comes with it does not end the run.
//!
//! Source: getrlimit(2).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use std::io;
use std::sync::Arc;

/// The limit on files that the program is to have.
#[derive(Debug)]
pub(crate) struct Kept(Rlimit);

/// Lets files of this process be as long as they may.
///
/// # Errors
/// Where the signal cannot be caught.
pub(crate) fn allow_long_files() -> io::Result<Kept> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let kept = Kept(getrlimit(Resource::Fsize));
    raise(Resource::Fsize);
    Ok(kept)
}

impl Kept {
    /// The program is about to start.
    pub(crate) fn give_back(&self) {
        // It was the limit a moment ago.
        let _ = setrlimit(Resource::Fsize, self.0);
    }
}

/// After the program has started: two descriptors for each open file and one for each thread under
/// us, and files as long as they may be.
pub(crate) fn raise_all() {
    raise(Resource::Nofile);
    raise(Resource::Fsize);
}

fn raise(resource: Resource) {
    let limit = getrlimit(resource);
    // Where even that is refused, opens and writes will say so.
    let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
}
