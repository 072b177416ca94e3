//! Output files: checked before the work, and complete or absent.
//!
//! Idea: check the target first, write a temporary file beside the target, and rename the complete
//! file.
//!
//! ```text
//!   check(path) ... the work ... create(path) --> folder/.pagetide-XXXX --> finish --> path
//!                                     `-- a pipe, a device, `-` (standard output): a Stream
//! ```
//!
//! Data: a temporary file, removed on drop unless finished, and the open streams. Ignored: a target
//! that becomes unwritable during the work.

mod stream;

use crate::failure::Failure;
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stream::Stream;
use tempfile::NamedTempFile;

/// Checks each of `paths` without changes. Fails with "cannot write `what` `path`: why".
pub(crate) fn check<'a>(
    what: &str,
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    paths
        .into_iter()
        .try_for_each(|path| To::find(path).map(drop).map_err(|error| refused(what, path, &error)))
}

/// Writes the whole file. A failure leaves the old contents.
pub(crate) fn write(what: &str, path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = NewFile::create(what, path)?;
    file.write_all(text.as_bytes()).map_err(|error| refused(what, path, &error))?;
    file.finish().map(drop)
}

fn refused(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::on_path(&format!("write {what}"), path, error)
}

#[derive(Debug)]
pub(crate) struct NewFile<'a> {
    what: &'a str,
    path: &'a Path,
    to: To,
}

#[derive(Debug)]
enum To {
    /// A temporary file with its final path.
    Beside(NamedTempFile, PathBuf),
    /// A regular file.
    There(File),
    /// A pipe, a terminal or a device.
    Stream(Arc<Stream>),
}

impl<'a> NewFile<'a> {
    /// Begins a file. Error messages use `what`, as in "the trace".
    pub(crate) fn create(what: &'a str, path: &'a Path) -> Result<NewFile<'a>, Failure> {
        let to = To::find(path).and_then(|to| match to {
            To::There(file) => {
                file.set_len(0)?;
                Ok(To::There(file))
            }
            to => Ok(to),
        });
        to.map(|to| NewFile { what, path, to }).map_err(|error| refused(what, path, &error))
    }

    /// Moves the file to its path and returns the length in bytes.
    pub(crate) fn finish(self) -> Result<u64, Failure> {
        let refuse = |error: io::Error| refused(self.what, self.path, &error);
        match self.to {
            To::Beside(file, place) => {
                let len = file.as_file().metadata().map_err(refuse)?.len();
                file.persist(place).map_err(|error| refuse(error.error))?;
                Ok(len)
            }
            To::There(file) => Ok(file.metadata().map_err(refuse)?.len()),
            To::Stream(stream) => Ok(stream.written()),
        }
    }
}

impl To {
    /// Chooses how to write `path`, without changing existing contents.
    fn find(path: &Path) -> io::Result<To> {
        if is_standard_output(path) {
            let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(To::Stream(Arc::new(Stream::new(stdout))));
        }
        let there = fs::metadata(path).ok();
        match &there {
            Some(there) if there.is_dir() => return Err(Errno::ISDIR.into()),
            Some(there) if !there.is_file() => return Stream::open(path).map(To::Stream),
            _ => {}
        }
        // Replaces the target of a symbolic link, not the link.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The usual mode of new files, minus the umask.
        let beside = tempfile::Builder::new()
            .prefix(".pagetide-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or(Path::new(".")));
        match beside {
            Ok(file) => Ok(To::Beside(file, place)),
            // The user may own a file in another user's folder. Otherwise `open` fails without the
            // temporary name in its error.
            Err(_) => open(path),
        }
    }
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn open(path: &Path) -> io::Result<To> {
    File::options().write(true).create(true).truncate(false).open(path).map(To::There)
}

impl Write for NewFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Beside(file, _) => file.as_file_mut().write(bytes),
            To::There(file) => file.write(bytes),
            To::Stream(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Beside(file, _) => file.as_file_mut().flush(),
            To::There(file) => file.flush(),
            To::Stream(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).into_string().expect("ASCII")).collect()
    }

    #[test]
    fn a_check_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, "old").expect("a file");
        check("it", [&old, &new]).expect("both can be written");
        assert_eq!(fs::read_to_string(&old).expect("it is still there"), "old");
        assert_eq!(names(folder.path()), ["old"]);
    }

    #[test]
    fn what_is_not_finished_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace");
        write("the trace", &path, "whole").expect("it is written");
        let mut half = NewFile::create("the trace", &path).expect("it begins");
        half.write_all(b"half").expect("it is written");
        drop(half);
        assert_eq!(fs::read_to_string(&path).expect("a file"), "whole");
        assert_eq!(names(folder.path()), ["trace"], "nothing else is left");
    }

    #[test]
    fn a_refusal_names_the_place_and_nothing_of_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let nowhere = folder.path().join("no/where");
        let said = check("the report", [&nowhere]).expect_err("no folder").to_string();
        let why = "No such file or directory (os error 2)";
        assert_eq!(said, format!("cannot write the report {}: {why}", nowhere.display()));
        let said = check("the report", [&folder.path().to_owned()]).expect_err("a folder");
        assert!(said.to_string().contains("Is a directory"), "{said}");
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        let null = PathBuf::from("/dev/null");
        check("the trace", [&null]).expect("every user may");
        write("the trace", &null, "text").expect("every user may");
        assert!(!fs::metadata(&null).expect("a device").is_file());
    }

    #[test]
    fn what_a_link_leads_to_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let [target, link] = ["target", "link"].map(|name| folder.path().join(name));
        fs::write(&target, "longer than what follows").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        write("the trace", &link, "short").expect("it is written");
        assert_eq!(fs::read_to_string(&target).expect("a file"), "short");
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    }
}
