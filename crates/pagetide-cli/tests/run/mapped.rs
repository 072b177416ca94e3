//! Mapped files served by the page cache.

use super::data_packages::python_with;
use super::odd_programs::mount_small;
use super::worlds::{compiled, printed_in_each};
use super::{folder, has, is_long, plain_shell_in, run_counted};
use std::path::Path;
use std::process::{Command, Output};

/// Returns the number of mappings.
fn run_mapped(folder: &Path, memory: &str, command: &[&str]) -> (Output, u64) {
    let (output, counts) = run_counted(folder, memory, &["--mmap", "cache"], command);
    (output, counts["mappings"].as_u64().unwrap())
}

pub(super) fn compile(folder: &Path, name: &str, source: &str) {
    std::fs::write(folder.join("program.c"), source).unwrap();
    plain_shell_in(folder, &format!("gcc -O1 -w -pthread program.c -o {name}"));
}

/// Prints a skip message if the kernel lacks a feature.
pub(super) fn is_served(folder: &Path, test: &str) -> bool {
    let is_there = pagetide_sys::PageFile::new(1).is_ok();
    if !is_there {
        let name = folder.display();
        eprintln!(
            "SKIPPED: {test}: userfaultfd is refused here ({name}): vm.unprivileged_userfaultfd"
        );
    }
    is_there
}

/// A C program that prints `ok` if all checks pass.
struct CheckedProgram {
    name: &'static str,
    source: &'static str,
    arguments: &'static [&'static str],
    nr_mappings_min: u64,
}

impl CheckedProgram {
    /// As [`CheckedProgram::check`], and also natively.
    fn check_beside_the_kernel(&self, test: &str, memories: &[&str]) {
        if has("gcc", test) {
            let here = folder();
            compile(here.path(), self.name, self.source);
            let printed = plain_shell_in(here.path(), &format!("./{}", self.name));
            assert_eq!(printed, "ok\n", "as the kernel has it");
        }
        self.check(test, memories);
    }

    fn check(&self, test: &str, memories: &[&str]) {
        let here = folder();
        if !has("gcc", test) || !is_served(here.path(), test) {
            return;
        }
        compile(here.path(), self.name, self.source);
        let program = format!("./{}", self.name);
        let command = [&[&*program], self.arguments].concat();
        for memory in memories {
            let (output, nr_mappings) = run_mapped(here.path(), memory, &command);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{memory}: {errors}");
            assert!(nr_mappings >= self.nr_mappings_min, "{nr_mappings} were served: {errors}");
        }
    }
}

#[test]
fn a_mapped_file_is_as_the_kernels() {
    let test = "a_mapped_file_is_as_the_kernels";
    // One mapping of the program and one per child.
    let (name, source) = ("mapped", include_str!("mapped.c"));
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 5 }
        .check_beside_the_kernel(test, &["1M", "64M"]);
}

#[test]
fn what_is_read_by_chance_is_the_files_and_what_is_stored_beside_stays() {
    let test = "what_is_read_by_chance_is_the_files_and_what_is_stored_beside_stays";
    let (name, source) = ("mapped_random", include_str!("mapped_random.c"));
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 4 }
        .check_beside_the_kernel(test, &["1M"]);
}

#[test]
fn processes_see_what_others_write_to_what_they_map() {
    let arguments: &[_] = if is_long() { &["100000"] } else { &["4000"] };
    let (name, source) = ("soak", include_str!("mapped_soak.c"));
    CheckedProgram { name, source, arguments, nr_mappings_min: 4 }
        .check("processes_see_what_others_write_to_what_they_map", &["1M"]);
}

#[test]
fn a_file_mapped_to_be_written_is_as_the_kernels() {
    let test = "a_file_mapped_to_be_written_is_as_the_kernels";
    let (name, source) = ("written", include_str!("mapped_written.c"));
    // Two mappings of the program and one per child.
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 5 }
        .check_beside_the_kernel(test, &["1M", "64M"]);
}

#[test]
fn mappings_that_are_moved_show_what_they_did() {
    let arguments: &[_] = if is_long() { &["20000"] } else { &["600"] };
    let (name, source) = ("moved", include_str!("mapped_moved.c"));
    CheckedProgram { name, source, arguments, nr_mappings_min: 100 }
        .check_beside_the_kernel("mappings_that_are_moved_show_what_they_did", &["512K", "64M"]);
}

#[test]
fn memory_that_other_threads_map_stays_theirs() {
    let arguments: &[_] = if is_long() { &["60"] } else { &["3"] };
    let (name, source) = ("space", include_str!("mapped_space.c"));
    // In three seconds, by two threads that change mappings.
    CheckedProgram { name, source, arguments, nr_mappings_min: 10 }
        .check_beside_the_kernel("memory_that_other_threads_map_stays_theirs", &["4M"]);
}

#[test]
fn what_is_stored_to_a_private_mapping_is_the_processs_own() {
    let test = "what_is_stored_to_a_private_mapping_is_the_processs_own";
    let (name, source) = ("private", include_str!("mapped_private.c"));
    // Four mappings of the program and one per child that asks.
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 12 }
        .check_beside_the_kernel(test, &["512K", "64M"]);
}

