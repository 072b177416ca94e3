//! A file with a position, for `std::io`.

use super::File;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

/// A position in a file, for [`Read`], [`Write`] and [`Seek`].
///
/// Other cursors, clones, and calls with an offset do not move the position. Past the end, reads
/// return nothing, and a write leaves a gap of zeros.
///
/// ```
/// use pagetide::{Bytes, OpenOptions, PageCache};
/// use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("words");
/// let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
/// let file = cache.open(path, OpenOptions::new().read(true).write(true).create(true))?;
/// let mut cursor = file.cursor();
/// write!(cursor, "one\ntwo\n")?;
/// cursor.seek(SeekFrom::Start(4))?;
/// let mut rest = String::new();
/// cursor.read_to_string(&mut rest)?;
/// assert_eq!(rest, "two\n");
/// // Lines need a buffer that can be looked into.
/// let lines: Vec<String> = BufReader::new(file.cursor()).lines().collect::<Result<_, _>>()?;
/// assert_eq!(lines, ["one", "two"]);
/// # Ok(())
/// # }
/// ```
///
/// # Buffers
/// A buffer saves no system calls, as the pages are in memory already, but some tens of nanoseconds
/// a call. [`BufReader`](io::BufReader) and [`BufWriter`](io::BufWriter) pay for records of a few
/// bytes, and lines need them. Reads of a page and more are faster without. A filled read buffer
/// misses later writes, and a write buffer must be flushed before a sync.
///
/// # Errors
/// As [`File::read_at`] and [`File::write_at`], converted to [`io::Error`]. A write that fails
/// halfway returns the number of bytes written, and the next write fails. Seeking before the start
/// or beyond `u64` is [`io::ErrorKind::InvalidInput`].
///
/// # Concurrency
/// Single owner. A seek to [`SeekFrom::End`] and a write there are not atomic.
///
/// # Cost
/// As [`File::read_at`] and [`File::write_at`]. [`Seek`] is free. A new cursor costs a reference
/// count.
#[derive(Clone)]
pub struct FileCursor {
    file: File,
    position: u64,
}

impl File {
    /// Returns a cursor at the start of the file. It shares this handle's readahead and write-back
    /// errors.
    pub fn cursor(&self) -> FileCursor {
        FileCursor { file: self.clone(), position: 0 }
    }
}

impl FileCursor {
    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the position in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Read for FileCursor {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let nr_read = self.file.read_at(target, self.position)?;
        self.position += nr_read as u64;
        Ok(nr_read)
    }
}

impl Write for FileCursor {
    fn write(&mut self, source: &[u8]) -> io::Result<usize> {
        let nr_written = FileExt::write_at(&self.file, source, self.position)?;
        self.position += nr_written as u64;
        Ok(nr_written)
    }

    /// Does nothing: writes are visible to all readers of this cache at once. [`File::flush`] and
    /// [`File::sync_data`] write to the store.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for FileCursor {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let position = match target {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.file.len().checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.position)
    }
}

/// For generic code. A write that fails halfway returns the number of bytes written.
/// [`File::write_at`] returns the error.
impl FileExt for File {
    fn read_at(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(File::read_at(self, target, offset)?)
    }

    fn write_at(&self, source: &[u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        match self.write_counting(source, offset, &mut done) {
            Err(error) if done == 0 => Err(error.into()),
            _ => Ok(done),
        }
    }
}

impl fmt::Debug for FileCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileCursor({:?} at {})", self.file, self.position)
    }
}
