//! The preload library as a file for the dynamic linker.
//!
//! ```text
//!   the same bytes in a file beside the command, or in ../lib/pagetide: that file
//!   else in ~/.cache/pagetide, the user's runtime folder or the temporary one:
//!                                                       <hash>/libpagetide_preload.so
//! ```
//!
//! The command embeds the library, so versions always match. A file is needed, because programs
//! close unknown descriptors and their children would not find the library. Only files with exactly
//! these bytes are used. The folders of unpacked copies must not be writable by other users,
//! because their contents run in the user's programs.

use rustix::fs::StatVfsMountFlags;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const LIBRARY: &str = "libpagetide_preload.so";
const PIECE: usize = 64 << 10;

/// Returns the path of a file with exactly these bytes, which are the library.
///
/// # Errors
/// Fails with one sentence if no folder is usable.
///
/// # Cost
/// Reads one file of their length. The first call writes it.
pub fn find_library(bytes: &[u8]) -> Result<PathBuf, String> {
    if bytes.is_empty() {
        return Err("this pagetide was built without the library that it loads into programs: \
                    build it with cargo"
            .to_owned());
    }
    let beside = beside().into_iter().find(|path| can_be_named(path) && has(path, bytes));
    beside.map_or_else(|| unpack(bytes, &folders()), Ok)
}

fn beside() -> Vec<PathBuf> {
    let Ok(own) = std::env::current_exe() else { return Vec::new() };
    let folder = own.parent().unwrap_or(Path::new("/"));
    let folders = [folder.to_owned(), folder.join("../lib/pagetide"), folder.join("deps")];
    folders.map(|folder| folder.join(LIBRARY)).into()
}

fn folders() -> Vec<PathBuf> {
    let variable = |name| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let lasting = [cache, variable("XDG_RUNTIME_DIR")].into_iter().flatten();
    let temporary = std::env::temp_dir().join(format!("pagetide-{}", geteuid().as_raw()));
    lasting.map(|folder| folder.join("pagetide")).chain([temporary]).collect()
}

fn unpack(bytes: &[u8], folders: &[PathBuf]) -> Result<PathBuf, String> {
    let mut refused = Vec::new();
    for folder in folders {
        match keep_in(folder, bytes) {
            Ok(path) => return Ok(path),
            Err(error) => refused.push(format!("{}: {error}", folder.display())),
        }
    }
    let refused = refused.join("; ");
    Err(format!("no folder for the library that is loaded into the program: {refused}"))
}

/// Returns the file in the user's folder, written if missing or different.
fn keep_in(folder: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let place = folder.join(format!("{:016x}", hasher.finish()));
    let path = place.join(LIBRARY);
    if !can_be_named(&path) {
        return Err(io::Error::other("LD_PRELOAD cannot name what has a space, a : or a $"));
    }
    for folder in [folder, &place] {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        check_own(folder)?;
    }
    if has(&path, bytes) {
        return Ok(path);
    }
    let unfinished = place.join(format!("{}.tmp", std::process::id()));
    let written = write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &path));
    if written.is_err() {
        // The original error is reported.
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| path)
}

/// Checks that a folder is no link, writable only by this user, and not on a noexec file system.
fn check_own(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("it is not a folder that only this user can write to"));
    }
    if rustix::fs::statvfs(folder)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("its file system is mounted noexec"));
    }
    Ok(())
}

/// The caller renames the complete file.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(path)?;
    file.write_all(bytes)
}

/// Returns true if the dynamic linker accepts the path: it splits its list, and replaces `$ORIGIN`.
fn can_be_named(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte))
}

/// Returns true if the path names a file with exactly these bytes.
///
/// Compares in pieces, because a large buffer would stay on the server's heap, which counts as
/// memory of a run.
fn has(path: &Path, bytes: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let is_as_long = file.metadata().is_ok_and(|found| found.len() == bytes.len() as u64);
    let mut piece = vec![0; PIECE.min(bytes.len())];
    let mut has_piece = |expected: &[u8]| {
        let found = &mut piece[..expected.len()];
        file.read_exact(found).is_ok() && found == expected
    };
    is_as_long && bytes.chunks(PIECE).all(&mut has_piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_written_once_and_again_where_it_is_damaged() {
        let here = tempfile::tempdir().unwrap();
        let folder = here.path().join("a/pagetide");
        let path = keep_in(&folder, b"some code").unwrap();
        assert!(path.starts_with(&folder) && path.ends_with(LIBRARY));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o500));
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let first = inode(&path);
        assert_eq!(keep_in(&folder, b"some code").unwrap(), path);
        assert_eq!(inode(&path), first, "not written again");
        assert_ne!(keep_in(&folder, b"other code").unwrap(), path);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        fs::write(&path, b"same code").unwrap();
        assert_eq!(keep_in(&folder, b"some code").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"some code");
        let names = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_passed_over() {
        let here = tempfile::tempdir().unwrap();
        let [open, spaced, link, good] =
            ["open", "with space", "link", "good"].map(|name| here.path().join(name));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(here.path(), &link).unwrap();
        let nowhere = PathBuf::from("/dev/null/a");
        let refused = [open, spaced, link, nowhere];
        let sentence = unpack(b"code", &refused).unwrap_err();
        assert_eq!(sentence.matches("only this user can write to").count(), 2, "{sentence}");
        assert!(sentence.contains("a space") && sentence.contains("/dev/null/a: "), "{sentence}");
        let path =
            unpack(b"code", &[refused.as_slice(), std::slice::from_ref(&good)].concat()).unwrap();
        assert!(path.starts_with(good));
    }
}
