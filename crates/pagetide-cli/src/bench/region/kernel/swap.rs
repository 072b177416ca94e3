//! Temporary swap space on the bench's disk.

use pagetide_core::units::Bytes;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A swap file, disabled and removed on drop.
pub(in crate::bench) struct SwapSpace(PathBuf);

impl SwapSpace {
    /// Has priority over other swap space. The error is a sentence for the user.
    pub(in crate::bench) fn make(folder: &Path, len: Bytes) -> Result<SwapSpace, String> {
        let path = folder.join("swap");
        let refused = |error: std::io::Error| format!("no swap file {}: {error}", path.display());
        let file = File::create(&path).map_err(refused)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len.0)
            .map_err(|errno| refused(errno.into()))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(refused)?;
        file.sync_all().map_err(refused)?;
        call("mkswap", &[], &path)?;
        call("swapon", &["--priority", "32767"], &path)?;
        Ok(SwapSpace(path))
    }
}

impl Drop for SwapSpace {
    fn drop(&mut self) {
        if let Err(why) = call("swapoff", &[], &self.0) {
            crate::terminal::note(&format!("a swap file is left behind: {why}"));
        }
    }
}

fn call(program: &str, options: &[&str], path: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    let command = command.args(options).arg(path).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", path.display(), said.trim()))
}
