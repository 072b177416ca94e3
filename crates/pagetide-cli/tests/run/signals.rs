//! A signal to the process group, or to the command alone, reaches the program once. No signal ends
//! the server before its programs.

use super::agents::Tree;
use super::{folder, has, pagetide, script};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn an_interrupt_is_delivered_once() {
    if !has("python3", "an_interrupt_is_delivered_once") {
        return;
    }
    let here = folder();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--", super::agents::python()]).process_group(0);
    let (tree, mut agent) = Tree::begin(here.path(), run, "inside");
    let watch = "signal.signal(number, lambda number, frame: got.append(number))";
    agent.value("globals().update(got=[])");
    agent.value(&format!("[{watch} for number in (1, 2, 15)] and None"));
    let kill = |signal: &str, process: String| {
        assert!(Command::new("kill").args([signal, "--", &process]).status().unwrap().success());
    };
    let id = tree.id();
    // The signal to the command alone ends the wait.
    for (signal, number, last, last_number) in [("-INT", 2, "-TERM", 15), ("-HUP", 1, "-INT", 2)] {
        kill(signal, format!("-{id}"));
        while agent.value("got") == "[]" {}
        kill(last, id.to_string());
        while !agent.value("got").contains(&last_number.to_string()) {}
        assert_eq!(agent.value("got"), format!("[{number}, {last_number}]"));
        agent.value("got.clear()");
    }
    drop(agent);
    tree.finish();
}

#[test]
fn no_signal_of_the_group_ends_the_server_first() {
    if !has("python3", "no_signal_of_the_group_ends_the_server_first") {
        return;
    }
    assert_eq!(script("group_signals.py"), "failed: []\n");
}

const INHERITED: &str = "nothing True
nohup True
a service True
a job of a script True
much True
no children True
alarm 142
limits True True
SIGTSTP to the job: True True
SIGTSTP to the command: True True
SIGTSTP to the program: True True
ended 143
SIGTTIN to the job: True True
SIGTTIN to the command: True True
SIGTTIN to the program: True True
ended 143
SIGTTOU to the job: True True
SIGTTOU to the program: True True
ended 143
";

#[test]
fn a_program_begins_and_stops_as_without_a_run() {
    if !has("python3", "a_program_begins_and_stops_as_without_a_run") {
        return;
    }
    assert_eq!(script("inherited_signals.py"), INHERITED);
}
