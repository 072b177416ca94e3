//! The system's own code in an error of the library.

use std::error::Error;
use std::io;

/// The system's own code, somewhere down an error's chain of causes: what a door to another
/// language, or a server of other processes, answers with. `None` where the system had no part in
/// it.
///
/// # Cost
/// A look at each cause.
pub fn find_errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        let system = error.downcast_ref::<io::Error>();
        if let Some(errno) = system.and_then(io::Error::raw_os_error) {
            return Some(errno);
        }
        // The source of one that holds another is that one's source, and not that one.
        let held = system.and_then(io::Error::get_ref);
        next = held.map(|held| held as &dyn Error).or_else(|| error.source());
    }
    None
}