#[test]
fn what_is_asked_for_about_mapped_memory_is_done_or_refused() {
    let test = "what_is_asked_for_about_mapped_memory_is_done_or_refused";
    let (name, source) = ("asked", include_str!("mapped_asked.c"));
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 3 }
        .check_beside_the_kernel(test, &["64M"]);
    let here = folder();
    if has("gcc", test) && is_served(here.path(), test) {
        compile(here.path(), name, source);
        let (_, counts) = run_counted(here.path(), "64M", &["--mmap", "cache"], &["./asked"]);
        assert_eq!(counts["private_mapping_bytes"], 10 * 4096, "what was locked: {counts}");
    }
}

#[test]
fn what_is_locked_stays_and_is_given_back() {
    let test = "what_is_locked_stays_and_is_given_back";
    let (name, source) = ("locked", include_str!("mapped_locked.c"));
    // Seven mappings of the program and one per child.
    CheckedProgram { name, source, arguments: &["served"], nr_mappings_min: 11 }
        .check_beside_the_kernel(test, &["2M"]);
    let here = folder();
    if has("gcc", test) && is_served(here.path(), test) {
        compile(here.path(), name, source);
        let (_, counts) = run_counted(here.path(), "2M", &["--mmap", "cache"], &["./locked", "s"]);
        assert!(counts["mapping_locks_refused"].as_u64() >= Some(5), "{counts}");
    }
}

/// Needs root to mount.
#[test]
fn a_store_for_which_the_disk_has_no_room_is_a_signal() {
    let test = "a_store_for_which_the_disk_has_no_room_is_a_signal";
    let here = folder();
    if !has("gcc", test) || !is_served(here.path(), test) {
        return;
    }
    let small = here.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if let Err(refusal) = mount_small(&small) {
        eprintln!("SKIPPED: {test}: a small tmpfs cannot be mounted: {refusal}");
        return;
    }
    compile(here.path(), "full", include_str!("mapped_full.c"));
    let plain = Command::new("./full").arg("small").current_dir(here.path()).output();
    std::fs::remove_file(small.join("big")).unwrap();
    let (output, nr_mappings) = run_mapped(here.path(), "512K", &["./full", "small"]);
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    assert_eq!(plain.unwrap().stdout, b"ok\n", "as the kernel has it");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{errors}");
    assert!(nr_mappings > 0, "{errors}");
}

