//! Notices: hits without a request, missed pages, and small files in the kernel's page cache.

use super::{put, take};

/// Bytes of a page, as a power of two.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Maximum pages of an entry.
pub const TOUCH_MAX: u64 = 1 << 12;

/// Bytes of an entry.
pub const TOUCH_BYTES: usize = 16;

/// Encodes an entry: `nr` pages of description `id` from `first` on.
pub fn encode_touch(id: u64, first: u64, nr: u64) -> [u8; TOUCH_BYTES] {
    let mut bytes = [0; TOUCH_BYTES];
    put(&mut bytes, 0, id);
    put(&mut bytes, 8, first & ((1 << 48) - 1) | (nr.min(TOUCH_MAX) << 48));
    bytes
}

/// Decodes a log into descriptions, first pages and page counts.
pub fn decode_touches(bytes: &[u8]) -> impl Iterator<Item = (u64, u64, u64)> {
    bytes.as_chunks().0.iter().map(decode_touch)
}

/// Decodes an entry of a log.
pub fn decode_touch(entry: &[u8; TOUCH_BYTES]) -> (u64, u64, u64) {
    let pages = take(entry, 8);
    (take(entry, 0), pages & ((1 << 48) - 1), (pages >> 48).min(TOUCH_MAX))
}

/// Bytes of a [`MissRecord`].
pub const RECORD_BYTES: usize = 32;
/// Marks readahead in a record's index. No file has this page number.
const AROUND: u64 = 1 << 63;
/// Marks a page after the first one of a read, likewise.
const CONTINUES: u64 = 1 << 62;

/// The record of a page that a thread has read from disk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MissRecord {
    /// The description of the read.
    pub id: u64,
    /// The page's index, less than 2^62.
    pub index: u64,
    /// True for readahead.
    pub is_around: bool,
    /// True for a page after the first one of a read.
    pub continues: bool,
    /// The file's write count before and after the read.
    pub writes: u64,
    /// Checksum of record and bytes right after the read.
    pub checksum: u64,
}

impl MissRecord {
    /// Returns this record with the checksum for `page`.
    pub fn sealed(self, page: &[u8]) -> MissRecord {
        MissRecord { checksum: self.sum(page), ..self }
    }

    /// Returns true if record and bytes are unchanged.
    pub fn is_whole(&self, page: &[u8]) -> bool {
        self.sum(page) == self.checksum
    }

    /// Encodes the record.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let fields = [self.id, self.index_word(), self.writes, self.checksum];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> MissRecord {
        MissRecord {
            id: take(bytes, 0),
            index: take(bytes, 8) & !(AROUND | CONTINUES),
            is_around: take(bytes, 8) & AROUND != 0,
            continues: take(bytes, 8) & CONTINUES != 0,
            writes: take(bytes, 16),
            checksum: take(bytes, 24),
        }
    }

    fn index_word(&self) -> u64 {
        let around = if self.is_around { AROUND } else { 0 };
        self.index | around | if self.continues { CONTINUES } else { 0 }
    }

    /// Four lane sums and sums of their running values, which depend on the order of words. Only
    /// additions, several at a time. Detects stray writes, not attacks.
    fn sum(&self, page: &[u8]) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let (mut sums, mut of_sums) = ([0_u64; 4], [0_u64; 4]);
        for line in page.as_chunks::<32>().0 {
            for (lane, word) in line.as_chunks::<8>().0.iter().enumerate() {
                sums[lane] = sums[lane].wrapping_add(u64::from_le_bytes(*word));
                of_sums[lane] = of_sums[lane].wrapping_add(sums[lane]);
            }
        }
        let head = [self.id, self.index_word(), self.writes, page.len() as u64];
        let all = head.iter().chain(&sums).chain(&of_sums);
        all.fold(0, |sum, part| (sum ^ part).wrapping_mul(ODD).rotate_left(29))
    }
}

/// Splits an [`Op::Insert`](super::Op::Insert) of `nr` pages into records and log.
pub fn decode_records(data: &[u8], nr: u64) -> (impl Iterator<Item = MissRecord>, &[u8]) {
    let nr = usize::try_from(nr).unwrap_or(usize::MAX).min(data.len() / RECORD_BYTES);
    let (records, log) = data.split_at(nr * RECORD_BYTES);
    (records.as_chunks::<RECORD_BYTES>().0.iter().map(MissRecord::decode), log)
}

/// Bytes of a [`SmallFile`] without its path.
pub const SMALL_FILE_BYTES: usize = 32;

