//! Selection of managed files by path.
//!
//! ```text
//!   *  any part of a name      **  any part of a path      ?  one character but /
//! ```
//!
//! A pattern with a slash matches the whole path, without a slash the last name. Other regular
//! files are managed unless in the system's folders.
//!
//! Ignored: several names of one file. The first opened name decides for the whole run.

use std::path::Path;

/// Folders left to the kernel unless `--include` names them.
pub(crate) const SYSTEM_FOLDERS: [&str; 9] =
    ["/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc"];

/// The rules of one run.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// If not empty, only matching files are managed.
    pub include: Vec<String>,
    /// Files never managed.
    pub exclude: Vec<String>,
}

impl Filter {
    pub(crate) fn takes(&self, path: &Path) -> bool {
        let Some(text) = path.to_str() else { return self.include.is_empty() };
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, text));
        if any(&self.exclude) {
            return false;
        }
        if !self.include.is_empty() {
            return any(&self.include);
        }
        // The path of a memory file is fake.
        let is_memory = text.starts_with("/memfd:");
        let is_system = SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
        !is_memory && !is_system
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let text = if pattern.contains('/') { path } else { path.rsplit('/').next().unwrap_or(path) };
    matches_bytes(pattern.as_bytes(), text.as_bytes())
}

fn matches_bytes(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|at| matches_bytes(rest, &text[at..])),
        [b'*', rest @ ..] => {
            let end = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            (0..=end).any(|at| matches_bytes(rest, &text[at..]))
        }
        [b'?', rest @ ..] => {
            text.first().is_some_and(|byte| *byte != b'/') && matches_bytes(rest, &text[1..])
        }
        [byte, rest @ ..] => text.first() == Some(byte) && matches_bytes(rest, &text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(include: &[&str], exclude: &[&str], path: &str) -> bool {
        let own = |patterns: &[&str]| patterns.iter().map(|one| (*one).to_owned()).collect();
        Filter { include: own(include), exclude: own(exclude) }.takes(Path::new(path))
    }

    #[test]
    fn system_files_are_left_to_the_kernel_unless_named() {
        assert!(takes(&[], &[], "/data/usr/a.db"));
        assert!(takes(&[], &[], "/etcetera/a"));
        for path in ["/usr/share/a", "/etc/passwd", "/proc/1/maps", "/memfd:a (deleted)"] {
            assert!(!takes(&[], &[], path), "{path}");
        }
        assert!(takes(&["/usr/share/**"], &[], "/usr/share/a/b"));
    }

    #[test]
    fn patterns_match_names_or_paths() {
        assert!(takes(&["*.db"], &[], "/a/b/c.db"));
        assert!(!takes(&["*.db"], &[], "/a/b.db/c"));
        assert!(!takes(&["/a/*.db"], &[], "/a/b/c.db"));
        assert!(takes(&["/a/**.db"], &[], "/a/b/c.db"));
        assert!(takes(&["/a/?.db"], &[], "/a/c.db"));
        assert!(!takes(&["*.db"], &["/a/**"], "/a/c.db"));
        assert!(!takes(&[], &["*.log"], "/a/c.log"));
    }
}
