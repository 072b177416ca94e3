//! A signal for the whole process group reaches the program once, and one for the command alone,
//! too.

use super::agents::Tree;
use super::{folder, has, pagetide};
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
    // What comes to the group, then to the command alone: that one ends the waiting.
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
