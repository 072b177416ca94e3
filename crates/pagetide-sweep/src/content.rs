//! The content hash of a trace, and a stamp that saves rehashing.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use twox_hash::XxHash3_128;

/// The 128-bit XXH3 hash of a file's bytes, in hexadecimal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Content(String);

impl Content {
    /// Hashes the file. Calls `keep_on` now and then, and returns `None` once it returns false.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn read(path: &Path, keep_on: impl Fn() -> bool) -> io::Result<Option<Content>> {
        let (mut file, mut hasher) = (File::open(path)?, XxHash3_128::new());
        let mut buffer = vec![0; 1 << 20];
        while keep_on() {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Some(Content(format!("{:032x}", hasher.finish_128())))),
                Ok(nr_read) => hasher.write(&buffer[..nr_read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns the hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns a file's stamp: its length, and its time to the nanosecond.
///
/// # Errors
/// Fails if there is no such file.
pub fn stamp_of(path: &Path) -> io::Result<String> {
    let it = fs::metadata(path)?;
    Ok(format!("{} bytes, {}.{:09}", it.len(), it.mtime(), it.mtime_nsec()))
}
