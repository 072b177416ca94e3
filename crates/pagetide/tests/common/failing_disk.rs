//! An ext4 on a disk with requests that fail on command. Needs root.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PAGE: usize = 4096;
/// Start of a page that can be made to fail.
const MAGIC: &[u8] = b"this page can fail";

pub(crate) struct FailingDisk {
    disk: Child,
    dir: tempfile::TempDir,
}

impl FailingDisk {
    pub(crate) fn mount() -> Result<FailingDisk, String> {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["fuse", "mounted"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("disk.py"), include_str!("failing_disk.py")).unwrap();
        std::fs::write(dir.path().join("control"), "").unwrap();
        let mut python = Command::new("python3");
        python.args(["disk.py", "fuse", "33554432", "control"]).current_dir(dir.path());
        let disk = python.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut made =
            FailingDisk { disk: disk.map_err(|error| format!("no python3: {error}"))?, dir };
        let mut line = String::new();
        let _ = BufReader::new(made.disk.stdout.take().unwrap()).read_line(&mut line);
        if line != "mounted\n" {
            return Err("the disk could not be made: it needs /dev/fuse, and root".to_owned());
        }
        let make = "PATH=$PATH:/usr/sbin:/sbin; mkfs.ext4 -q -m 0 -O ^has_journal fuse/disk && \
                    mount -o loop fuse/disk mounted";
        let output = Command::new("sh").args(["-c", make]).current_dir(made.dir.path()).output();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(made).ok_or_else(|| errors.trim().replace('\n', " "))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    /// Control file, with the operations that fail.
    pub(crate) fn control(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    /// Selects the operations that fail: "read" and "write".
    pub(crate) fn fail(&self, what: &str) {
        // Atomically, as the disk reads the file at any time.
        let next = self.dir.path().join("next");
        std::fs::write(&next, what).unwrap();
        std::fs::rename(next, self.control()).unwrap();
    }
}

/// Returns `nr_pages` pages that can fail, with contents chosen by `number`.
pub(crate) fn pages(nr_pages: usize, number: usize) -> Vec<u8> {
    let page = |index: usize| {
        let mut page = vec![(index + number) as u8; PAGE];
        page[..MAGIC.len()].copy_from_slice(MAGIC);
        page
    };
    (0..nr_pages).flat_map(page).collect()
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        let unmount = |folder: &Path| {
            // Lazily: a failing test may still have a file open. Folders may not be mounted yet.
            let _ = Command::new("umount").args(["--lazy", "--quiet"]).arg(folder).status();
        };
        self.fail("");
        unmount(&self.path());
        unmount(&self.dir.path().join("fuse"));
        // Ends by itself when the loop device releases the file system.
        if std::thread::panicking() {
            let _ = self.disk.kill();
        }
        let _ = self.disk.wait();
    }
}