#[test]
fn what_a_killed_program_stored_is_in_the_file() {
    let test = "what_a_killed_program_stored_is_in_the_file";
    let here = folder();
    if !has("gcc", test) || !is_served(here.path(), test) {
        return;
    }
    compile(here.path(), "written", include_str!("mapped_written.c"));
    for memory in ["1M", "64M"] {
        let (output, nr_mappings) = run_mapped(here.path(), memory, &["./written", "killed"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(137), "{memory}: {errors}");
        assert!(nr_mappings >= 5, "{nr_mappings} were served: {errors}");
        let bytes = std::fs::read(here.path().join("file")).unwrap();
        let first_word =
            |page: usize| u64::from_le_bytes(*bytes[page * 4096..].first_chunk().unwrap());
        for page in (40..42).chain(100..1000) {
            assert_eq!(first_word(page), page as u64, "{memory}");
        }
    }
}

#[test]
fn processes_store_to_what_others_read_write_and_cut() {
    let test = "processes_store_to_what_others_read_write_and_cut";
    let here = folder();
    if !has("gcc", test) || !is_served(here.path(), test) {
        return;
    }
    compile(here.path(), "stores", include_str!("mapped_stores.c"));
    let steps = if is_long() { "60000" } else { "1500" };
    for memory in ["1M", "2M", "16M"] {
        let (output, nr_mappings) = run_mapped(here.path(), memory, &["./stores", steps]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{memory}: {errors}");
        assert!(nr_mappings >= 4, "{nr_mappings} were served: {errors}");
        let read = |name| std::fs::read(here.path().join(name)).unwrap();
        assert!(read("pages") == read("expected"), "{memory}: written back");
    }
}

#[test]
fn what_was_written_is_seen_by_loads_whatever_was_read_ahead() {
    let arguments: &[_] = if is_long() { &["100000"] } else { &["800"] };
    let (name, source) = ("cut", include_str!("mapped_cut.c"));
    CheckedProgram { name, source, arguments, nr_mappings_min: 3 }
        .check("what_was_written_is_seen_by_loads_whatever_was_read_ahead", &["1M", "24M"]);
}

#[test]
fn threads_that_touch_what_becomes_the_kernels_are_sent_no_signal() {
    let test = "threads_that_touch_what_becomes_the_kernels_are_sent_no_signal";
    let (name, source) = ("handed", include_str!("mapped_handed.c"));
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 400 }
        .check_beside_the_kernel(test, &["1M"]);
}

#[test]
fn calls_take_what_is_mapped_and_absent() {
    let (name, source) = ("given", include_str!("mapped_given.c"));
    CheckedProgram { name, source, arguments: &[], nr_mappings_min: 1 }
        .check("calls_take_what_is_mapped_and_absent", &["1M"]);
}

#[test]
fn programs_that_map_their_data_find_the_same() {
    let test = "programs_that_map_their_data_find_the_same";
    let programs =
        [("lmdb", "lmdb"), ("usearch", "numpy, usearch"), ("faiss", "faiss"), ("memmap", "numpy")];
    for (work, packages) in [("sqlite", "sqlite3")].into_iter().chain(programs) {
        let (here, theirs) = (folder(), folder());
        if !is_served(here.path(), test) {
            continue;
        }
        let Some(python) = python_with(packages, test) else { continue };
        let (script, name) = (include_str!("mapped_programs.py"), "programs.py");
        std::fs::write(theirs.path().join(name), script).unwrap();
        plain_shell_in(theirs.path(), &format!("'{python}' {name} {work} fill"));
        let source = theirs.path().display();
        plain_shell_in(here.path(), &format!("cp -r '{source}'/. ."));
        let expected = plain_shell_in(theirs.path(), &format!("'{python}' {name} {work} use"));
        let (output, nr_mappings) = run_mapped(here.path(), "4M", &[&python, name, work, "use"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{work}: {errors}");
        assert!(nr_mappings > 0, "{work}: {errors}");
    }
}

#[test]
fn a_mapped_database_stays_whole() {
    let test = "a_mapped_database_stays_whole";
    let here = folder();
    if !has("sqlite3", test) || !is_served(here.path(), test) {
        return;
    }
    let fill = "create table t(a integer primary key, b); with recursive c(x) as (select 1 union \
                all select x+1 from c where x<20000) insert into t select x, printf('%0300d', x) \
                from c;";
    let change = "pragma mmap_size=1000000000; update t set b=b||a where a%7=0; delete from t \
                  where a%5=0; select count(*), sum(length(b)) from t; pragma integrity_check;";
    let expected = {
        let theirs = folder();
        plain_shell_in(
            theirs.path(),
            &format!("sqlite3 d.db \"{fill}\"; sqlite3 d.db \"{change}\""),
        )
    };
    plain_shell_in(here.path(), &format!("sqlite3 d.db \"{fill}\""));
    let (output, nr_mappings) = run_mapped(here.path(), "2M", &["sqlite3", "d.db", change]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(nr_mappings > 0, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(plain_shell_in(here.path(), "sqlite3 d.db 'pragma integrity_check'"), "ok\n");
}

#[test]
fn a_killed_server_shows_no_zeros() {
    let test = "a_killed_server_shows_no_zeros";
    let here = folder();
    if !has("gcc", test) || !is_served(here.path(), test) {
        return;
    }
    std::fs::write(here.path().join("file"), vec![b'x'; 8 << 20]).unwrap();
    compile(here.path(), "killed", include_str!("mapped_killed.c"));
    let (output, _) = run_mapped(here.path(), "1M", &["./killed"]);
    assert_eq!(output.status.code(), Some(137), "the program killed itself");
    // Returns when the program closes its output, at its end.
    let (output, _) = run_mapped(here.path(), "1M", &["sh", "-c", "exec ./killed $PPID"]);
    assert!(output.status.code().is_none(), "the server was killed");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "next\n",
        "and then its program, by SIGBUS"
    );
    let (output, _) = run_mapped(here.path(), "1M", &["sh", "-c", "exec ./killed $PPID sync"]);
    assert!(output.status.code().is_none(), "the server was killed");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "EIO\n", "what was stored is lost");
}

#[test]
fn a_protection_that_is_refused_half_way_holds_up_to_there() {
    let test = "a_protection_that_is_refused_half_way_holds_up_to_there";
    let source = include_str!("refused_protection.c");
    if let Some(here) = compiled(source, "", test) {
        let printed = printed_in_each(&here.path().join("compiled"), &[]);
        assert_eq!(printed.lines().count(), 12, "{printed}");
    }
}

/// Touches runs of 256 KiB in a random order, and prints `ok`.
const RUNS: &str = "
import mmap, random
random.seed(7)
with open('data', 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for _ in range(300):
    first = random.randrange(256) << 18
    assert not any(mapped[first + (page << 12)] for page in range(64))
print('ok')
";

#[test]
fn runs_of_touches_are_read_whole_and_little_more() {
    const NAME: &str = "runs_of_touches_are_read_whole_and_little_more";
    let here = folder();
    if !has("python3", NAME) || !is_served(here.path(), NAME) {
        return;
    }
    std::fs::File::create(here.path().join("data")).unwrap().set_len(64 << 20).unwrap();
    let options = ["--mmap", "cache"];
    let (output, counts) = run_counted(here.path(), "8M", &options, &["python3", "-c", RUNS]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{errors}");
    // 300 runs of 64 pages. The limit has room for few of them.
    let touched = 300 << 18;
    let (read, nr_misses) = (counts["device_read_bytes"].as_u64(), counts["misses"].as_u64());
    assert!(read < Some(touched / 4 * 5), "{read:?} bytes were read for {touched}");
    assert!(nr_misses < Some(300 * 4), "{nr_misses:?} faults read");
}
