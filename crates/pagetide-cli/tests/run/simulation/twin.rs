//! The expected files of a simulation: byte vectors with positions.

use super::Answer;
use std::collections::BTreeMap;

const EBADF: i32 = 9;
const EINVAL: i32 = 22;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Both,
}

/// Shared by duplicated and inherited descriptors.
struct Description {
    file: usize,
    access: Access,
    appends: bool,
    position: usize,
}

#[derive(Default)]
pub(super) struct Twin {
    files: Vec<Vec<u8>>,
    names: BTreeMap<&'static str, usize>,
    descriptions: Vec<Description>,
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).map(char::from).collect()
}

fn put(file: &mut Vec<u8>, bytes: &[u8], at: usize) {
    file.resize(file.len().max(at + bytes.len()), 0);
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Twin {
    pub(super) fn replace(&mut self, name: &'static str, contents: Vec<u8>) {
        self.names.insert(name, self.files.len());
        self.files.push(contents);
    }

    pub(super) fn file(&mut self, name: &str) -> &mut Vec<u8> {
        &mut self.files[self.names[name]]
    }

    pub(super) fn name_of(&self, description: usize) -> Option<&'static str> {
        let file = self.descriptions[description].file;
        self.names.iter().find(|(_, named)| **named == file).map(|(name, _)| *name)
    }

    pub(super) fn open(&mut self, name: &str, access: Access, appends: bool, cuts: bool) -> usize {
        if cuts {
            self.file(name).clear();
        }
        let file = self.names[name];
        self.descriptions.push(Description { file, access, appends, position: 0 });
        self.descriptions.len() - 1
    }

    pub(super) fn access(&self, description: usize) -> Access {
        self.descriptions[description].access
    }

    pub(super) fn may_write(&self, description: usize) -> bool {
        self.access(description) != Access::Read
    }

    pub(super) fn appends(&self, description: usize) -> bool {
        self.descriptions[description].appends
    }

    pub(super) fn len(&self, description: usize) -> usize {
        self.files[self.descriptions[description].file].len()
    }

    fn file_of(&mut self, description: usize) -> &mut Vec<u8> {
        &mut self.files[self.descriptions[description].file]
    }

    pub(super) fn read_at(&mut self, description: usize, count: usize, at: usize) -> Answer {
        if self.access(description) == Access::Write {
            return Err(EBADF);
        }
        let file = self.file_of(description);
        let end = file.len().min(at + count);
        Ok(hex(&file[at.min(end)..end]))
    }

    pub(super) fn read(&mut self, description: usize, count: usize) -> Answer {
        let position = self.descriptions[description].position;
        let read = self.read_at(description, count, position)?;
        self.descriptions[description].position += read.len() / 2;
        Ok(read)
    }

    pub(super) fn write(&mut self, description: usize, bytes: &[u8]) -> Answer {
        let length = self.len(description);
        let Description { position, appends, .. } = self.descriptions[description];
        let at = if appends { length } else { position };
        let written = self.write_at(description, bytes, at)?;
        self.descriptions[description].position = at + bytes.len();
        Ok(written)
    }

    /// Ignores `at` if the description appends.
    pub(super) fn write_at(&mut self, description: usize, bytes: &[u8], at: usize) -> Answer {
        if !self.may_write(description) {
            return Err(EBADF);
        }
        let at = if self.appends(description) { self.len(description) } else { at };
        self.write_at_anyway(description, bytes, at);
        Ok(bytes.len().to_string())
    }

    pub(super) fn write_at_anyway(&mut self, description: usize, bytes: &[u8], at: usize) {
        put(self.file_of(description), bytes, at);
    }

    /// Applies a killed process's write: `seen` of the file determines the written part, and the
    /// position must agree if known.
    pub(super) fn write_partly(
        &mut self,
        description: usize,
        bytes: &[u8],
        seen: &[u8],
        position: Option<usize>,
    ) {
        let length = self.len(description);
        let Description { position: before, appends, .. } = self.descriptions[description];
        let at = if appends { length } else { before };
        let there = seen.get(at..).unwrap_or_default();
        let same = there.iter().zip(bytes).take_while(|(seen, own)| seen == own).count();
        let done = match position {
            Some(position) if position == before => 0,
            Some(position) => position.checked_sub(at).expect("it moves forwards"),
            None => same,
        };
        assert!(done <= same, "{done} bytes at {at} are said to be written, {same} are there");
        if done > 0 {
            put(self.file_of(description), &bytes[..done], at);
            self.descriptions[description].position = at + done;
        }
        let same = self.file_of(description) == seen;
        assert!(same, "{done} bytes at {at}, and others are not as before");
    }

    pub(super) fn seek(&mut self, description: usize, whence: &str, by: usize) -> Answer {
        let length = self.len(description);
        let position = &mut self.descriptions[description].position;
        *position = match whence {
            "SET" => by,
            "CUR" => *position + by,
            _ => length + by,
        };
        Ok(position.to_string())
    }

    pub(super) fn set_len(&mut self, description: usize, length: usize) -> Answer {
        if !self.may_write(description) {
            return Err(EINVAL);
        }
        self.file_of(description).resize(length, 0);
        Ok("None".into())
    }

    /// Modes of fallocate: 1 keeps the length, 3 punches a hole, 16 writes zeros.
    pub(super) fn allocate(
        &mut self,
        description: usize,
        mode: i32,
        at: usize,
        count: usize,
    ) -> Answer {
        if !self.may_write(description) {
            return Err(EBADF);
        }
        let file = self.file_of(description);
        if mode & 1 == 0 {
            file.resize(file.len().max(at + count), 0);
        }
        if mode & 18 != 0 {
            let end = file.len().min(at + count);
            file[at.min(end)..end].fill(0);
        }
        Ok("None".into())
    }
}
