//! The project as the rules see it: every text file, and the crates with their dependencies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::source::Source;

#[derive(Debug, Clone)]
pub(super) struct Crate {
    pub(super) name: String,
    /// Folder, relative to the root.
    pub(super) folder: String,
    /// Names of its dependencies, without dev-dependencies.
    pub(super) dependencies: Vec<String>,
}

/// All files by path from the root, with `/`, and all crates.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Contents, empty for a file that is not UTF-8.
    pub(super) files: BTreeMap<String, String>,
    pub(super) sources: BTreeMap<String, Source>,
    pub(super) crates: Vec<Crate>,
}

impl Tree {
    /// Reads the tree at `root`, without `.git` and build output.
    ///
    /// # Errors
    /// Fails if a file or `cargo metadata` cannot be read.
    pub(super) fn read(root: &Path) -> Result<Tree, String> {
        let mut files = BTreeMap::new();
        collect_files(root, "", &mut files)?;
        Ok(Tree { crates: read_crates(root)?, sources: take_apart(&files), files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        Tree { sources: take_apart(&files), files, crates: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn with_crate(mut self, name: &str, dependencies: &[&str]) -> Tree {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        let folder = format!("crates/{name}");
        self.crates.push(Crate { name: name.to_owned(), folder, dependencies });
        self
    }

    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    pub(super) fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(|(path, _)| path.ends_with(".md"))
    }
}

fn take_apart(files: &BTreeMap<String, String>) -> BTreeMap<String, Source> {
    let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let mut sources: BTreeMap<String, Source> =
        rust.map(|(path, text)| (path.clone(), Source::new(path, text))).collect();
    let test_files: Vec<String> = sources
        .iter()
        .flat_map(|(path, source)| {
            let folder = module_folder(path);
            let files =
                move |name| [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
            source.test_modules.iter().flat_map(files)
        })
        .collect();
    for file in test_files {
        if let Some(source) = sources.get_mut(&file) {
            source.mark_as_test();
        }
    }
    sources
}

/// Returns the folder of the modules that `path` declares, with a final `/`.
fn module_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/"),
        _ => format!("{}/", path.trim_end_matches(".rs")),
    }
}

/// Folders made by git, cargo and the fuzzer, besides folders marked by cargo.
const MADE: [&str; 4] = [".git", "target", "corpus", "artifacts"];

fn collect_files(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let unreadable = |error| format!("cannot read {}: {error}\n", folder.display());
    // Cargo marks every target folder with this file.
    if folder.join("CACHEDIR.TAG").exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() && !MADE.contains(&name.as_str()) {
            collect_files(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && name != ".git" {
            let bytes = fs::read(entry.path()).map_err(unreadable)?;
            files.insert(path, String::from_utf8(bytes).unwrap_or_default());
        }
    }
    Ok(())
}

/// Asks cargo, which knows every form of manifest.
fn read_crates(root: &Path) -> Result<Vec<Crate>, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}\n"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata is not JSON: {error}\n"))?;
    crates_of(&metadata).ok_or_else(|| "cargo metadata lacks a field we read\n".to_owned())
}

fn crates_of(metadata: &serde_json::Value) -> Option<Vec<Crate>> {
    let root = metadata["workspace_root"].as_str()?;
    let mut crates = Vec::new();
    for package in metadata["packages"].as_array()? {
        let manifest = package["manifest_path"].as_str()?.strip_prefix(root)?;
        let folder = manifest.trim_start_matches('/').strip_suffix("/Cargo.toml")?;
        let mut dependencies = Vec::new();
        for dependency in package["dependencies"].as_array()? {
            if dependency["kind"].as_str() != Some("dev") {
                dependencies.push(dependency["name"].as_str()?.to_owned());
            }
        }
        let name = package["name"].as_str()?.to_owned();
        crates.push(Crate { name, folder: folder.to_owned(), dependencies });
    }
    Some(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_come_with_their_arrows_but_not_dev_dependencies() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [{
                "name": "a", "manifest_path": "/w/crates/a/Cargo.toml",
                "dependencies": [
                    {"name": "b", "kind": null}, {"name": "c", "kind": "dev"},
                    {"name": "d", "kind": "build"},
                ],
            }],
        });
        let crates = crates_of(&metadata).unwrap();
        assert_eq!(crates[0].folder, "crates/a");
        assert_eq!(crates[0].dependencies, ["b", "d"]);
    }

    #[test]
    fn folders_exist_when_something_is_in_them() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/") && tree.has("docs/a.md"));
        assert!(!tree.has("doc") && !tree.has("docs/b.md"));
    }

    #[test]
    fn a_module_that_is_declared_as_a_test_is_one() {
        let tree = Tree::of(&[
            ("src/lru/mod.rs", "#[cfg(test)]\npub(crate) mod conformance;\nmod log;\n"),
            ("src/lru/conformance.rs", "fn a() {}\n"),
            ("src/lru/log.rs", "#[cfg(test)]\nmod oracle;\n"),
            ("src/lru/log/oracle.rs", "fn a() {}\n"),
        ]);
        let is_test = |path: &str| tree.sources[path].is_test_line(0);
        assert!(is_test("src/lru/conformance.rs") && is_test("src/lru/log/oracle.rs"));
        assert!(!tree.sources["src/lru/mod.rs"].is_test_line(2));
    }

    #[test]
    fn this_project_is_read_whole() {
        let tree = Tree::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))).unwrap();
        assert!(tree.sources.contains_key("xtask/src/tidy/tree.rs"));
        assert!(tree.crates.iter().any(|c| c.name == "xtask" && c.folder == "xtask"));
        assert!(tree.files.keys().all(|path| !path.starts_with("target/")));
    }
}
