//! The crates, and the direction of their dependencies.

use super::tree::Tree;
use super::{Finding, Rule};

pub(super) const RULE: Rule = Rule {
    name: "crate-arrows",
    why: "decisions that could call the OS, or a lab that knows Linux, end determinism and replay",
    check,
    #[cfg(test)]
    canary: || Tree::default().with_crate("pagetide-core", &["pagetide-sys"]),
};

/// Allowed dependencies between our crates. Dev-dependencies are free.
const ARROWS: [(&str, &[&str]); 13] = [
    ("pagetide-core", &[]),
    ("pagetide-sys", &["pagetide-core"]),
    ("pagetide", &["pagetide-core", "pagetide-sys"]),
    ("pagetide-lab", &["pagetide-core"]),
    ("pagetide-run", &["pagetide", "pagetide-core", "pagetide-sys"]),
    (
        "pagetide-cli",
        &[
            "pagetide",
            "pagetide-lab",
            "pagetide-run",
            "pagetide-sweep",
            "pagetide-core",
            "pagetide-sys",
            "pagetide-embed",
            // Not linked: the command embeds its bytes.
            "pagetide-preload",
        ],
    ),
    // No page cache in foreign programs: only the client code.
    ("pagetide-preload", &["pagetide-run", "pagetide-core", "pagetide-sys"]),
    ("pagetide-capi", &["pagetide"]),
    ("pagetide-py", &["pagetide", "pagetide-core", "pagetide-lab", "pagetide-sweep"]),
    ("pagetide-sweep", &["pagetide-core", "pagetide-lab"]),
    ("pagetide-embed", &[]),
    ("pagetide-tune", &["pagetide-lab", "pagetide-core"]),
    ("xtask", &[]),
];

fn check(tree: &Tree) -> Vec<Finding> {
    let is_ours = |name: &str| name == "xtask" || name.starts_with("pagetide");
    let mut found = Vec::new();
    for member in &tree.crates {
        let manifest = format!("{}/Cargo.toml", member.folder);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member.name) else {
            let what = format!("the crate {} has no arrows yet", member.name);
            found.push(Finding::new(&manifest, 0, what, "add it to ARROWS in tidy/arrows.rs"));
            continue;
        };
        for used in member.dependencies.iter().filter(|name| is_ours(name)) {
            if !allowed.contains(&used.as_str()) {
                let what = format!("{} uses {used}", member.name);
                let instead =
                    format!("it may use {allowed:?}: move the code, or pass the value in");
                found.push(Finding::new(
                    &manifest,
                    line_naming(tree, &manifest, used),
                    what,
                    instead,
                ));
            }
        }
    }
    found
}

fn line_naming(tree: &Tree, manifest: &str, name: &str) -> usize {
    let text = tree.files.get(manifest).map_or("", String::as_str);
    let names_it = |line: &str| line.split([' ', '.', '=']).next() == Some(name);
    text.lines().position(names_it).map_or(0, |line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_may_not_use_sys() {
        let manifest = "[dependencies]\npagetide-sys.workspace = true\n";
        let tree = Tree::of(&[("crates/pagetide-lab/Cargo.toml", manifest)])
            .with_crate("pagetide-lab", &["pagetide-core", "pagetide-sys", "serde"]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn a_new_crate_must_be_drawn() {
        assert_eq!(check(&Tree::default().with_crate("pagetide-common", &[])).len(), 1);
        assert!(check(&Tree::default().with_crate("pagetide-sys", &["pagetide-core"])).is_empty());
    }
}
