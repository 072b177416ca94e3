//! An open file, the compiled half of `pagetide.File`.
//!
//! ```text
//!   pread, pwrite     at an offset: no position, any number of threads
//!   read, write       at the position, which one call at a time moves
//! ```
//!
//! The position's lock is taken only while detached, and released before attaching. The lock and
//! the interpreter therefore never wait for each other's holders.

use crate::buffer::{Source, Target};
use crate::call::detached;
use crate::errors::{raise_of, raise_unwritten, unsupported};
use crate::pinned::Pinned;
use crate::process::Local;
use pagetide::{Advice, File, ReadError, SyncError, WriteError};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The options of `open`, with the modes of `io.FileIO`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mode {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) creates: bool,
    pub(crate) truncates: bool,
    pub(crate) is_exclusive: bool,
    pub(crate) appends: bool,
}

impl FromStr for Mode {
    type Err = PyErr;

    fn from_str(text: &str) -> PyResult<Mode> {
        let mut letters: Vec<char> = text.chars().filter(|letter| *letter != 'b').collect();
        letters.sort_unstable();
        let (updates, letters) = match letters[..] {
            ['+', ref letters @ ..] => (true, letters),
            ref letters => (false, letters),
        };
        let new = Mode { write: true, creates: true, read: updates, ..Mode::default() };
        match letters {
            ['r'] => Ok(Mode { read: true, write: updates, ..Mode::default() }),
            ['w'] => Ok(Mode { truncates: true, ..new }),
            ['x'] => Ok(Mode { is_exclusive: true, ..new }),
            ['a'] => Ok(Mode { appends: true, ..new }),
            _ => Err(PyValueError::new_err(format!(
                "mode {text:?}: one of r, w, x and a, and + for both reading and writing; the \
                 file is of bytes"
            ))),
        }
    }
}

struct Open {
    file: File,
    path: PathBuf,
    position: Mutex<u64>,
    mode: Mode,
}

impl Open {
    fn lock_position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwritten(&self, error: SyncError) -> PyErr {
        raise_unwritten(Some(&self.path), self.file.dirty_bytes(), error)
    }

    fn read_failed(&self, py: Python<'_>, error: ReadError) -> PyErr {
        match error {
            ReadError::NotReadable => unsupported(py, "the file was opened without read access"),
            error => raise_of(&self.path, error),
        }
    }

    fn write_failed(&self, py: Python<'_>, error: WriteError) -> PyErr {
        match error {
            WriteError::NotWritable => unsupported(py, "the file was opened without write access"),
            error => raise_of(&self.path, error),
        }
    }
}

impl Drop for Open {
    /// Flushes as `close`. An error is reported on stderr.
    fn drop(&mut self) {
        if self.mode.write
            && self.file.dirty_bytes() > 0
            && let Err(error) = self.file.flush()
        {
            Python::attach(|py| self.unwritten(error).write_unraisable(py, None));
        }
    }
}

/// The compiled half of `pagetide.File`.
#[pyclass(frozen, module = "pagetide._pagetide")]
pub(crate) struct RawFile {
    /// `None` once closed.
    open: Local<Mutex<Option<Arc<Open>>>>,
}

impl RawFile {
    pub(crate) fn new(file: File, path: PathBuf, mode: Mode) -> RawFile {
        let position = Mutex::new(if mode.appends { file.len() } else { 0 });
        let open = Arc::new(Open { file, path, position, mode });
        RawFile { open: Local::new(Mutex::new(Some(open))) }
    }

    fn get(&self) -> PyResult<Arc<Open>> {
        let open = self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| PyValueError::new_err("I/O operation on closed file."))
    }
}