/// Maximum number of bytes of a small file in the kernel's page cache. Any process can send a
/// report.
const SMALL_BYTES_MAX: u64 = super::pass::WINDOW;

/// Marks a written file in the field of the path's length.
const WRITTEN: u64 = 1 << 63;

/// The head of a report of a small file. The path follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallFile {
    /// Device number, as in stat(2).
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes in the kernel's page cache, at most.
    pub nr_bytes: u64,
    /// True if the program has written the bytes.
    pub is_written: bool,
    /// Bytes of the path.
    pub path_len: usize,
}

impl SmallFile {
    /// Encodes the head.
    pub fn encode(&self) -> [u8; SMALL_FILE_BYTES] {
        let mut bytes = [0; SMALL_FILE_BYTES];
        let last = self.path_len as u64 | if self.is_written { WRITTEN } else { 0 };
        let fields = [self.device, self.inode, self.nr_bytes, last];
        (0..).step_by(8).zip(fields).for_each(|(at, field)| put(&mut bytes, at, field));
        bytes
    }
}

/// Decodes small files with their paths, up to the first one that is not whole.
pub fn decode_small_files(mut bytes: &[u8]) -> impl Iterator<Item = (SmallFile, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_at_checked(SMALL_FILE_BYTES)?;
        let is_written = take(head, 24) & WRITTEN != 0;
        let path_len = usize::try_from(take(head, 24) & !WRITTEN).ok()?;
        let (path, rest) = rest.split_at_checked(path_len)?;
        bytes = rest;
        let (device, inode) = (take(head, 0), take(head, 8));
        let nr_bytes = take(head, 16).min(SMALL_BYTES_MAX);
        Some((SmallFile { device, inode, nr_bytes, is_written, path_len }, path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_survive_the_wire() {
        let file = |inode, path_len| {
            let is_written = inode == 1;
            SmallFile { device: 5, inode, nr_bytes: 9, is_written, path_len }
        };
        let files = [(file(1, 2), &b"/a"[..]), (file(u64::MAX, 0), &b""[..])];
        let bytes: Vec<u8> =
            files.iter().flat_map(|(file, path)| [&file.encode()[..], path].concat()).collect();
        assert!(decode_small_files(&bytes).eq(files));
        assert_eq!(decode_small_files(&bytes[..40]).count(), 1, "the second one is not whole");
        assert_eq!(decode_small_files(&[0xff; 64]).count(), 0, "a path without end");
    }

    #[test]
    fn a_log_survives_the_wire() {
        let pages = [(7, 1 << 31, 1), (u64::MAX, 0, TOUCH_MAX)];
        let bytes: Vec<u8> = pages.iter().flat_map(|(a, b, c)| encode_touch(*a, *b, *c)).collect();
        assert!(decode_touches(&bytes).eq(pages));
        assert_eq!(decode_touches(&[0xff; 16]).next().unwrap().2, TOUCH_MAX);
    }

    #[test]
    fn a_record_of_changed_bytes_is_refused() {
        let page: Vec<u8> = (0..4096_u32).map(|at| at as u8).collect();
        let label = MissRecord { id: 5, index: 9, writes: 2, ..MissRecord::default() };
        let record = label.sealed(&page);
        let data = [&record.encode()[..], b"log"].concat();
        let (records, log) = decode_records(&data, 1);
        assert_eq!((records.collect::<Vec<_>>(), log), (vec![record], &b"log"[..]));
        assert!(record.is_whole(&page));
        for at in [0, 1234, 4095] {
            let mut other = page.clone();
            other[at] ^= 1;
            assert!(!record.is_whole(&other));
        }
        // Swapped words: neighbours, and words of one sum.
        for (at, other_at) in [(0, 8), (0, 32), (64, 4064)] {
            let mut other = page.clone();
            (0..8).for_each(|byte| other.swap(at + byte, other_at + byte));
            assert!(!record.is_whole(&other), "{at}, {other_at}");
        }
        assert!(!MissRecord { index: 8, ..record }.is_whole(&page));
        let around = MissRecord { is_around: true, continues: true, ..label }.sealed(&page);
        assert_eq!(MissRecord::decode(&around.encode()), around);
        assert!(!MissRecord { is_around: false, ..around }.is_whole(&page));
        assert!(!MissRecord { writes: 0, ..record }.is_whole(&page));
        assert_eq!(decode_records(&data, u64::MAX).0.count(), 1, "no more than there are");
        assert_eq!(decode_records(&[], 1).0.count(), 0);
    }
}
