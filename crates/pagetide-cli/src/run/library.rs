//! What is loaded into programs: it travels inside the command.

use std::path::PathBuf;

/// The library, built with this command.
static LIBRARY: &[u8] = pagetide_embed::cdylib!("pagetide_preload");

/// The library as a file.
///
/// # Errors
/// One sentence: there is no folder for it.
pub(crate) fn find() -> Result<PathBuf, String> {
    pagetide_run::find_library(LIBRARY)
}
