//! `cargo x measure`: runs every planned command, which appends its rows.
//!
//! Builds a release of the tree first. Measuring a section again replaces its file of rows.
//! Meaningful numbers need an idle machine, root (memory cgroups), fio and sqlite3, and a clean
//! tree.

use super::plan::{MADE_TRACES, SECTIONS, Section};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    is_long: bool,
    /// Only these sections, or all if empty.
    sections: Vec<String>,
}

impl Options {
    /// Returns `None` if a word is neither a flag nor a section.
    pub(crate) fn parse(words: &[&str]) -> Option<Options> {
        let mut options = Options::default();
        for &word in words {
            match word {
                "--long" => options.is_long = true,
                name if SECTIONS.iter().any(|it| it.name == name) => {
                    options.sections.push(name.to_owned());
                }
                _ => return None,
            }
        }
        Some(options)
    }

    fn wants(&self, section: &Section) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|name| name == section.name)
    }
}

struct Bench {
    executable: PathBuf,
    results: PathBuf,
    /// Synthetic traces and temporary files, removed at the end.
    scratch: PathBuf,
    traces: Option<PathBuf>,
}

/// Measures. Returns true if every command that could run succeeded.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    match prepare(root) {
        Ok(bench) => {
            let all_well = measure_all(&bench, options);
            if let Err(error) = fs::remove_dir_all(&bench.scratch) {
                eprintln!("{} is left behind: {error}", bench.scratch.display());
            }
            all_well
        }
        Err(why) => {
            eprintln!("{why}");
            false
        }
    }
}

fn prepare(root: &Path) -> Result<Bench, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root.join(target);
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "--package", "pagetide-cli"]).current_dir(root);
    // Set by the `cargo run` around this process.
    build.env_remove("CARGO_MANIFEST_DIR");
    run_to_end(&mut build)?;
    let results = root.join("results");
    let scratch = target.join("measure");
    for folder in [&results, &scratch] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let executable = target.join("release/pagetide");
    for name in MADE_TRACES {
        let file = scratch.join(format!("{name}.txt"));
        run_to_end(Command::new(&executable).args(["lab", "make", name]).arg(file))?;
    }
    let traces = std::env::var_os("PAGETIDE_TRACES").map(PathBuf::from);
    Ok(Bench { executable, results, scratch, traces })
}

fn measure_all(bench: &Bench, options: &Options) -> bool {
    let start = Instant::now();
    let mut all_well = true;
    for section in SECTIONS.iter().filter(|section| options.wants(section)) {
        let rows = bench.results.join(format!("{}.jsonl", section.name));
        // Rows of an earlier measurement, if any.
        let _ = fs::remove_file(&rows);
        for command in section.commands {
            let Some(words) = fill_in(command, bench, options.is_long) else {
                println!("SKIPPED: {command}: no such trace in PAGETIDE_TRACES");
                continue;
            };
            println!("{:>6} s  pagetide {}", start.elapsed().as_secs(), words.join(" "));
            let mut run = Command::new(&bench.executable);
            run.args(words).arg("--results").arg(&rows);
            if command.starts_with("bench") || command.starts_with("demo") {
                run.arg("--dir").arg(&bench.scratch);
            }
            if let Err(why) = run_to_end(run.stdout(std::process::Stdio::null())) {
                eprintln!("{why}");
                all_well = false;
            }
        }
    }
    println!("measured in {} s; `cargo x results` makes the document", start.elapsed().as_secs());
    all_well
}

/// Returns the words of a command, or `None` if a trace is missing.
fn fill_in(command: &str, bench: &Bench, is_long: bool) -> Option<Vec<String>> {
    let [runs, seeds] = if is_long { ["9", "10"] } else { ["3", "3"] };
    let traces = bench.traces.as_deref().unwrap_or(Path::new(""));
    let word = |word: &str| -> Option<String> {
        let word = word
            .replace("{runs}", runs)
            .replace("{seeds}", seeds)
            .replace("{made}", &bench.scratch.to_string_lossy());
        let is_there = |path: &String| bench.traces.is_some() && Path::new(path).is_file();
        match word.contains("{traces}") {
            true => Some(word.replace("{traces}", &traces.to_string_lossy())).filter(is_there),
            false => Some(word),
        }
    };
    command.split_whitespace().map(word).collect()
}

fn run_to_end(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(traces: Option<&Path>) -> Bench {
        let scratch = "/scratch".into();
        let traces = traces.map(Path::to_owned);
        Bench { executable: "x".into(), results: "r".into(), scratch, traces }
    }

    #[test]
    fn words_are_flags_or_sections() {
        assert_eq!(Options::parse(&["--slow"]), None);
        assert_eq!(Options::parse(&["no-section"]), None);
        let options = Options::parse(&["demo", "--long"]).expect("both are known");
        let wanted: Vec<&str> =
            SECTIONS.iter().filter(|it| options.wants(it)).map(|it| it.name).collect();
        assert!(options.is_long && wanted == ["demo"]);
    }

    #[test]
    fn every_command_is_filled_in_or_left_out_for_its_trace() {
        for command in SECTIONS.iter().flat_map(|section| section.commands) {
            match fill_in(command, &bench(None), false) {
                Some(words) => assert!(words.iter().all(|word| !word.contains('{')), "{words:?}"),
                None => assert!(command.contains("{traces}"), "{command}"),
            }
        }
        let words = fill_in("bench hit --runs {runs}", &bench(None), true).expect("no trace");
        assert_eq!(words, ["bench", "hit", "--runs", "9"]);
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let words = fill_in("mrc {traces}/Cargo.toml", &bench(Some(here)), false);
        assert!(words.expect("it is there")[1].ends_with("/Cargo.toml"));
        assert_eq!(fill_in("mrc {traces}/no-such", &bench(Some(here)), false), None);
    }
}
