//! Small file systems to fill up: mounted by root, unmounted when dropped.

use super::PAGE;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tmpfs,
    /// Over a loop device on a file.
    Ext4,
}

pub(crate) struct SmallFs {
    mounted: PathBuf,
    _dir: tempfile::TempDir,
}

impl SmallFs {
    /// Fails with the message of `mount` or `mkfs`, usually missing root rights.
    pub(crate) fn mount(kind: Kind, nr_bytes: u64) -> Result<SmallFs, String> {
        let dir = tempfile::tempdir().unwrap();
        let (image, mounted) = (dir.path().join("image"), dir.path().join("mounted"));
        std::fs::create_dir(&mounted).unwrap();
        let mut mount = Command::new("mount");
        match kind {
            Kind::Tmpfs => {
                let size = format!("size={nr_bytes}");
                mount.args(["-t", "tmpfs", "-o", &size, "pagetide-test"]);
            }
            Kind::Ext4 => {
                std::fs::File::create(&image).unwrap().set_len(nr_bytes).unwrap();
                // All metadata is written and allocated at once.
                let own = ["-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"];
                run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).args(own).arg(&image))?;
                mount.args(["-t", "ext4", "-o", "loop"]).arg(&image);
            }
        }
        run(mount.arg(&mounted))?;
        Ok(SmallFs { mounted, _dir: dir })
    }

    pub(crate) fn resize(&self, nr_bytes: u64) {
        let size = format!("remount,size={nr_bytes}");
        run(Command::new("mount").args(["-o", &size]).arg(&self.mounted)).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mounted
    }

    /// Writes a file that leaves `nr_left` pages free. Returns its path.
    pub(crate) fn fill_up(&self, nr_left: usize) -> PathBuf {
        let path = self.path().join("ballast");
        let mut ballast = std::fs::File::create(&path).unwrap();
        let mut nr_bytes = 0;
        for nr_pages in [64, 1] {
            let piece = vec![1; nr_pages * PAGE];
            while ballast.write_all(&piece).and_then(|()| ballast.sync_data()).is_ok() {
                nr_bytes += piece.len() as u64;
            }
            ballast.set_len(nr_bytes).unwrap();
            ballast.seek(SeekFrom::End(0)).unwrap();
        }
        ballast.set_len(nr_bytes.checked_sub((nr_left * PAGE) as u64).unwrap()).unwrap();
        ballast.sync_all().unwrap();
        path
    }
}

/// Removes a ballast, and waits until most of its space is free: the kernel may still use its
/// pages, and other files take some space at once.
pub(crate) fn make_room(ballast: &Path) {
    let nr_bytes = std::fs::metadata(ballast).unwrap().len();
    let folder = ballast.parent().unwrap();
    let room = || {
        let told = rustix::fs::statvfs(folder).unwrap();
        told.f_bfree * told.f_frsize
    };
    let wanted = nr_bytes / 2;
    std::fs::remove_file(ballast).unwrap();
    while room() < wanted {
        std::thread::yield_now();
    }
}

impl Drop for SmallFs {
    fn drop(&mut self) {
        // Lazily: a failing test may still have the file open.
        let unmounted = run(Command::new("umount").arg("--lazy").arg(&self.mounted));
        if let Err(why) = unmounted {
            eprintln!("{} could not be unmounted: {why}", self.mounted.display());
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("no {name} command: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name} refused: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
