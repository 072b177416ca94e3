//! The modules of one crate, and their uses of each other.

use std::collections::BTreeMap;

use super::super::source::{Source, is_word, words_at};
use super::super::tree::Tree;
use super::paths::{Path, paths};

/// A module by its path from the root of its crate. The root is empty.
pub(super) type Module = Vec<String>;

#[derive(Debug)]
pub(super) struct Use {
    pub(super) from: Module,
    pub(super) to: Module,
    pub(super) file: String,
    /// From 0.
    pub(super) line: usize,
}

/// Imports of a module, by local name.
type Imports = BTreeMap<String, Vec<String>>;

/// Maximum chain of imports. A longer chain is a circle.
const NR_IMPORTS_MAX: usize = 8;

/// Returns every path between two modules of the crate in `folder`.
pub(super) fn uses(tree: &Tree, folder: &str) -> Vec<Use> {
    let root = format!("{folder}/src/");
    let files = tree.sources.range(root.clone()..).take_while(|(file, _)| file.starts_with(&root));
    let mut modules: BTreeMap<Module, Imports> = BTreeMap::new();
    let mut named: Vec<(Module, &String, Path)> = Vec::new();
    for (file, source) in files {
        let module = module_of(&file[root.len()..]);
        let inner = inner_modules(source, &module);
        for depth in 0..=module.len() {
            modules.entry(module[..depth].to_vec()).or_default();
        }
        modules.extend(inner.iter().map(|(_, inner)| (inner.clone(), Imports::new())));
        for path in paths(source) {
            let within = inner.iter().rev().find(|(body, _)| body.contains(&path.at));
            let module = within.map_or(&module, |(_, inner)| inner);
            if let Some(name) = &path.name {
                let imports = modules.entry(module.clone()).or_default();
                imports.insert(name.clone(), path.segments.clone());
            }
            named.push((module.clone(), file, path));
        }
    }
    let lead = |(from, file, path): (Module, &String, Path)| {
        let to = resolve(&modules, &from, &path.segments, NR_IMPORTS_MAX)?;
        Some(Use { from, to, file: file.clone(), line: path.line })
    };
    named.into_iter().filter_map(lead).collect()
}

fn module_of(file: &str) -> Module {
    let mut names: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// Returns the modules with bodies in a file, with their ranges, outer ones first.
fn inner_modules(source: &Source, module: &Module) -> Vec<(std::ops::Range<usize>, Module)> {
    let mut found: Vec<(std::ops::Range<usize>, Module)> = Vec::new();
    for at in words_at(&source.code, "mod") {
        let name = source.code[at + "mod".len()..].trim_start();
        let name = &name[..name.bytes().position(|byte| !is_word(byte)).unwrap_or(0)];
        let Some(body) = source.body_after(at).filter(|_| !name.is_empty()) else { continue };
        let outer = found.iter().rev().find(|(outer, _)| outer.contains(&at));
        let mut inner = outer.map_or(module, |(_, outer)| outer).clone();
        inner.push(name.to_owned());
        found.push((body, inner));
    }
    found
}

/// Returns the home module of a path used in `from`, as far as modules and imports tell. Returns
/// `None` for another crate's.
fn resolve(
    modules: &BTreeMap<Module, Imports>,
    from: &Module,
    segments: &[String],
    nr_imports_left: usize,
) -> Option<Module> {
    let (first, rest) = segments.split_first()?;
    let (mut at, mut rest) = match first.as_str() {
        "crate" => (Module::new(), rest),
        "self" => (from.clone(), rest),
        "super" => (from[..from.len().checked_sub(1)?].to_vec(), rest),
        // A child of this module, or an imported name.
        _ if is_module(modules, from, first) || modules[from].contains_key(first) => {
            (from.clone(), segments)
        }
        _ => return None,
    };
    while let Some((next, beyond)) = rest.split_first() {
        if next == "super" {
            at.pop()?;
        } else if is_module(modules, &at, next) {
            at.push(next.clone());
        } else {
            let Some(import) = modules[&at].get(next).filter(|_| nr_imports_left > 0) else {
                break;
            };
            let whole = [import, beyond].concat();
            let home = resolve(modules, &at, &whole, nr_imports_left - 1);
            // A name of another crate counts as used from that crate, not from the re-exporting
            // module.
            return home;
        }
        rest = beyond;
    }
    Some(at)
}

fn is_module(modules: &BTreeMap<Module, Imports>, parent: &Module, name: &str) -> bool {
    let mut child = parent.clone();
    child.push(name.to_owned());
    modules.contains_key(&child)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `from -> to` of every use, for a crate in the folder `a`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let text = |module: &Module| module.join("::");
        let found = uses(&Tree::of(files), "a");
        found.iter().map(|used| format!("{} -> {}", text(&used.from), text(&used.to))).collect()
    }

    #[test]
    fn paths_lead_from_module_to_module() {
        let files = [
            ("a/src/b/mod.rs", "mod c;\n"),
            ("a/src/b/c.rs", "use super::super::d::X;\nuse std::fmt;\n"),
            ("a/src/d.rs", "fn f() { crate::b::c::g(Option::None) }\n"),
            ("a/src/lib.rs", "mod b;\nmod d;\n"),
        ];
        assert_eq!(arrows(&files), ["b::c -> d", "d -> b::c"]);
    }

    #[test]
    fn an_import_leads_on_to_where_a_name_is_at_home() {
        let files = [
            ("a/src/b.rs", "use crate::X;\nuse crate::Arc;\n"),
            ("a/src/c.rs", "pub struct X;\n"),
            ("a/src/lib.rs", "pub use c::X;\npub use std::sync::Arc;\n"),
        ];
        assert_eq!(arrows(&files), ["b -> c", " -> c"]);
    }

    #[test]
    fn a_module_in_braces_has_its_own_super() {
        let files = [
            ("a/src/b.rs", "mod inner {\n    use super::X;\n    use super::super::c::Y;\n}\n"),
            ("a/src/c.rs", ""),
        ];
        assert_eq!(arrows(&files), ["b::inner -> b", "b::inner -> c"]);
    }
}
