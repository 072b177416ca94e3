//! Real files with verifiable contents.
//!
//! Idea: each 8-byte word is a function of file, position and the page's write generation, so each
//! word can be checked alone:
//!
//! ```text
//!   word = mix(file, index of the word in the file, generation of its page)
//!
//!   file 2:  | page 0, gen 0 | page 1, gen 7 | ...     a page of file 1, a neighbour, or gen 6
//!                                                      differ in every word
//! ```
//!
//! Data: files of whole pages, written once, synced, and dropped from the kernel's page cache. A
//! guard removes the temporary folder, also on errors and Ctrl-C.
//!
//! Ignored: partial pages and compressible contents.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use rustix::fs::Advice;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const WORD_BYTES: usize = 8;
pub(crate) const WORDS_PER_PAGE: usize = PAGE_BYTES / WORD_BYTES;
/// Pages per write or read.
const CHUNK_PAGES: u64 = 256;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    /// A number in each word.
    pub(crate) id: u32,
    pub(crate) nr_pages: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrongWord {
    offset: u64,
    expected: u64,
    found: u64,
}

impl DataFile {
    pub(crate) fn len(&self) -> u64 {
        Bytes::from_pages(self.nr_pages).0
    }

    pub(crate) fn fill_page(&self, index: u64, generation: u32, page: &mut [u8]) {
        let first = index * WORDS_PER_PAGE as u64;
        for (word, at) in page.chunks_exact_mut(WORD_BYTES).zip(first..) {
            word.copy_from_slice(&content_word(self.id, at, generation).to_le_bytes());
        }
    }

    /// Checks word `at` of page `index`.
    pub(crate) fn check_word(
        &self,
        index: u64,
        generation: u32,
        page: &[u8],
        at: usize,
    ) -> Result<(), WrongWord> {
        let position = index * WORDS_PER_PAGE as u64 + at as u64;
        let bytes = &page[at * WORD_BYTES..(at + 1) * WORD_BYTES];
        let found = u64::from_le_bytes(bytes.try_into().expect("a slice of eight bytes"));
        let expected = content_word(self.id, position, generation);
        if found == expected {
            return Ok(());
        }
        Err(WrongWord { offset: position * WORD_BYTES as u64, expected, found })
    }

    pub(crate) fn check_page(
        &self,
        index: u64,
        generation: u32,
        page: &[u8],
    ) -> Result<(), WrongWord> {
        (0..page.len() / WORD_BYTES).try_for_each(|at| self.check_word(index, generation, page, at))
    }

    pub(crate) fn failure(&self, wrong: WrongWord) -> Failure {
        Failure::Refused(format!(
            "wrong content in {} at byte {}: expected {:#018x}, found {:#018x}; this is a bug, \
             please report it",
            self.path.display(),
            wrong.offset,
            wrong.expected,
            wrong.found,
        ))
    }

    /// Writes generation 0, syncs and drops the file from the kernel's page cache.
    pub(crate) fn create(
        &self,
        interrupt: &Interrupt,
        mut on_page: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let refuse = |error| Failure::on_path("write", &self.path, &error);
        let mut file = File::create(&self.path).map_err(refuse)?;
        self.for_each_chunk(interrupt, |index, bytes| {
            for (page, at) in bytes.chunks_exact_mut(PAGE_BYTES).zip(index..) {
                self.fill_page(at, 0, page);
            }
            file.write_all(bytes).map_err(refuse)?;
            on_page(index + Bytes(bytes.len() as u64).whole_pages());
            Ok(())
        })?;
        file.sync_all().map_err(refuse)?;
        drop_from_kernel_cache(&self.path)
    }

