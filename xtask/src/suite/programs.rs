//! The test programs that cargo has built, and how to start them.

use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The package, and the target if the package has several: `pagetide-cli::run`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) folder: PathBuf,
    pub(super) env: Vec<(&'static str, OsString)>,
    /// True if the output ends with a line `test result: ...`, unlike a benchmark's.
    pub(super) has_result: bool,
}

/// Folders that programs search first.
#[derive(Debug, Default)]
pub(super) struct Folders {
    /// The folder of rustc's shared libraries.
    pub(super) libraries: Option<PathBuf>,
    /// The folder of the Python interpreter.
    pub(super) python: Option<PathBuf>,
}

/// The longest programs, longest first, so that none runs alone at the end.
const LONGEST: [&str; 8] = [
    "pagetide-cli::run",
    "pagetide-cli::cli",
    "pagetide::all",
    "pagetide::replay_law",
    "pagetide-lab::snapshot",
    "pagetide-core",
    "pagetide-lab",
    "pagetide::stress",
];

pub(super) fn sort_longest_first(programs: &mut [Program]) {
    let rank = |program: &Program| LONGEST.iter().position(|name| *name == program.name);
    // The sort is stable: programs without a rank keep cargo's order.
    programs.sort_by_key(|program| rank(program).unwrap_or(LONGEST.len()));
}

/// Returns the test programs in the output of `cargo test --no-run --message-format=json`.
pub(super) fn of_messages(messages: &str, folders: &Folders) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| of_message(&message, folders)).collect()
}

fn of_message(message: &Value, folders: &Folders) -> Option<Program> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = message["executable"].as_str().map(PathBuf::from).filter(|_| is_test)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let package = package_name(message["package_id"].as_str()?)?;
    let (target, kind) = (&message["target"]["name"], &message["target"]["kind"][0]);
    let name = match kind.as_str()? {
        "test" | "bench" => format!("{package}::{}", target.as_str()?),
        _ => package.to_owned(),
    };
    let env = vec![
        ("CARGO_MANIFEST_DIR", folder.into()),
        ("CARGO_MANIFEST_PATH", manifest.into()),
        ("CARGO_PKG_NAME", package.into()),
        ("LD_LIBRARY_PATH", library_path(&path, folders)?),
        ("PATH", before_variable("PATH", folders.python.iter().cloned())?),
    ];
    Some(Program {
        name,
        path,
        arguments: vec!["--show-output".into()],
        folder: folder.to_owned(),
        env,
        has_result: kind != "bench",
    })
}

/// Returns the name in `path+file:///a/crates/b#0.1.0` or `path+file:///a/crates/b#name@0.1.0`.
fn package_name(id: &str) -> Option<&str> {
    let (url, fragment) = id.rsplit_once('#')?;
    match fragment.split_once('@') {
        Some((name, _)) => Some(name),
        None => url.rsplit('/').next(),
    }
}

/// Returns the search path for shared libraries, as cargo sets it.
fn library_path(program: &Path, folders: &Folders) -> Option<OsString> {
    let dependencies = program.parent()?;
    let own = [dependencies.to_owned(), dependencies.parent()?.to_owned()];
    before_variable("LD_LIBRARY_PATH", own.into_iter().chain(folders.libraries.clone()))
}

/// Returns a search path with `folders` before the variable's.
fn before_variable(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<OsString> {
    let before = std::env::var_os(name).unwrap_or_default();
    let all = folders.chain(std::env::split_paths(&before));
    std::env::join_paths(all.filter(|folder| !folder.as_os_str().is_empty())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, target: &str, is_test: bool) -> String {
        let executable = if kind == "proc-macro" && !is_test { "null" } else { "\"/t/deps/a-1f\"" };
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/crates/a#0.1.0\",\
             \"manifest_path\":\"/w/crates/a/Cargo.toml\",\
             \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{target}\"}},\
             \"profile\":{{\"test\":{is_test}}},\"executable\":{executable}}}"
        )
    }

    #[test]
    fn programs_are_read_from_cargos_messages() {
        let messages = [
            message("lib", "a", true),
            message("bin", "tool", false),
            message("test", "reads", true),
            message("proc-macro", "a", false),
            "   Compiling a v0.1.0".to_owned(),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
            message("bench", "speed", true),
        ];
        let programs = of_messages(&messages.join("\n"), &Folders::default());
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["a", "a::reads", "a::speed"]);
        assert_eq!(programs.iter().map(|p| p.has_result).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(programs[0].path, Path::new("/t/deps/a-1f"));
        assert_eq!(programs[0].folder, Path::new("/w/crates/a"));
    }

    #[test]
    fn a_program_finds_its_package_and_the_libraries_as_under_cargo() {
        let folders = Folders { libraries: Some("/rust/lib".into()), python: Some("/py".into()) };
        let programs = of_messages(&message("test", "reads", true), &folders);
        let value = |name| {
            let pair = programs[0].env.iter().find(|(variable, _)| *variable == name).unwrap();
            pair.1.to_str().unwrap()
        };
        assert_eq!(value("CARGO_MANIFEST_DIR"), "/w/crates/a");
        assert_eq!(value("CARGO_PKG_NAME"), "a");
        assert!(value("LD_LIBRARY_PATH").starts_with("/t/deps:/t:/rust/lib"));
        assert!(value("PATH").starts_with("/py:"));
    }

    #[test]
    fn package_ids_have_the_name_in_one_of_two_places() {
        assert_eq!(package_name("path+file:///w/crates/pagetide#0.1.0"), Some("pagetide"));
        assert_eq!(package_name("path+file:///w/tools/x#xtask@0.1.0"), Some("xtask"));
        assert_eq!(package_name("pagetide"), None);
    }

    #[test]
    fn the_longest_programs_start_first() {
        let messages: Vec<String> =
            ["brief", "other"].iter().map(|target| message("test", target, true)).collect();
        let mut programs = of_messages(&messages.join("\n"), &Folders::default());
        programs.push(Program { name: "pagetide-cli::run".to_owned(), ..programs[0].clone() });
        sort_longest_first(&mut programs);
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["pagetide-cli::run", "a::brief", "a::other"]);
    }
}
