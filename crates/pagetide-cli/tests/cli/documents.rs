//! Commands of the documents: each one does what its page says.
//!
//! The commands of a document's `sh` blocks run in one folder, in their order. The options of
//! commands within sentences are only parsed, because most of them measure for minutes.

use crate::run::{pagetide, stderr};
use pagetide::control::Control;
use pagetide::{Bytes, Group, GroupOptions, OpenOptions, PageCache};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Words that begin a documented command which this test leaves to others: `cargo x check` builds,
/// packages and installs.
const OF_OTHERS: &[&str] = &["cargo", "pip"];

/// Paths and addresses of documents that a test must not use, and what the test uses instead.
const REPLACED: &[(&str, &str)] =
    &[("/var/lib/node_exporter/", "./"), ("127.0.0.1:9464", "127.0.0.1:0")];

/// The general help, which has no options, and the first line of a dump.
const NO_COMMANDS: &[&str] = &["pagetide help", "pagetide resident 1"];

fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let in_folder = |folder: PathBuf| std::fs::read_dir(folder).expect("a folder").flatten();
    let crates = in_folder(root.join("crates")).map(|one| one.path().join("README.md"));
    let docs = in_folder(root.join("docs")).map(|one| one.path());
    let mut paths: Vec<PathBuf> = docs.chain(crates).chain([root.join("README.md")]).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "md") && path.exists());
    paths.sort();
    let read = |path: &PathBuf| {
        (path.display().to_string(), std::fs::read_to_string(path).expect("a document"))
    };
    paths.iter().map(read).collect()
}

/// Returns the commands of all blocks of shell commands, without their comments.
fn shell_commands(text: &str) -> Vec<String> {
    let mut is_inside = false;
    let mut commands = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```sh";
        } else if is_inside {
            commands.push_str(line.split(" #").next().unwrap_or(line));
            commands.push('\n');
        }
    }
    let commands = commands.replace("\\\n", "");
    commands.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Returns the `pagetide` commands within sentences.
fn commands_in_sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("pagetide "))
}

/// Makes the files that the documented commands name.
fn fresh_data(folder: &Path) {
    std::fs::create_dir(folder.join("data")).unwrap();
    std::fs::write(folder.join("data/rows"), vec![7; 1 << 20]).unwrap();
    std::fs::write(folder.join("big.db"), vec![7; 1 << 20]).unwrap();
    let trace: String = (0..20_000).map(|step| format!("{}\n", step * step % 5_003)).collect();
    std::fs::write(folder.join("run.trace"), trace).unwrap();
    for program in ["server", "search-server"] {
        let path = folder.join(program);
        std::fs::write(&path, "#!/bin/sh\ncat data/rows big.db big.db > /dev/null\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Makes the running cache that the documents ask and change.
fn running_cache(folder: &Path) -> (Control, Group) {
    let cache = PageCache::builder()
        .memory(Bytes(512 << 20))
        .groups(true)
        .policy(pagetide::PolicyName::Mglru);
    let cache = cache.build().unwrap();
    let group = cache.group("scans", GroupOptions::default()).unwrap();
    let file = cache.open(folder.join("big.db"), OpenOptions::new().read(true)).unwrap();
    file.read_at(&mut [0; 64], 0).unwrap();
    (Control::start_in(&folder.join("pagetide"), &cache, "search index").unwrap(), group)
}

fn run_line(folder: &Path, line: &str) -> Output {
    let mut shell = Command::new("sh");
    let command = pagetide();
    let bin = Path::new(command.get_program()).parent().unwrap();
    let path = std::env::join_paths(
        [bin.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    shell.args(["-c", line]).current_dir(folder).env("PATH", path.unwrap());
    shell.env("XDG_RUNTIME_DIR", folder).output().unwrap()
}

#[test]
fn the_commands_in_blocks_succeed() {
    let mut nr_run = 0;
    for (name, text) in documents() {
        let folder = tempfile::tempdir().unwrap();
        fresh_data(folder.path());
        for line in shell_commands(&text) {
            let word = line.split(' ').next().unwrap();
            if OF_OTHERS.contains(&word) {
                continue;
            }
            assert_eq!(word, "pagetide", "{name}: no test runs `{line}`");
            // A run would be a second cache.
            let cache = line.starts_with("pagetide ctl").then(|| running_cache(folder.path()));
            let line = line.replace("4711", &std::process::id().to_string());
            let line = REPLACED.iter().fold(line, |line, (from, to)| line.replace(from, to));
            let output = run_line(folder.path(), &line);
            assert!(output.status.success(), "{name}: `{line}`: {}", stderr(&output));
            drop(cache);
            nr_run += 1;
        }
    }
    assert!(nr_run >= 15, "{nr_run} commands were found");
}

#[test]
fn the_commands_in_sentences_have_options_that_exist() {
    let texts = documents();
    let mut commands = BTreeSet::new();
    for (_, text) in &texts {
        commands.extend(commands_in_sentences(text));
    }
    // Three points stand for words that the sentence leaves out.
    commands.retain(|command| !command.contains("..."));
    commands.retain(|command| !NO_COMMANDS.contains(command));
    // --help ends the command once the words before it are parsed.
    let parse = |command: &str| {
        let words = command.split_whitespace().skip(1);
        let words = words.map(|word| if word == "PAGE" { "1" } else { word });
        pagetide().args(words).arg("--help").output().unwrap()
    };
    for command in &commands {
        let output = parse(command);
        assert!(output.status.success(), "`{command}`: {}", stderr(&output));
    }
    assert!(!parse("pagetide bench hit --no-such-option").status.success());
    assert!(commands.len() >= 30, "{} commands were found", commands.len());
}