#[pymethods]
impl RawFile {
    /// Reads up to `nbytes` bytes at `offset`, fewer only at the end of the file.
    ///
    /// Does not use or move the position. Any number of threads at once.
    fn pread<'py>(
        &self,
        py: Python<'py>,
        nbytes: isize,
        offset: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let open = self.get()?;
        let offset = check_offset(offset)?;
        read_bytes(py, &open, nbytes, offset, |bytes| open.file.read_at(bytes, offset))
    }

    /// Pins `nbytes` bytes from `offset` (-1: to the end), as a `Pinned`.
    #[pyo3(signature = (nbytes, offset))]
    fn pin(&self, py: Python<'_>, nbytes: isize, offset: i64) -> PyResult<Pinned> {
        let (open, start) = (self.get()?, check_offset(offset)?);
        let end = match u64::try_from(nbytes) {
            Ok(nbytes) => start.saturating_add(nbytes),
            Err(_) => open.file.len().max(start),
        };
        let pinned = detached(py, || open.file.pin(start..end))?;
        Ok(Pinned::new(pinned.map_err(|error| open.read_failed(py, error))?))
    }

    /// Fills the buffer from byte `offset`. Returns the number of bytes read.
    fn preadinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: i64) -> PyResult<usize> {
        let (open, offset) = (self.get()?, check_offset(offset)?);
        let mut target = Target::of(buffer)?;
        let read = detached(py, || target.fill(offset, |part, at| open.file.read_at(part, at)))?;
        read.map_err(|error| open.read_failed(py, error))
    }

    /// Writes all of the buffer at byte `offset`, extending a shorter file. Returns the length.
    fn pwrite(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: i64) -> PyResult<usize> {
        let (open, offset) = (self.get()?, check_offset(offset)?);
        let source = Source::of(buffer)?;
        let written =
            detached(py, || source.drain(offset, |part, at| open.file.write_at(part, at)))?;
        written.map_err(|error| open.write_failed(py, error))
    }

    /// As `io.RawIOBase.read`.
    #[pyo3(signature = (size=-1, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        let open = self.get()?;
        let about = py.detach(|| *open.lock_position());
        read_bytes(py, &open, size.unwrap_or(-1), about, |bytes| {
            let mut position = open.lock_position();
            let nr_read = open.file.read_at(bytes, *position)?;
            *position += nr_read as u64;
            Ok(nr_read)
        })
    }

    /// As `io.RawIOBase.readinto`.
    #[pyo3(signature = (buffer, /))]
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let open = self.get()?;
        let mut target = Target::of(buffer)?;
        let read = detached(py, || {
            let mut position = open.lock_position();
            let nr_read = target.fill(*position, |part, at| open.file.read_at(part, at))?;
            *position += nr_read as u64;
            Ok(nr_read)
        })?;
        read.map_err(|error| open.read_failed(py, error))
    }

    /// As `io.RawIOBase.write`, for all bytes.
    #[pyo3(signature = (buffer, /))]
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let open = self.get()?;
        let source = Source::of(buffer)?;
        let written = detached(py, || {
            let mut position = open.lock_position();
            if open.mode.appends {
                *position = open.file.len();
            }
            let nr_written = source.drain(*position, |part, at| open.file.write_at(part, at))?;
            *position += nr_written as u64;
            Ok(nr_written)
        })?;
        written.map_err(|error| open.write_failed(py, error))
    }

    /// As `io.IOBase.seek`.
    #[pyo3(signature = (offset, whence=0, /))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let open = self.get()?;
        let sought = py.detach(|| {
            let mut position = open.lock_position();
            let from = match whence {
                0 => 0,
                1 => *position,
                2 => open.file.len(),
                _ => return Err("whence is 0 (start), 1 (position) or 2 (end)"),
            };
            let sought = from.checked_add_signed(offset).filter(|to| i64::try_from(*to).is_ok());
            *position = sought.ok_or("a position is from 0 to 2^63 - 1")?;
            Ok(*position)
        });
        sought.map_err(|said| PyValueError::new_err(format!("seek({offset}, {whence}): {said}")))
    }

    /// As `io.IOBase.tell`.
    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        let open = self.get()?;
        Ok(py.detach(|| *open.lock_position()))
    }

    /// As `io.IOBase.truncate`: the position stays.
    #[pyo3(signature = (size=None, /))]
    fn truncate(&self, py: Python<'_>, size: Option<i64>) -> PyResult<u64> {
        let open = self.get()?;
        let size = match size {
            Some(size) => check_offset(size)?,
            None => py.detach(|| *open.lock_position()),
        };
        detached(py, || open.file.set_len(size))?.map_err(|error| open.write_failed(py, error))?;
        Ok(size)
    }

    /// Writes back dirty pages, so that other programs see them, without making them durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.get()?;
        if !open.mode.write {
            return Ok(());
        }
        detached(py, || open.file.flush())?.map_err(|error| open.unwritten(error))
    }

    /// Writes back dirty pages, and makes them durable, as `os.fdatasync`.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.get()?;
        detached(py, || open.file.sync_data())?.map_err(|error| open.unwritten(error))
    }

    /// Announces accesses: "normal", "sequential", "random", "noreuse" for all accesses from now
    /// on. "willneed", "dontneed" for `nbytes` bytes from `offset`, once (0: to the end).
    #[pyo3(signature = (advice, offset=0, nbytes=0))]
    fn advise(&self, py: Python<'_>, advice: &str, offset: u64, nbytes: u64) -> PyResult<()> {
        let (open, advice) = (self.get()?, read_advice(advice)?);
        let advised = detached(py, || open.file.advise(advice, offset, nbytes))?;
        advised.map_err(|error| raise_of(&open.path, error))
    }

    /// The file's length in bytes, including unwritten data.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.get()?.file.len())
    }

    /// The bytes of the file in memory now, in whole pages.
    #[getter]
    fn resident_bytes(&self) -> PyResult<u64> {
        let nr_pages = self.get()?.file.resident_pages(0, u64::MAX);
        Ok(nr_pages * pagetide::PAGE_BYTES as u64)
    }

    /// True if the file was opened in this process, and not before a fork.
    #[getter]
    fn is_here(&self) -> bool {
        self.open.is_here()
    }

    #[getter]
    fn is_readable(&self) -> PyResult<bool> {
        Ok(self.get()?.mode.read)
    }

    #[getter]
    fn is_writable(&self) -> PyResult<bool> {
        Ok(self.get()?.mode.write)
    }

    /// Closes the file, after running calls of other threads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        detached(py, || drop(open))
    }
}

