//! Threads, memory and descriptors refused to the server by strace at a thread's n-th call, or from
//! there on: a message or correct bytes, never a hang.

use super::{folder, has, is_long, noise, pagetide};
use std::path::Path;
use std::process::{Command, Output};

const KINDS: [(&str, &str); 5] = [
    ("clone3,clone", "EAGAIN"),
    ("mmap", "ENOMEM"),
    ("openat", "EMFILE"),
    ("socket,accept4,socketpair", "EMFILE"),
    ("memfd_create,eventfd2,pidfd_open,io_uring_setup,pipe2", "EMFILE"),
];

/// Takes `when` in strace's syntax: `3`, or `3+` for all later calls too.
fn refused(here: &Path, (calls, error): (&str, &str), when: &str) -> Output {
    let inject = format!("inject={calls}:error={error}:when={when}");
    let line = "cp a b && cat a >>c && cmp a b && cmp a c && echo same";
    let mut strace = Command::new("timeout");
    strace.args(["60", "strace", "-f", "-b", "execve", "-o", "/dev/null"]);
    strace.args(["-e", &format!("trace={calls}"), "-e", &inject]).arg(pagetide());
    strace.args(["run", "--quiet", "--memory", "1M", "--", "sh", "-c", line]);
    strace.current_dir(here).output().unwrap()
}

/// Failures outside Pagetide: in the dynamic linker and in Rust's library.
fn ended_before_us(errors: &str) -> bool {
    let by_others = [
        "error while loading shared libraries",
        "failed to allocate an alternative stack",
        "memory allocation of",
    ];
    by_others.iter().any(|words| errors.contains(words))
}

fn assert_said_or_right(output: &Output, told: &str) -> bool {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(124), "{told}: it hangs: {errors}");
    if output.status.success() {
        assert_eq!(output.stdout, b"same\n", "{told}: {errors}");
        return true;
    }
    if !ended_before_us(&errors) {
        assert!(errors.contains("pagetide: ") && !errors.contains("panicked"), "{told}: {errors}");
    }
    false
}

#[test]
fn what_the_system_refuses_a_server_is_said_or_does_without() {
    let test = "what_the_system_refuses_a_server_is_said_or_does_without";
    if !has("strace", test) {
        return;
    }
    let step = if is_long() { 1 } else { 5 };
    for (nr, kind) in KINDS.into_iter().enumerate() {
        let (mut nr_right, mut nr_said) = (0, 0);
        // With fewer mappings no program is loaded.
        let first = if kind.0 == "mmap" { 18 } else { 1 };
        for at in (first + nr % step..first + 24).step_by(step) {
            for when in [format!("{at}"), format!("{at}+")] {
                let here = folder();
                std::fs::write(here.path().join("a"), noise(1_000_000, 7)).unwrap();
                let output = refused(here.path(), kind, &when);
                let is_right = assert_said_or_right(&output, &format!("{kind:?} {when}"));
                *(if is_right { &mut nr_right } else { &mut nr_said }) += 1;
            }
        }
        eprintln!("{}: {nr_right} right, {nr_said} said", kind.0);
        assert!(nr_right > 0, "{}: what is not needed is not missed", kind.0);
    }
}

/// No more connections are accepted. A waiting program is released.
#[test]
fn programs_go_on_natively_where_no_connection_can_be_taken() {
    let test = "programs_go_on_natively_where_no_connection_can_be_taken";
    if !has("strace", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(1_000_000, 7)).unwrap();
    let output = refused(here.path(), ("accept4", "EMFILE"), "1+");
    assert!(assert_said_or_right(&output, "no connection at all"));
}
