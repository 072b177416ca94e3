//! Interrupted writes: contents, position and length agree on the written prefix.

use super::agents::Tree;
use super::{folder, has, is_long, plain_shell_in, run_in};
use std::path::Path;
use std::process::Command;

/// Eight bytes encode their own index.
const NUMBERS: &str = "__import__('array').array('Q', range";

fn number_at(index: usize) -> [u8; 8] {
    (index as u64).to_le_bytes()
}

/// Returns the length of the prefix of the numbers that a killed process left.
fn assert_a_beginning(contents: &[u8]) {
    for (index, eight) in contents.chunks(8).enumerate() {
        let expected = &number_at(index)[..eight.len()];
        assert!(eight == expected, "byte {} of {}: {eight:?}", index * 8, contents.len());
    }
}

/// Kills a `write` of `total` bytes once `at` bytes are in the file.
fn killed_at(here: &Path, flags: &str, total: usize, at: u64) {
    let file = here.join("f");
    let _ = std::fs::remove_file(&file);
    let (tree, mut parent) = Tree::under_run(here, "8M", "parent");
    let descriptor = parent.open("f", &format!("O_RDWR | O_CREAT | {flags}"));
    let mut child = parent.fork("child");
    let id = child.value("os.getpid()");
    child.value(&format!("globals().update(numbers={NUMBERS}({})).tobytes())", total / 8));
    child.tell(&format!("os.write({descriptor}, numbers)"));
    while std::fs::metadata(&file).unwrap().len() < at {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
    parent.number(&format!("os.waitpid({id}, 0)[1]"));
    parent.number(&format!("os.write({descriptor}, b'next')"));
    let position = parent.number(&format!("os.lseek({descriptor}, 0, os.SEEK_CUR)")) as usize;
    parent.number("append('f', b'end')");
    drop((child, parent));
    tree.finish();
    let contents = std::fs::read(&file).unwrap();
    let written = contents.len() - 7;
    assert_a_beginning(&contents[..written]);
    assert_eq!(contents[written..], *b"nextend", "{written} bytes");
    assert_eq!(position, written + 4);
    eprintln!("killed at {written} of {total} bytes");
}

#[test]
fn a_writer_killed_amid_one_long_call_leaves_a_beginning() {
    if !has("python3", "a_writer_killed_amid_one_long_call_leaves_a_beginning") {
        return;
    }
    let here = folder();
    let (total, nr_turns) = if is_long() { (256 << 20, 20) } else { (32 << 20, 3) };
    for turn in 0..nr_turns {
        for flags in ["0", "O_APPEND"] {
            killed_at(here.path(), flags, total, turn * (total as u64 / 32));
        }
    }
}

/// The child has made no request, but has the killed writer's socket open.
#[test]
fn a_killed_writer_has_no_turn_although_its_child_lives() {
    if !has("python3", "a_killed_writer_has_no_turn_although_its_child_lives") {
        return;
    }
    let here = folder();
    let (tree, mut parent) = Tree::under_run(here.path(), "8M", "parent");
    let descriptor = parent.open("f", "O_RDWR | O_CREAT");
    let mut child = parent.fork("child");
    let id = child.value("os.getpid()");
    child.number(&format!("os.write({descriptor}, b'once')"));
    let heir = child.fork("heir");
    child.tell(&format!("os.write({descriptor}, bytes(1 << 30))"));
    while std::fs::metadata(here.path().join("f")).unwrap().len() < 1 << 20 {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
    parent.number(&format!("os.waitpid({id}, 0)[1]"));
    parent.number("signal.alarm(20)");
    assert_eq!(parent.number(&format!("os.write({descriptor}, b'next')")), 4);
    assert_eq!(parent.number("append('f', b'end')"), 3);
    parent.number("signal.alarm(0)");
    drop((child, parent, heir));
    tree.finish();
}

/// As in the kernel: a write continues if a handler is pending, and stops otherwise.
#[test]
fn a_signal_that_kills_ends_a_long_write() {
    if !has("python3", "a_signal_that_kills_ends_a_long_write") {
        return;
    }
    let here = folder();
    let (tree, mut parent) = Tree::under_run(here.path(), "8M", "parent");
    let descriptor = parent.open("f", "O_RDWR | O_CREAT");
    let mut child = parent.fork("child");
    let id = child.value("os.getpid()");
    child.tell(&format!("os.write({descriptor}, bytes(1 << 30))"));
    let len = || std::fs::metadata(here.path().join("f")).unwrap().len();
    while len() < 1 << 20 {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(parent.number(&format!("os.waitpid({id}, 0)[1]")), 15);
    assert!(len() < 1 << 30, "{}", len());
    drop((child, parent));
    tree.finish();
}

/// Returns the number of rounds with a change after its killed writer's end.
fn nr_changed_after(memory: &str, wait: &str, read_at: &str, nr_rounds: u32) -> String {
    let here = folder();
    std::fs::write(here.path().join("waited_for.py"), include_str!("waited_for.py")).unwrap();
    let nr_rounds = nr_rounds.to_string();
    let output =
        run_in(here.path(), memory, &["python3", "waited_for.py", wait, read_at, &nr_rounds]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wait}, {read_at}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn check_nothing_changes_after(waits: &[&str], nr_rounds: u32) {
    for wait in waits {
        for (memory, read_at) in [("1M", "place"), ("1M", "position"), ("64M", "place")] {
            let nr_changed = nr_changed_after(memory, wait, read_at, nr_rounds);
            assert_eq!(nr_changed, "0\n", "{wait}, {memory}, {read_at}");
        }
    }
}

#[test]
fn a_killed_writer_that_was_waited_for_writes_nothing_more() {
    if !has("python3", "a_killed_writer_that_was_waited_for_writes_nothing_more") {
        return;
    }
    let nr_rounds = if is_long() { 400 } else { 10 };
    check_nothing_changes_after(&["wait", "waitpid", "wait3", "wait4", "waitid"], nr_rounds);
}

/// Without a call to an intercepted function.
#[test]
fn a_killed_writer_whose_end_was_seen_writes_nothing_more() {
    if !has("python3", "a_killed_writer_whose_end_was_seen_writes_nothing_more") {
        return;
    }
    let nr_rounds = if is_long() { 400 } else { 20 };
    check_nothing_changes_after(&["pidfd", "signal", "pipe"], nr_rounds);
}

/// Without observing the end: only the order of requests counts.
#[test]
fn requests_after_the_end_of_a_killed_writer_find_all_of_it_or_nothing() {
    if !has("python3", "requests_after_the_end_of_a_killed_writer_find_all_of_it_or_nothing") {
        return;
    }
    let nr_rounds = if is_long() { 400 } else { 50 };
    assert_eq!(nr_changed_after("1M", "pidfd", "requests", nr_rounds), "0\n");
}

#[test]
fn a_write_that_cannot_be_whole_answers_as_the_kernel_does() {
    if !has("gcc", "a_write_that_cannot_be_whole_answers_as_the_kernel_does") {
        return;
    }
    let (ours, theirs) = (folder(), folder());
    for here in [&ours, &theirs] {
        std::fs::write(here.path().join("partial.c"), include_str!("partial.c")).unwrap();
        plain_shell_in(here.path(), "gcc -O1 -w partial.c -o partial");
    }
    let expected = plain_shell_in(theirs.path(), "./partial");
    assert!(expected.lines().count() > 200);
    let output = run_in(ours.path(), "1M", &["./partial"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    for (line, (ours, theirs)) in printed.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {line}");
    }
    assert_eq!(printed, expected, "{}", String::from_utf8_lossy(&output.stderr));
    plain_shell_in(ours.path(), &format!("cmp f {}/f", theirs.path().display()));
}
