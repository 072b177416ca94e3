//! Writes a record.

use super::numbers::{append_varint, zigzag};
use super::{
    Access, Context, DELTA_FOLLOWS, DELTA_SHIFT, KIND_END, KIND_MORE, MAPPING_FOLLOWS,
    NOTE_MAPPING, NOTE_TICK, Note, THREAD_FOLLOWS, groups,
};
use alloc::vec::Vec;

/// Encoder of one record.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    context: Context,
    nr_entries: u64,
}

impl Encoder {
    /// Creates an encoder for entries after a header.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Appends an entry, usually of one to four bytes, at most
    /// [`ENTRY_BYTES_MAX`](super::ENTRY_BYTES_MAX).
    ///
    /// # Concurrency
    /// The caller serializes.
    pub fn append(&mut self, access: &Access, out: &mut Vec<u8>) {
        let page = access.page;
        let delta = zigzag(page.index.0.wrapping_sub(self.context.last_index(page.mapping)));
        let mut tag = (access.kind as u8).min(KIND_MORE);
        tag |= (delta.min(DELTA_FOLLOWS) as u8) << DELTA_SHIFT;
        if access.thread != self.context.thread {
            tag |= THREAD_FOLLOWS;
        }
        if page.mapping != self.context.mapping {
            tag |= MAPPING_FOLLOWS;
        }
        out.push(tag);
        if access.kind as u8 >= KIND_MORE {
            out.push(access.kind as u8 - KIND_MORE);
        }
        if tag & THREAD_FOLLOWS != 0 {
            append_varint(u64::from(access.thread), out);
        }
        if tag & MAPPING_FOLLOWS != 0 {
            append_varint(u64::from(page.mapping.0), out);
        }
        if delta >= DELTA_FOLLOWS {
            append_varint(delta, out);
        }
        self.context.update(access);
        self.nr_entries += 1;
    }

    /// Appends a note, at most [`ENTRY_BYTES_MAX`](super::ENTRY_BYTES_MAX) bytes.
    ///
    /// # Concurrency
    /// As [`Encoder::append`].
    pub fn append_note(&mut self, note: &Note, out: &mut Vec<u8>) {
        out.push(KIND_MORE);
        match note {
            Note::Tick(now) => {
                out.push(NOTE_TICK);
                append_varint(zigzag(now.0.wrapping_sub(self.context.tick.0)), out);
                self.context.tick = *now;
            }
            Note::Mapping(mapping) => {
                out.push(NOTE_MAPPING);
                append_varint(u64::from(mapping.id.0), out);
                append_varint(mapping.nr_pages, out);
                append_varint(mapping.created.0, out);
            }
            Note::Group(note) => groups::append(note, out),
        }
        self.nr_entries += 1;
    }

    /// Appends the end. Nothing may follow.
    pub fn finish(self, out: &mut Vec<u8>) {
        out.push(KIND_END);
        append_varint(self.nr_entries, out);
    }
}
