//! Forbids circles of modules: inside a crate, too, arrows point down.
//!
//! Two modules that use each other are one module in two files. Modules are compared with their
//! siblings, each with everything below, so that folders have an order, and files in a folder:
//!
//! ```text
//! api::file -> engine::fill     at the root: api -> engine
//! engine::fill -> engine::pass  in engine:   fill -> pass
//! engine::pass -> engine        no arrow: a module and its children are one family
//! ```
//!
//! Reads `use` lines and paths in code outside tests, and follows re-exports. Deliberately ignored:
//! methods of types imported elsewhere.

mod modules;
mod paths;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tree::{Crate, Tree};
use super::{Finding, Rule};
use modules::{Module, Use};

pub(super) const RULE: Rule = Rule {
    name: "module-circles",
    why: "two modules that use each other are one, and can be neither read nor tested alone",
    check,
    #[cfg(test)]
    canary: || {
        let files = [("crates/x/src/a.rs", "use crate::b::B;\n"), ("crates/x/src/b.rs", TO_A)];
        Tree::of(&files).with_crate("x", &[])
    },
};

#[cfg(test)]
const TO_A: &str = "use super::a::A;\n";

/// The arrows between the children of one module, each with one place that draws it.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Use>>;

fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for member in &tree.crates {
        let uses = modules::uses(tree, &member.folder);
        for (parent, arrows) in arrows_by_parent(&uses) {
            for &module in arrows.keys() {
                if let Some(circle) = circle_through(&arrows, module) {
                    found.push(finding(&full_name(member, parent, module), module, &circle));
                }
            }
        }
    }
    found
}

fn arrows_by_parent(uses: &[Use]) -> BTreeMap<&[String], Arrows<'_>> {
    let mut by_parent: BTreeMap<&[String], Arrows> = BTreeMap::new();
    for used in uses {
        let nr_shared = nr_shared(&used.from, &used.to);
        let (from, to) = (used.from.get(nr_shared), used.to.get(nr_shared));
        if let (Some(from), Some(to)) = (from, to) {
            let arrows = by_parent.entry(&used.from[..nr_shared]).or_default();
            arrows.entry(from).or_default().entry(to).or_insert(used);
        }
    }
    by_parent
}

fn nr_shared(one: &Module, other: &Module) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

fn circle_through<'a>(arrows: &Arrows<'a>, module: &str) -> Option<Vec<&'a Use>> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut ways = VecDeque::from([(module, Vec::new())]);
    while let Some((at, way)) = ways.pop_front() {
        for (&to, &used) in arrows.get(at).into_iter().flatten() {
            let longer: Vec<&Use> = way.iter().copied().chain([used]).collect();
            if to == module {
                return Some(longer);
            }
            if reached.insert(to) {
                ways.push_back((to, longer));
            }
        }
    }
    None
}

fn full_name(member: &Crate, parent: &[String], module: &str) -> String {
    let names = [member.name.as_str()].into_iter().chain(parent.iter().map(String::as_str));
    names.chain([module]).collect::<Vec<_>>().join("::")
}

fn finding(name: &str, module: &str, circle: &[&Use]) -> Finding {
    let step = |used: &&Use| format!("{}:{} uses {}", used.file, used.line + 1, used.to.join("::"));
    let steps: Vec<String> = circle.iter().map(step).collect();
    let what = format!("{name} is in a circle: {}", steps.join("; "));
    let instead = format!("move what {module} and the others share below them, or pass it in");
    Finding::new(&circle[0].file, circle[0].line + 1, what, instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nr_found(files: &[(&str, &str)]) -> usize {
        check(&Tree::of(files).with_crate("x", &[])).len()
    }

    #[test]
    fn rooms_are_judged_by_all_that_is_in_them() {
        let circle = [
            ("crates/x/src/a/b.rs", "use crate::c::d::D;\n"),
            ("crates/x/src/c/e.rs", "use crate::a::f::F;\n"),
            ("crates/x/src/a/f.rs", ""),
            ("crates/x/src/c/d.rs", ""),
        ];
        assert_eq!(nr_found(&circle), 2, "a and c; no file of them uses one that uses it");
    }

    #[test]
    fn a_module_and_its_children_are_no_circle() {
        let family = [
            ("crates/x/src/a/mod.rs", "mod b;\nuse b::B;\n"),
            ("crates/x/src/a/b.rs", "use super::A;\n"),
        ];
        assert_eq!(nr_found(&family), 0);
    }
}
