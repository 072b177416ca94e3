//! The resident set as text, for another cache to start with.
//!
//! ```text
//!   dump   pages --heat by their policy--> ranges of each file --> text
//!   warm   text --> files as they are opened, if unchanged --> the hottest pages first
//! ```
//!
//! A file is identified by inode, length and modification time. Ignored: device numbers, which
//! change on reboot.

use pagetide_core::ids::PageIndex;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// First line, with the format version.
const HEAD: &str = "pagetide resident 1";

/// The resident pages of a cache and their heat, from [`PageCache::dump`](crate::PageCache::dump).
///
/// See docs/formats.md for the text ([`Display`](fmt::Display), [`FromStr`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResidentSet {
    /// Files with resident pages.
    pub files: Vec<ResidentFile>,
}

/// One file of a [`ResidentSet`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResidentFile {
    /// Inode number.
    pub ino: u64,
    /// Length in bytes.
    pub len: u64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Path for information, `None` if the file was closed.
    pub path: Option<PathBuf>,
    /// Ranges in page order.
    pub ranges: Vec<ResidentRange>,
}

/// Adjacent pages with the same heat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResidentRange {
    /// Heat by the policy. More is hotter.
    pub heat: u8,
    /// First page.
    pub first: u64,
    /// Number of pages, at least one.
    pub nr: u64,
}

/// Progress of [`PageCache::warm`](crate::PageCache::warm).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WarmStats {
    /// Pages requested so far, in opened and unchanged files.
    pub pages: u64,
    /// Requested pages read. The rest was resident already, or skipped with memory full.
    pub brought_in: u64,
    /// Opened files that had changed, and were skipped.
    pub stale_files: u64,
    /// Pages still to come.
    pub waiting: u64,
}

/// An invalid text of a [`ResidentSet`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseResidentError {
    /// The first line belongs to another format or version. Make a new dump.
    #[error("it does not begin with \"{HEAD}\": it is no dump of this version")]
    NoDump,
    /// A line is malformed.
    #[error("line {line} is neither a file, nor a range of pages, nor the end: {text:?}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Start of the line.
        text: String,
    },
    /// The last line is missing, as the dump was cut. Make a new one.
    #[error("it was cut: its last line is not \"end\"")]
    Cut,
}

impl ResidentSet {
    /// Returns the number of pages in all ranges.
    pub fn nr_pages(&self) -> u64 {
        let ranges = self.files.iter().flat_map(|file| &file.ranges);
        ranges.fold(0, |sum: u64, range| sum.saturating_add(range.nr))
    }
}

impl fmt::Display for ResidentSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for file in &self.files {
            let path = file.path.as_ref().map(|path| path.display().to_string());
            let path = path.map_or("-".to_owned(), |path| path.escape_debug().to_string());
            writeln!(f, "file {} {} {} {path}", file.ino, file.len, file.mtime_ns)?;
            for range in &file.ranges {
                writeln!(f, "{} {} {}", range.heat, range.first, range.nr)?;
            }
        }
        f.write_str("end\n")
    }
}

impl FromStr for ResidentSet {
    type Err = ParseResidentError;

    fn from_str(text: &str) -> Result<ResidentSet, ParseResidentError> {
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, head)| head != HEAD) {
            return Err(ParseResidentError::NoDump);
        }
        let mut set = ResidentSet::default();
        for (line, text) in lines {
            let wrong = || ParseResidentError::Line { line, text: text.chars().take(40).collect() };
            if text == "end" {
                return Ok(set);
            }
            match text.strip_prefix("file ") {
                Some(file) => set.files.push(parse_file(file).ok_or_else(wrong)?),
                None => {
                    let file = set.files.last_mut().ok_or_else(wrong)?;
                    file.ranges.push(parse_range(text).ok_or_else(wrong)?);
                }
            }
        }
        Err(ParseResidentError::Cut)
    }
}

fn parse_file(text: &str) -> Option<ResidentFile> {
    let mut words = text.splitn(4, ' ');
    let (ino, len) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mtime_ns = words.next()?.parse().ok()?;
    let path = words.next().filter(|path| *path != "-").map(PathBuf::from);
    Some(ResidentFile { ino, len, mtime_ns, path, ranges: Vec::new() })
}

fn parse_range(text: &str) -> Option<ResidentRange> {
    let mut words = text.split(' ');
    let heat = words.next()?.parse().ok()?;
    let (first, nr): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let is_range = words.next().is_none() && nr > 0 && first.checked_add(nr).is_some();
    is_range.then_some(ResidentRange { heat, first, nr })
}

impl ResidentFile {
    pub(crate) fn push(&mut self, index: PageIndex, heat: u8) {
        match self.ranges.last_mut() {
            Some(last) if last.heat == heat && last.first + last.nr == index.0 => last.nr += 1,
            _ => self.ranges.push(ResidentRange { heat, first: index.0, nr: 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> ResidentSet {
        let range = |heat, first, nr| ResidentRange { heat, first, nr };
        let file = ResidentFile {
            ino: 12,
            len: 40960,
            mtime_ns: -5,
            path: Some("/a b".into()),
            ranges: vec![range(7, 0, 3), range(0, 9, 1)],
        };
        ResidentSet { files: vec![file, ResidentFile::default()] }
    }

    #[test]
    fn text_is_read_back() {
        let text = set().to_string();
        assert_eq!(
            text,
            "pagetide resident 1\nfile 12 40960 -5 /a b\n7 0 3\n0 9 1\nfile 0 0 0 -\nend\n"
        );
        assert_eq!(text.parse(), Ok(set()));
        assert_eq!(set().nr_pages(), 4);
    }

    #[test]
    fn bad_input_is_a_sentence() {
        let said = |text: &str| text.parse::<ResidentSet>().expect_err("it is no dump").to_string();
        assert!(said("").contains("no dump") && said("pagetide resident 2\nend\n").contains("no"));
        assert!(said("pagetide resident 1\nfile 1 2 3 -\n").contains("cut"));
        for line in ["1 2 3", "file 1 2", "file x 2 3 -", "", "\u{0}"] {
            let said = said(&format!("{HEAD}\n{line}\nend\n"));
            assert!(said.starts_with("line 2 is neither"), "{said}");
        }
        for line in ["1 2", "1 2 0", "256 2 1", "1 2 3 4", "1 18446744073709551615 1", "-1 2 3"] {
            let said = said(&format!("{HEAD}\nfile 1 2 3 -\n{line}\nend\n"));
            assert!(said.starts_with("line 3 is neither"), "{said}");
        }
    }

    #[test]
    fn neighbours_of_one_heat_are_a_range() {
        let mut file = ResidentFile::default();
        for (index, heat) in [(1, 2), (2, 2), (3, 1), (5, 1)] {
            file.push(PageIndex(index), heat);
        }
        let ranges: Vec<(u8, u64, u64)> =
            file.ranges.iter().map(|it| (it.heat, it.first, it.nr)).collect();
        assert_eq!(ranges, [(2, 1, 2), (1, 3, 1), (1, 5, 1)]);
    }
}
