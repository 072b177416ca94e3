//! Programs that close hidden descriptors or take their numbers: appends go to the end, after all
//! earlier ones.

use super::{folder, has, plain_shell_in, shell_in};
use std::fmt::Write;

fn compare_logs(here: &std::path::Path, expected: &str) {
    let log = std::fs::read_to_string(here.join("log")).unwrap();
    assert_eq!(log, expected);
}

#[test]
fn children_that_lose_their_descriptors_append_in_order() {
    if !has("gcc", "children_that_lose_their_descriptors_append_in_order") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a.c"), include_str!("lost_sockets.c")).unwrap();
    plain_shell_in(here.path(), "gcc -O1 -w a.c -o a");
    let mut expected = String::new();
    for turn in 0..20 {
        let _ = writeln!(expected, "parent {turn}\nnamed {turn}\ninherited {turn}");
    }
    for how in ["spawn", "cloexec", "raw", "vfork"] {
        eprintln!("{how}");
        assert_eq!(shell_in(here.path(), "1M", &format!("./a {how}")), "ok\n", "{how}");
        compare_logs(here.path(), &expected);
        plain_shell_in(here.path(), "rm log");
    }
}

#[test]
fn a_shell_that_takes_high_numbers_is_served_on() {
    if !has("bash", "a_shell_that_takes_high_numbers_is_served_on") {
        return;
    }
    let here = folder();
    let script = "echo first >log; \
        for number in 900 901 902 960 1000 1020; do \
          eval \"exec $number>>log\"; eval \"echo to $number >&$number\"; echo by name >>log; \
          sh -c 'echo child >>log'; cat log >seen; eval \"echo again >&$number\"; \
        done; cat seen | wc -l";
    let printed =
        shell_in(here.path(), "1M", &format!("exec bash -c '{}'", script.replace('\'', "'\\''")));
    assert_eq!(printed.trim(), "24");
    let mut expected = "first\n".to_owned();
    for number in [900, 901, 902, 960, 1000, 1020] {
        let _ = writeln!(expected, "to {number}\nby name\nchild\nagain");
    }
    compare_logs(here.path(), &expected);
}

/// Without the environment variables a program does not load the library. Its appends are kept too.
#[test]
fn a_child_without_our_variables_appends_in_order() {
    let here = folder();
    let line = "exec 7>>log; for turn in 1 2 3 4 5; do echo parent $turn >&7; \
                env -i /bin/sh -c \"echo child $turn >>log; echo inherited $turn >&7; \
                cat log >seen\"; \
                wc -l <seen; done";
    let printed = shell_in(here.path(), "1M", line);
    assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), ["3", "6", "9", "12", "15"]);
    let mut expected = String::new();
    for turn in 1..=5 {
        let _ = writeln!(expected, "parent {turn}\nchild {turn}\ninherited {turn}");
    }
    compare_logs(here.path(), &expected);
}
