//! A file system of a size of our own, where root runs the tests.

use std::path::Path;
use std::process::Command;

/// A mounted tmpfs, unmounted when dropped.
pub(crate) struct SmallTmpfs {
    dir: tempfile::TempDir,
}

impl SmallTmpfs {
    /// What `mount` said if it would not: usually that only root may.
    pub(crate) fn mount(nr_bytes: usize) -> Result<SmallTmpfs, String> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={nr_bytes}");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "pagetide-test"])
            .arg(dir.path())
            .output()
            .map_err(|error| format!("no mount command: {error}"))?;
        if output.status.success() {
            return Ok(SmallTmpfs { dir });
        }
        Err(format!("mount refused: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// Another size, for those who have it mounted.
    pub(crate) fn resize(&self, nr_bytes: usize) {
        let size = format!("remount,size={nr_bytes}");
        let status = Command::new("mount").args(["-o", &size]).arg(self.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "mounted, but not again");
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        // Lazily: a failing test may still have the file open.
        let status = Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be unmounted", self.dir.path().display());
        }
    }
}
