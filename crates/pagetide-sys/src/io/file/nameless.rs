//! Files without a name, invisible to other programs and deleted with the process.
//!
//! ```text
//!   O_TMPFILE              never has a name
//!   if unsupported:        a new name, unlinked at once
//! ```
//!
//! The mode is 0600 regardless of the umask. Links of other users are not followed.
//!
//! Source: Linux man page open(2), `O_TMPFILE`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Owner only.
const MODE: u32 = 0o600;
/// Existing names tried before giving up.
const NAMES_MAX: usize = 1000;

pub(super) fn create(folder: &Path) -> io::Result<File> {
    let made = options().custom_flags(libc::O_TMPFILE).open(folder);
    match made.as_ref().map_err(io::Error::raw_os_error) {
        // Unsupported, or taken for O_DIRECTORY.
        Err(Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => create_and_unlink(folder),
        _ => made,
    }
}

fn create_and_unlink(folder: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".pagetide-swap-{}-{number}", std::process::id()));
        match options().create_new(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                let file = made?;
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn it_has_no_name_and_is_its_owners() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in [create(folder.path()), create_and_unlink(folder.path())] {
            let found = file.expect("made").metadata().expect("stat");
            assert_eq!((found.mode() & 0o777, found.nlink(), found.len()), (MODE, 0, 0));
        }
        assert_eq!(folder.path().read_dir().expect("listed").count(), 0);
    }

    #[test]
    fn what_has_the_name_already_is_neither_used_nor_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        std::fs::write(&victim, b"keep").expect("written");
        for number in 0..20 {
            let name = format!(".pagetide-swap-{}-{number}", std::process::id());
            std::os::unix::fs::symlink(&victim, folder.path().join(name)).expect("a link");
        }
        let file = create_and_unlink(folder.path()).expect("made under another name");
        assert_eq!(file.metadata().expect("stat").nlink(), 0);
        assert_eq!(std::fs::read(&victim).expect("read"), b"keep");
    }
}
