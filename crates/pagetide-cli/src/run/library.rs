//! The preload library, embedded in the command.

use std::path::PathBuf;

static LIBRARY: &[u8] = pagetide_embed::cdylib!("pagetide_preload");

/// Fails with one sentence if no folder can hold the library.
pub(crate) fn find() -> Result<PathBuf, String> {
    pagetide_run::find_library(LIBRARY)
}
