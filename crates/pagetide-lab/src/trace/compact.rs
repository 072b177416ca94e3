//! Pagetide's own record, passed to core's decoder one buffer at a time.

use super::input::Input;
use super::{Ending, Header, Note, Request, Source, TraceError};
use pagetide_core::record::{
    Decoded, Decoder, ENTRY_BYTES_MAX, Entry, HEADER_FIXED_BYTES, RecordError,
};

const CHUNK_BYTES: usize = 64 << 10;

pub(super) struct Compact {
    input: Input,
    header: Header,
    decoder: Decoder,
    /// Bytes read from the file. The bytes before `used` are decoded.
    bytes: Vec<u8>,
    used: usize,
    /// Notes between the last entry and the entry before it.
    notes: Vec<Note>,
    ending: Option<Ending>,
}

impl Compact {
    pub(super) fn open(mut input: Input) -> Result<Compact, TraceError> {
        let mut bytes = Vec::new();
        input.read_bytes(HEADER_FIXED_BYTES, &mut bytes)?;
        let (header, header_bytes) = loop {
            match Header::decode(&bytes) {
                Err(RecordError::HeaderShort { needed_bytes })
                    if input.offset() < needed_bytes as u64 =>
                {
                    let had_bytes = bytes.len();
                    input.read_bytes(needed_bytes - had_bytes, &mut bytes)?;
                    if bytes.len() < needed_bytes {
                        return Err(RecordError::HeaderShort { needed_bytes }.into());
                    }
                }
                decoded => break decoded?,
            }
        };
        let decoder = Decoder::new(header_bytes);
        let (used, notes, ending) = (header_bytes, Vec::new(), None);
        Ok(Compact { input, header, decoder, bytes, used, notes, ending })
    }

    /// Fills the buffer with the longest possible entry, or to the end.
    fn refill(&mut self) -> Result<(), TraceError> {
        if self.bytes.len() - self.used < ENTRY_BYTES_MAX {
            self.bytes.drain(..self.used);
            self.used = 0;
            self.input.read_bytes(CHUNK_BYTES, &mut self.bytes)?;
        }
        Ok(())
    }
}

impl Source for Compact {
    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        self.notes.clear();
        loop {
            self.refill()?;
            let left = &self.bytes[self.used..];
            let is_last = left.is_empty();
            match self.decoder.step(left)? {
                Decoded::Entry(Entry::Access(access), used) => {
                    self.used += used;
                    let page = Request::page(access.page.index.0, access.kind);
                    let (mapping, thread) = (access.page.mapping, access.thread);
                    return Ok(Some(Request { mapping, thread, ..page }));
                }
                Decoded::Entry(Entry::Note(note), used) => {
                    self.used += used;
                    self.notes.push(note);
                    continue;
                }
                Decoded::End(used) if used < left.len() => {
                    return Err(RecordError::AfterEnd { offset: self.decoder.offset() }.into());
                }
                Decoded::End(_) => self.ending = Some(Ending::Complete),
                Decoded::Short if is_last => self.ending = Some(Ending::Unfinished),
                Decoded::Short => self.ending = Some(Ending::Torn),
            }
            return Ok(None);
        }
    }

    /// Appends only one request, as [`Source::notes`] belong before it.
    fn append_requests(&mut self, ready: &mut Vec<Request>) -> Result<(), TraceError> {
        ready.extend(self.next_request()?);
        Ok(())
    }

    fn notes(&self) -> &[Note] {
        &self.notes
    }

    fn header(&self) -> Option<&Header> {
        Some(&self.header)
    }

    fn ending(&self) -> Option<Ending> {
        self.ending
    }
}
