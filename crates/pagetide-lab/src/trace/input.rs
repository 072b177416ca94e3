//! The bytes of a trace: decompressed, read by lines or records, and counted for error messages.

use super::ahead::Ahead;
use super::{LineProblem, TraceError};
use memchr::memchr;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes at the front of the file that format detection may read.
const PREFIX_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum length of a line with its line end, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ_MAGIC: [u8; 6] = *b"\xfd7zXZ\0";
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// The magic number of a gzip member, and the code of "deflate".
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

type DynRead = Box<dyn Read + Send>;

#[derive(Clone, Debug, Default)]
pub(super) struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

struct Counted<R> {
    reader: R,
    nr_read: BytesRead,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let nr_read = self.reader.read(bytes)?;
        self.nr_read.0.fetch_add(nr_read as u64, Relaxed);
        Ok(nr_read)
    }
}

pub(super) struct Input {
    reader: BufReader<DynRead>,
    offset: u64,
    line_number: u64,
    /// A copy of the last line, if the buffer does not hold the whole line.
    line: Vec<u8>,
    /// Length of the last line at the front of the buffer, or 0 if the line is not in the buffer.
    nr_lent: usize,
    nr_read: BytesRead,
}

impl Input {
    /// Decompresses zstd, gzip or xz if detected. Returns the decompressed input, and a copy of the
    /// first 4 KiB.
    pub(super) fn open(reader: DynRead) -> Result<(Input, Vec<u8>), TraceError> {
        let start = |source| TraceError::Read { offset: 0, source };
        let (magic, mut reader) = peek(reader, XZ_MAGIC.len()).map_err(start)?;
        if magic.starts_with(&ZSTD_MAGIC) {
            let decoder = zstd::Decoder::new(reader).map_err(start)?;
            reader = Box::new(Ahead::start(decoder).map_err(start)?);
        } else if magic.starts_with(&GZIP_MAGIC) {
            let decoder = flate2::read::MultiGzDecoder::new(reader);
            reader = Box::new(Ahead::start(decoder).map_err(start)?);
        } else if magic.starts_with(&XZ_MAGIC) {
            // An xz file may hold several streams, as in xz(1).
            let decoder = lzma_rust2::XzReader::new(reader, true);
            reader = Box::new(Ahead::start(decoder).map_err(start)?);
        }
        let nr_read = BytesRead::default();
        reader = Box::new(Counted { reader, nr_read: nr_read.clone() });
        let (prefix, reader) = peek(reader, PREFIX_BYTES).map_err(start)?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        let (line, offset, line_number, nr_lent) = (Vec::new(), 0, 0, 0);
        Ok((Input { reader, offset, line_number, line, nr_lent, nr_read }, prefix))
    }

    /// Returns the shared byte counter. The counter runs up to 64 KiB ahead of the returned lines.
    pub(super) fn bytes_read(&self) -> BytesRead {
        self.nr_read.clone()
    }

    /// Returns the number of the last line read, from 1, or 0 before the first line.
    pub(super) fn line_number(&self) -> u64 {
        self.line_number
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next line without its end (LF or CR LF). Returns `None` at the end.
    pub(super) fn read_line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        self.reader.consume(std::mem::take(&mut self.nr_lent));
        let line = match self.find_line() {
            Some(len) => {
                self.nr_lent = len;
                &self.reader.buffer()[..len]
            }
            None => {
                self.line.clear();
                let mut limited = (&mut self.reader).take(LINE_BYTES_MAX);
                limited
                    .read_until(b'\n', &mut self.line)
                    .map_err(|source| TraceError::Read { offset: self.offset, source })?;
                &self.line[..]
            }
        };
        if line.is_empty() {
            return Ok(None);
        }
        self.offset += line.len() as u64;
        self.line_number += 1;
        let is_first = self.line_number == 1;
        let line = line.strip_prefix(&BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        let Some(line) = line.strip_suffix(b"\n") else {
            let is_too_long = line.len() as u64 == LINE_BYTES_MAX;
            let (line_number, problem) = (self.line_number, LineProblem::NotText);
            let error = TraceError::Line { line: line_number, column: LINE_BYTES_MAX + 1, problem };
            return if is_too_long { Err(error) } else { Ok(Some(line)) };
        };
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn find_line(&self) -> Option<usize> {
        let end = memchr(b'\n', self.reader.buffer())?;
        Some(end + 1).filter(|len| *len as u64 <= LINE_BYTES_MAX)
    }

    /// Reads the next record of `N` bytes. Returns `None` at the end.
    pub(super) fn read_record<const N: usize>(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        // Fast path: the buffer holds the whole record.
        if let Some(&record) = self.reader.buffer().first_chunk() {
            self.reader.consume(N);
            self.offset += N as u64;
            return Ok(Some(record));
        }
        let mut record = [0; N];
        let read_bytes = read_full(&mut self.reader, &mut record)
            .map_err(|source| TraceError::Read { offset: self.offset, source })?;
        if read_bytes == 0 {
            return Ok(None);
        }
        if read_bytes < N {
            return Err(TraceError::Cut { offset: self.offset, record_bytes: N });
        }
        self.offset += N as u64;
        Ok(Some(record))
    }

    /// Appends `wanted` bytes to `out`, or fewer at the end of the file.
    pub(super) fn read_bytes(
        &mut self,
        wanted: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TraceError> {
        let read_bytes = (&mut self.reader)
            .take(wanted as u64)
            .read_to_end(out)
            .map_err(|source| TraceError::Read { offset: self.offset, source })?;
        self.offset += read_bytes as u64;
        Ok(())
    }
}

/// Reads up to `wanted` bytes, and returns a copy with a reader that still starts at the first
/// byte.
fn peek(mut reader: DynRead, wanted: usize) -> io::Result<(Vec<u8>, DynRead)> {
    let mut front = Vec::with_capacity(wanted);
    (&mut reader).take(wanted as u64).read_to_end(&mut front)?;
    let whole = Cursor::new(front.clone()).chain(reader);
    Ok((front, Box::new(whole)))
}

fn read_full(reader: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match reader.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(read_bytes) => filled += read_bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
