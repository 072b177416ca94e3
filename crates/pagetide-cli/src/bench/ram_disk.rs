//! A RAM disk: ext4 on a loop device on tmpfs. Needs root.
//!
//! ```text
//!   /dev/shm/pagetide-*/image   (tmpfs)  --mkfs.ext4, mount -o loop-->  /dev/shm/pagetide-*/mnt
//! ```
//!
//! Drop unmounts, which frees the loop device, then removes the folder.

use crate::dataset;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::terminal;
use pagetide_core::units::Bytes;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TMPFS: &str = "/dev/shm";
/// ext4's metadata and a reserve.
const OVERHEAD: Bytes = Bytes(160 << 20);

/// A mounted RAM disk, removed on drop.
#[derive(Debug)]
pub(super) struct RamDisk {
    mount: PathBuf,
    is_mounted: bool,
    // Dropped after the unmount.
    _folder: tempfile::TempDir,
}

impl RamDisk {
    /// Mounts a RAM disk, or explains the reason in a sentence.
    pub(super) fn with_room(len: Bytes, interrupt: &Interrupt) -> Result<RamDisk, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting a loop device needs root".to_owned());
        }
        let tmpfs = Path::new(TMPFS);
        if !machine::is_in_memory(tmpfs) {
            return Err(format!("{TMPFS} is not a tmpfs"));
        }
        let size = Bytes(len.0 + OVERHEAD.0);
        machine::check_disk(tmpfs, size).map_err(|failure| failure.to_string())?;
        let folder = dataset::make_folder(tmpfs).map_err(|failure| failure.to_string())?;
        let image = folder.path().join("image");
        let file = File::create(&image)
            .map_err(|error| format!("cannot make {}: {error}", image.display()))?;
        file.set_len(size.0)
            .map_err(|error| format!("cannot size {}: {error}", image.display()))?;
        let mount = folder.path().join("mnt");
        fs::create_dir(&mount)
            .map_err(|error| format!("cannot make {}: {error}", mount.display()))?;
        let mut disk = RamDisk { mount, is_mounted: false, _folder: folder };
        let eager = "lazy_itable_init=0,lazy_journal_init=0";
        call(Command::new("mkfs.ext4").args(["-q", "-F", "-E", eager]).arg(&image))?;
        if interrupt.is_set() {
            return Err("interrupted".to_owned());
        }
        call(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&disk.mount))?;
        disk.is_mounted = true;
        Ok(disk)
    }

    pub(super) fn path(&self) -> &Path {
        &self.mount
    }
}

impl Drop for RamDisk {
    fn drop(&mut self) {
        if !self.is_mounted {
            return;
        }
        let outcome = call(Command::new("umount").arg(&self.mount))
            .or_else(|_| call(Command::new("umount").arg("-l").arg(&self.mount)));
        if let Err(why) = outcome {
            terminal::note(&format!("could not unmount {}: {why}", self.mount.display()));
        }
    }
}

fn call(command: &mut Command) -> Result<(), String> {
    use std::os::unix::process::CommandExt;
    let name = command.get_program().to_string_lossy().into_owned();
    // In its own group, so that Ctrl-C cannot kill a mount half-way.
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
