//! The kernel's readahead limit of a device.
//!
//! ```text
//!   /sys/class/bdi/254:0/read_ahead_kb                 a disk, or a file system without one
//!   /sys/dev/block/254:1/../queue/read_ahead_kb        a partition
//! ```
//!
//! Source: Linux Documentation/ABI/stable/sysfs-block, `read_ahead_kb`.

use pagetide_core::units::Bytes;
use std::path::Path;

/// Returns the kernel's readahead limit of `device`, a number as in stat(2), or `None` if unknown.
/// Reads a file.
pub fn read_ahead_of(device: u64) -> Option<Bytes> {
    read_ahead_in(Path::new("/sys"), device)
}

fn read_ahead_in(system: &Path, device: u64) -> Option<Bytes> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let whole = system.join("class/bdi").join(&number).join("read_ahead_kb");
    let part = system.join("dev/block").join(&number).join("../queue/read_ahead_kb");
    let text = std::fs::read_to_string(whole).or_else(|_| std::fs::read_to_string(part)).ok()?;
    Some(Bytes(text.trim().parse::<u64>().ok()?.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn disks_and_their_parts_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        create_dir_all(at("class/bdi/254:0")).expect("a folder");
        write(at("class/bdi/254:0/read_ahead_kb"), "8192\n").expect("a file");
        for path in ["class/block/vda/vda1", "class/block/vda/queue", "dev/block"] {
            create_dir_all(at(path)).expect("a folder");
        }
        write(at("class/block/vda/queue/read_ahead_kb"), "128\n").expect("a file");
        std::os::unix::fs::symlink("../../class/block/vda/vda1", at("dev/block/254:1"))
            .expect("a link");
        let ask = |minor| read_ahead_in(folder.path(), rustix::fs::makedev(254, minor));
        assert_eq!(ask(0), Some(Bytes(8 << 20)));
        assert_eq!(ask(1), Some(Bytes(128 << 10)));
        assert_eq!(ask(2), None);
    }
}
