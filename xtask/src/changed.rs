//! Lists the files of a change, so that expensive steps run only for changed files.
//!
//! ```text
//! HEAD is a merge      --> the difference to its first parent
//! HEAD is not a merge  --> the difference to the last merge before it
//! both                 --> also uncommitted changes, in tracked and untracked files
//! ```
//!
//! Every step runs if git cannot tell (no repository, a shallow clone without a merge).

use std::path::Path;
use std::process::Command;

/// The files that differ from a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The abbreviated hash of the commit.
    since: String,
    files: Vec<String>,
}

impl Change {
    /// Lists the changed files with git. Returns `None` if git cannot tell.
    pub(crate) fn of_tree(root: &Path) -> Option<Change> {
        let is_merge = git(root, &["rev-parse", "--verify", "--quiet", "HEAD^2"]).is_some();
        let base = if is_merge {
            "HEAD^1".to_owned()
        } else {
            git(root, &["rev-list", "--merges", "--max-count=1", "HEAD"])?
        };
        let since = git(root, &["rev-parse", "--short", "--verify", "--quiet", base.trim()])?;
        let since = since.trim().to_owned();
        let changed = git(root, &["diff", "--name-only", "--no-renames", &since, "--"])?;
        let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
        let files = changed.lines().chain(new.lines()).map(str::to_owned).collect();
        Some(Change { since, files })
    }

    /// Returns the reason to leave out a step that checks these paths, or `None` if one has
    /// changed.
    pub(crate) fn excuse(&self, followed: &[&str]) -> Option<String> {
        let follows = |file: &String| followed.iter().any(|path| is_in(file, path));
        if followed.is_empty() || self.files.iter().any(follows) {
            return None;
        }
        let (since, followed) = (&self.since, followed.join(", "));
        Some(format!("nothing in {followed} has changed since {since} (--long runs it)"))
    }
}

fn is_in(file: &str, path: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the output of git, or `None` if git fails. Empty output is a failure except for `diff`
/// and `ls-files`.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    let is_empty_list = matches!(arguments[0], "diff" | "ls-files");
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    (is_empty_list || !text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_step_runs_if_a_file_that_it_follows_has_changed() {
        let files = ["crates/a/src/b/c.rs", "docs/d.md"].map(str::to_owned).to_vec();
        let change = Change { since: "1f".to_owned(), files };
        assert_eq!(change.excuse(&["crates/a/src"]), None);
        assert_eq!(change.excuse(&["fuzz", "docs/d.md"]), None);
        assert_eq!(change.excuse(&[]), None);
        let why = change.excuse(&["crates/a/s", "fuzz"]).unwrap();
        assert_eq!(why, "nothing in crates/a/s, fuzz has changed since 1f (--long runs it)");
    }

    fn repository(name: &str) -> std::path::PathBuf {
        let name = format!("pagetide-changed-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Runs git in `folder` with a test user and without this machine's configuration. Returns
    /// false if a command fails or git is missing.
    fn run(folder: &Path, lines: &[&str]) -> bool {
        let user = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        lines.iter().all(|line| {
            let mut git = Command::new("git");
            git.args(user).args(line.split(' ')).current_dir(folder);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().is_ok_and(|it| it.status.success())
        })
    }

    #[test]
    fn changes_are_counted_from_the_last_merge_or_from_the_first_parent_of_a_merge() {
        let folder = repository("merge");
        let write = |name: &str| fs::write(folder.join(name), name).unwrap();
        let files = || Change::of_tree(&folder).map(|change| change.files);
        if !run(&folder, &["init -q -b main"]) {
            return eprintln!("SKIPPED: changes_are_counted_from_the_last_merge: there is no git");
        }
        assert_eq!(files(), None, "there is no commit");
        write("one");
        assert!(run(&folder, &["add .", "commit -q -m one"]));
        assert_eq!(files(), None, "there is no merge");
        assert!(run(&folder, &["checkout -q -b side"]));
        write("two");
        assert!(run(&folder, &["add .", "commit -q -m two", "checkout -q main"]));
        assert!(run(&folder, &["merge -q --no-ff -m merge side"]));
        assert_eq!(files().unwrap(), ["two"]);
        write("three");
        assert!(run(&folder, &["add .", "commit -q -m three"]));
        write("one more");
        fs::write(folder.join("one"), "changed").unwrap();
        assert_eq!(files().unwrap(), ["one", "three", "one more"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
