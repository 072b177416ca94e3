//! Reads a record. Trusts nothing: every byte may be wrong or missing.

use super::numbers::{Fault, Input, unzigzag};
use super::{
    Access, AccessKind, Context, DELTA_FOLLOWS, DELTA_SHIFT, Ending, Entry, Header, KIND_END,
    KIND_MASK, KIND_MORE, MAPPING_FOLLOWS, NOTE_MAPPING, NOTE_TICK, Note, RecordError,
    THREAD_FOLLOWS, groups,
};
use crate::ids::{MappingId, PageId, PageIndex};
use crate::tiering::ScannedMapping;
use crate::units::Millis;

/// Result of one step of a [`Decoder`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded {
    /// An entry, and its length in bytes.
    Entry(Entry, usize),
    /// The end, and its length in bytes. Nothing may follow.
    End(usize),
    /// The slice ends inside an entry, or is empty. Pass more bytes.
    Short,
}

/// Decodes a stream of entries.
#[derive(Clone, Debug)]
pub struct Decoder {
    context: Context,
    nr_entries: u64,
    offset: u64,
}

impl Decoder {
    /// Creates a decoder for the entries after a header.
    pub fn new(header_bytes: usize) -> Decoder {
        Decoder { context: Context::default(), nr_entries: 0, offset: header_bytes as u64 }
    }

    /// Decodes the entry at the start of `bytes`.
    ///
    /// The caller drops the used bytes and calls again. [`Decoded::Short`] changes nothing, and is
    /// impossible with [`ENTRY_BYTES_MAX`](super::ENTRY_BYTES_MAX) bytes.
    ///
    /// # Errors
    /// [`RecordError::UnknownKind`], [`RecordError::NumberTooLarge`] and
    /// [`RecordError::WrongCount`], all final.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Decoded, RecordError> {
        let mut input = Input { bytes, used: 0 };
        match self.parse(&mut input) {
            Ok(step) => {
                self.offset += input.used as u64;
                Ok(step)
            }
            Err(Fault::Short) => Ok(Decoded::Short),
            Err(Fault::UnknownKind { kind }) => {
                Err(RecordError::UnknownKind { kind, offset: self.offset })
            }
            Err(Fault::TooLarge) => Err(RecordError::NumberTooLarge { offset: self.offset }),
            Err(Fault::WrongCount { stated }) => {
                Err(RecordError::WrongCount { stated, found: self.nr_entries })
            }
        }
    }

    /// Returns the byte offset of the next entry in the record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn parse(&mut self, input: &mut Input<'_>) -> Result<Decoded, Fault> {
        let tag = input.byte()?;
        if tag & KIND_MASK == KIND_END {
            let stated = input.varint()?;
            if stated != self.nr_entries {
                return Err(Fault::WrongCount { stated });
            }
            return Ok(Decoded::End(input.used));
        }
        let mut code = tag & KIND_MASK;
        if code == KIND_MORE {
            let more = input.byte()?;
            if more >= NOTE_TICK {
                let note = self.parse_note(more, tag, input)?;
                return Ok(Decoded::Entry(Entry::Note(note), input.used));
            }
            code += more;
        }
        let kind =
            *AccessKind::ALL.get(usize::from(code)).ok_or(Fault::UnknownKind { kind: code })?;
        let thread =
            if tag & THREAD_FOLLOWS != 0 { input.varint_u32()? } else { self.context.thread };
        let mapping = if tag & MAPPING_FOLLOWS != 0 {
            MappingId(input.varint_u32()?)
        } else {
            self.context.mapping
        };
        let delta = match u64::from(tag >> DELTA_SHIFT) {
            DELTA_FOLLOWS => input.varint()?,
            small => small,
        };
        let index = PageIndex(self.context.last_index(mapping).wrapping_add(unzigzag(delta)));
        let access = Access { page: PageId { mapping, index }, kind, thread };
        self.context.update(&access);
        self.nr_entries += 1;
        Ok(Decoded::Entry(Entry::Access(access), input.used))
    }

    fn parse_note(&mut self, which: u8, tag: u8, input: &mut Input<'_>) -> Result<Note, Fault> {
        let note = match which {
            _ if tag != KIND_MORE => return Err(Fault::UnknownKind { kind: tag }),
            NOTE_TICK => {
                let step = unzigzag(input.varint()?);
                let now = Millis(self.context.tick.0.wrapping_add(step));
                self.context.tick = now;
                Note::Tick(now)
            }
            NOTE_MAPPING => Note::Mapping(ScannedMapping {
                id: MappingId(input.varint_u32()?),
                nr_pages: input.varint()?,
                created: Millis(input.varint()?),
            }),
            _ => Note::Group(groups::parse(which, input)?),
        };
        self.nr_entries += 1;
        Ok(note)
    }
}

/// Entries of a record in memory. Ends after an error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    decoder: Decoder,
    bytes: &'a [u8],
    is_over: bool,
    ending: Option<Ending>,
}

impl<'a> Entries<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// As [`Header::decode`].
    pub fn new(record: &'a [u8]) -> Result<(Header, Entries<'a>), RecordError> {
        let (header, header_bytes) = Header::decode(record)?;
        let decoder = Decoder::new(header_bytes);
        let bytes = &record[header_bytes..];
        Ok((header, Entries { decoder, bytes, is_over: false, ending: None }))
    }

    /// Returns the ending. `None` before the end, or after an error.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.decoder.step(self.bytes);
        if let Ok(Decoded::Entry(entry, used)) = step {
            self.bytes = &self.bytes[used..];
            return Some(Ok(entry));
        }
        self.is_over = true;
        match step {
            Err(error) => return Some(Err(error)),
            Ok(Decoded::End(used)) if used < self.bytes.len() => {
                return Some(Err(RecordError::AfterEnd { offset: self.decoder.offset() }));
            }
            Ok(Decoded::End(_)) => self.ending = Some(Ending::Complete),
            Ok(_) if self.bytes.is_empty() => self.ending = Some(Ending::Unfinished),
            Ok(_) => self.ending = Some(Ending::Torn),
        }
        None
    }
}
