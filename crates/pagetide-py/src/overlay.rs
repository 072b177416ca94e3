//! A copy of a file that is written page by page, for arrays in mode "c".
//!
//! ```text
//!   page       0   1   2   3   4
//!   written    -   x   -   -   x     x read from a file without a name, - from the file itself
//! ```

use pagetide::{PAGE_BYTES, Store};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: u64 = PAGE_BYTES as u64;
const WORD_BITS: u64 = u64::BITS as u64;

/// The bytes of a file, and changes of them that reach no file with a name.
#[derive(Clone)]
pub(crate) struct Overlay(Arc<Inner>);

struct Inner {
    file: File,
    len: u64,
    changes: File,
    written: Box<[AtomicU64]>,
}

impl Overlay {
    /// # Errors
    /// Fails if `file` is a folder, or its length cannot be read.
    pub(crate) fn over(file: File, changes: File) -> io::Result<Overlay> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let len = metadata.len();
        let nr_words = len.div_ceil(PAGE).div_ceil(WORD_BITS);
        let written = (0..nr_words).map(|_| AtomicU64::new(0)).collect();
        Ok(Overlay(Arc::new(Inner { file, len, changes, written })))
    }
}

impl Inner {
    fn is_written(&self, page: u64) -> bool {
        let word = &self.written[(page / WORD_BITS) as usize];
        word.load(Relaxed) & (1 << (page % WORD_BITS)) != 0
    }

    /// Reads from the file. If the file has shrunk, its last page ends with zeros.
    ///
    /// # Errors
    /// Fails with the system's error, or if the file ends at `offset` or before.
    fn read_file(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut nr_read = 0;
        while nr_read < target.len() {
            match self.file.read_at(&mut target[nr_read..], offset + nr_read as u64) {
                Ok(0) => break,
                Ok(nr) => nr_read += nr,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if nr_read == 0 && !target.is_empty() {
            let said = format!("the file has shrunk, under an array of {} bytes", self.len);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
        }
        let page_end = (offset + nr_read as u64).next_multiple_of(PAGE) - offset;
        let nr_filled = target.len().min(page_end as usize);
        target[nr_read..nr_filled].fill(0);
        Ok(nr_filled)
    }
}

/// Calls of one page never overlap if one of them is a write, so the bits need no order.
impl Store for Overlay {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let Overlay(inner) = self;
        if offset >= inner.len {
            return Ok(0);
        }
        let is_written = inner.is_written(offset / PAGE);
        let pages = offset / PAGE..inner.len.min(offset + target.len() as u64).div_ceil(PAGE);
        let nr_alike = pages.take_while(|page| inner.is_written(*page) == is_written).count();
        let end = ((offset / PAGE + nr_alike as u64) * PAGE).min(inner.len);
        let target_len = target.len();
        let target = &mut target[..target_len.min((end - offset) as usize)];
        match is_written {
            true => inner.changes.read_exact_at(target, offset).map(|()| target.len()),
            false => inner.read_file(target, offset),
        }
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        let Overlay(inner) = self;
        inner.changes.write_all_at(source, offset)?;
        for page in offset / PAGE..(offset + source.len() as u64).div_ceil(PAGE) {
            let word = &inner.written[(page / WORD_BITS) as usize];
            word.fetch_or(1 << (page % WORD_BITS), Relaxed);
        }
        Ok(source.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Opens a file without a name.
///
/// # Errors
/// Fails with the system's error, if the folder's file system has no such files, or no room.
pub(crate) fn open_nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(folder)
}

/// Returns the folder of anonymous regions: `TMPDIR`, or else `/var/tmp`.
pub(crate) fn default_folder() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}