    /// Reads the file from the disk and checks every page against its generation.
    pub(crate) fn verify(
        &self,
        generations: impl Fn(u64) -> u32,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        drop_from_kernel_cache(&self.path)?;
        let refuse = |error| Failure::on_path("read back", &self.path, &error);
        let file = File::open(&self.path).map_err(refuse)?;
        self.for_each_chunk(interrupt, |index, bytes| {
            file.read_exact_at(bytes, Bytes::from_pages(index).0).map_err(refuse)?;
            for (page, at) in bytes.chunks_exact(PAGE_BYTES).zip(index..) {
                self.check_page(at, generations(at), page).map_err(|wrong| self.failure(wrong))?;
            }
            Ok(())
        })
    }

    /// Calls `take` with a page index and a buffer for the pages from that index.
    fn for_each_chunk(
        &self,
        interrupt: &Interrupt,
        mut take: impl FnMut(u64, &mut [u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut chunk = vec![0; CHUNK_PAGES as usize * PAGE_BYTES];
        for index in (0..self.nr_pages).step_by(CHUNK_PAGES as usize) {
            interrupt.check()?;
            let nr_pages = CHUNK_PAGES.min(self.nr_pages - index);
            take(index, &mut chunk[..nr_pages as usize * PAGE_BYTES])?;
        }
        Ok(())
    }
}

/// Writes back first.
pub(crate) fn drop_from_kernel_cache(path: &Path) -> Result<(), Failure> {
    let refuse = |error| Failure::on_path("drop from the kernel's page cache", path, &error);
    let file = File::open(path).map_err(refuse)?;
    file.sync_all().map_err(refuse)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|errno| refuse(errno.into()))
}

/// Makes a folder that is removed on drop.
pub(crate) fn make_folder(parent: &Path) -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("pagetide-")
        .tempdir_in(parent)
        .map_err(|error| Failure::on_path("make a folder in", parent, &error))
}

pub(crate) fn remove(path: &Path) {
    // The folder's guard removes leftovers.
    let _ = fs::remove_file(path);
}

/// Mixes bits with splitmix64's constants.
fn content_word(file: u32, at: u64, generation: u32) -> u64 {
    let mut word = at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (u64::from(file) << 32 | u64::from(generation)).wrapping_mul(0xd1b5_4a32_d192_ed03);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small_file(dir: &Path) -> DataFile {
        DataFile { path: dir.join("data"), id: 3, nr_pages: 300 }
    }

    #[test]
    fn fresh_file_verifies() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = small_file(dir.path());
        let mut written = 0;
        file.create(&Interrupt::default(), |pages| written = pages).expect("room");
        assert_eq!(written, 300);
        file.verify(|_| 0, &Interrupt::default()).expect("nothing changed");
    }

    #[test]
    fn flipped_byte_is_caught_where_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = small_file(dir.path());
        file.create(&Interrupt::default(), |_| ()).expect("room");
        let raw = File::options().read(true).write(true).open(&file.path).expect("the file");
        let mut byte = [0];
        raw.read_exact_at(&mut byte, 1_000_003).expect("inside");
        raw.write_all_at(&[byte[0] ^ 1], 1_000_003).expect("inside");
        let failure = file.verify(|_| 0, &Interrupt::default()).expect_err("a byte is wrong");
        assert!(failure.to_string().contains("at byte 1000000:"), "{failure}");
    }

    #[test]
    fn other_page_file_or_generation_is_caught() {
        let file = DataFile { path: "x".into(), id: 1, nr_pages: 10 };
        let other = DataFile { id: 2, ..file.clone() };
        let mut page = vec![0; PAGE_BYTES];
        file.fill_page(4, 7, &mut page);
        assert_eq!(file.check_page(4, 7, &page), Ok(()));
        assert!(file.check_page(5, 7, &page).is_err());
        assert!(file.check_page(4, 6, &page).is_err());
        assert!(other.check_page(4, 7, &page).is_err());
    }

    #[test]
    fn interrupted_creation_stops() {
        let dir = tempfile::tempdir().expect("a folder");
        let interrupt = Interrupt::already_set();
        let outcome = small_file(dir.path()).create(&interrupt, |_| ());
        assert!(matches!(outcome, Err(Failure::Interrupted)));
    }
}
