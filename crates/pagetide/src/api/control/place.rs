//! Socket paths: a private folder of the user, with a socket for each cache.
//!
//! ```text
//!   $XDG_RUNTIME_DIR/pagetide/    or /tmp/pagetide-UID/ if that belongs to another user
//!     4711-0.sock                 the first cache of process 4711 with a socket
//! ```
//!
//! In /tmp, another user may have created the folder, or a link. Listing removes sockets of ended
//! processes.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Maximum number of caches of one process with a socket.
const CACHES_MAX: u32 = 256;

/// The socket of one cache.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SocketPlace {
    /// Process of the cache.
    pub pid: u32,
    /// Path of the socket.
    pub path: PathBuf,
}

/// Returns the folder of this user's sockets, which may not exist.
pub fn folder() -> PathBuf {
    let own = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let is_own = |path: &PathBuf| {
        path.is_absolute() && std::fs::metadata(path).is_ok_and(|it| it.is_dir() && it.uid() == own)
    };
    match runtime.filter(is_own) {
        Some(runtime) => runtime.join("pagetide"),
        None => PathBuf::from(format!("/tmp/pagetide-{own}")),
    }
}

fn check(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    let is_private = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.permissions().mode() & 0o077 == 0;
    if is_private {
        return Ok(());
    }
    let folder = folder.display();
    let message = format!("{folder} is not a folder of this user's alone (mode 0700): remove it");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Lists the caches with sockets of this user's running processes.
///
/// # Errors
/// The system's error for the folder, or that the folder is not private to this user.
pub fn list() -> io::Result<Vec<SocketPlace>> {
    list_in(&folder())
}

pub(super) fn list_in(folder: &Path) -> io::Result<Vec<SocketPlace>> {
    match check(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    let mut places = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((pid, _)) = name.strip_suffix(".sock").and_then(|name| name.split_once('-'))
        else {
            continue;
        };
        let Ok(pid) = pid.parse() else { continue };
        if is_stale(&path) {
            // Another process may have removed it.
            let _ = std::fs::remove_file(&path);
            continue;
        }
        places.push(SocketPlace { pid, path });
    }
    places.sort();
    Ok(places)
}

fn is_stale(path: &Path) -> bool {
    let refused = UnixStream::connect(path).err();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

pub(super) fn listen_in(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => check(folder)?,
    }
    for nth in 0..CACHES_MAX {
        let path = folder.join(format!("{}-{nth}.sock", std::process::id()));
        if is_stale(&path) {
            // From an earlier process with our number.
            let _ = std::fs::remove_file(&path);
        }
        match UnixListener::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
            listener => {
                let listener = listener?;
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                return Ok((listener, path));
            }
        }
    }
    Err(io::Error::other(format!("{CACHES_MAX} caches of this process have a socket already")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_their_owners_alone_and_stale_ones_go() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("pagetide");
        assert_eq!(list_in(&folder).unwrap(), []);
        let (first, path) = listen_in(&folder).unwrap();
        let (_second, other) = listen_in(&folder).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        assert_eq!(list_in(&folder).unwrap().len(), 2);
        drop(first);
        let left = list_in(&folder).unwrap();
        assert_eq!(left, [SocketPlace { pid: std::process::id(), path: other }]);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let refused = listen_in(folder.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(list_in(folder.path()).unwrap_err().to_string().contains("0700"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(listen_in(&link).is_err(), "a link may lead anywhere");
    }
}
