//! A file with a position, for code that speaks `std::io`.

use super::File;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

/// A position in a file: [`Read`], [`Write`] and [`Seek`] from there on.
///
/// Its position is its own: other cursors, clones too, and calls that name their offset do not move
/// it. It may be past the end, where reads give nothing, and a write leaves a gap of zeros.
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
/// The pages are in memory already, so that a buffer saves no system call: it saves what a call
/// costs, some tens of nanoseconds. [`BufReader`](io::BufReader) and [`BufWriter`](io::BufWriter)
/// pay for records of a few bytes, and are needed for lines; reads of a page and more are faster
/// without. A buffered reader does not see what is written after it has filled its buffer, and what
/// a buffered writer holds is in no file yet: flush it, and then sync.
///
/// # Errors
/// Those of [`File::read_at`] and [`File::write_at`], as [`io::Error`]s of their kinds. A write
/// that fails after some bytes says how many it has written; the next one fails. Seeking before the
/// beginning, or so far that no number tells, is [`io::ErrorKind::InvalidInput`].
///
/// # Concurrency
/// Of one owner, as any position is. A write at the end found by [`SeekFrom::End`] is not one step
/// with the seek: another writer may have been there.
///
/// # Cost
/// That of [`File::read_at`] and [`File::write_at`]; [`Seek`] costs nothing. Making one counts a
/// reference.
#[derive(Clone)]
pub struct FileCursor {
    file: File,
    position: u64,
}

impl File {
    /// A cursor at the file's beginning. It is of this handle: what it reads counts for this
    /// handle's readahead, and its errors of write-back are this handle's.
    pub fn cursor(&self) -> FileCursor {
        FileCursor { file: self.clone(), position: 0 }
    }
}

impl FileCursor {
    /// The file, to sync or to read elsewhere.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The position, in bytes from the beginning.
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

    /// Nothing is held back: what was written is in the file's pages, where every reader of this
    /// cache finds it. [`File::flush`] and [`File::sync_data`] bring it to the store.
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

/// For code that is generic over files. A write that fails after some bytes gives their number, as
/// the trait has it; [`File::write_at`] gives the error.
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