pub(crate) fn read_advice(name: &str) -> PyResult<Advice> {
    Ok(match name {
        "normal" => Advice::Normal,
        "sequential" => Advice::Sequential,
        "random" => Advice::Random,
        "noreuse" => Advice::NoReuse,
        "willneed" => Advice::WillNeed,
        "dontneed" => Advice::DontNeed,
        _ => {
            return Err(PyValueError::new_err(format!(
                "advice {name:?}: one of normal, sequential, random, noreuse, willneed, dontneed"
            )));
        }
    })
}

fn check_offset(offset: i64) -> PyResult<u64> {
    let said = || PyValueError::new_err(format!("an offset of {offset} bytes is below 0"));
    u64::try_from(offset).map_err(|_| said())
}

/// Makes an object of up to `nbytes` bytes (below 0: to the end), filled by `read`.
fn read_bytes<'py>(
    py: Python<'py>,
    open: &Open,
    nbytes: isize,
    offset: u64,
    read: impl FnOnce(&mut [u8]) -> Result<usize, ReadError> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    if !open.mode.read {
        return Err(unsupported(py, "the file was opened without read access"));
    }
    let left = open.file.len().saturating_sub(offset);
    let wanted = u64::try_from(nbytes).map_or(left, |nbytes| nbytes.min(left));
    let wanted = usize::try_from(wanted).map_err(|_| PyOverflowError::new_err("too long"))?;
    let mut nr_read = 0;
    let bytes = PyBytes::new_with(py, wanted, |bytes| {
        nr_read = detached(py, || read(bytes))?.map_err(|error| open.read_failed(py, error))?;
        Ok(())
    })?;
    // The file may have shrunk meanwhile.
    Ok(if nr_read == wanted { bytes } else { PyBytes::new(py, &bytes.as_bytes()[..nr_read]) })
}
