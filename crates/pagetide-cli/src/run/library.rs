//! The preload library, embedded in the command.

use std::path::PathBuf;

static LIBRARY: &[u8] = pagetide_embed::cdylib!("pagetide_preload");

/// Returns the path of the library as a file.
///
/// # Errors
/// Fails with one sentence if no folder can hold the library.
pub(crate) fn find() -> Result<PathBuf, String> {
    pagetide_run::find_library(LIBRARY)
}
