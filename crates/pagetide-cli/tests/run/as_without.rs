//! Behaviour equal to a native run.

use super::agents::{Tree, python};
use super::{folder, has, noise, pagetide, plain_shell_in, shell_in};
use std::process::Command;

fn both_ways(script: &str) -> [String; 2] {
    let line = format!("{} -c {}", python(), quoted(script));
    let make = |here: &std::path::Path| std::fs::write(here.join("a"), noise(300_000, 6)).unwrap();
    let (ours, theirs) = (folder(), folder());
    make(ours.path());
    make(theirs.path());
    [shell_in(ours.path(), "1M", &line), plain_shell_in(theirs.path(), &line)]
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A program with a managed file then opens a socket per thread up to its last numbers.
#[test]
fn descriptors_have_the_numbers_they_have_without_us() {
    if !has("python3", "descriptors_have_the_numbers_they_have_without_us") {
        return;
    }
    let script = "import os, subprocess\n\
        def numbers(): return sorted(int(n) for n in os.listdir('/proc/self/fd'))\n\
        print([n for n in numbers() if n < 900])\n\
        a = os.open('a', os.O_RDWR); b = os.open('b', os.O_RDWR | os.O_CREAT); c = os.dup(a)\n\
        os.read(a, 5000); os.write(b, b'text'); os.close(a)\n\
        d = os.open('/dev/null', os.O_RDONLY)\n\
        print(a, b, c, d, [n for n in numbers() if n < 900], os.pipe())\n\
        print(subprocess.check_output('ls /proc/self/fd', shell=True))\n\
        count = 'ls -l /proc/self/fd | grep -c sock || true'\n\
        print(subprocess.check_output(count, shell=True))\n";
    let [ours, theirs] = both_ways(script);
    assert_eq!(ours, theirs);
}

#[test]
fn a_program_is_executed_as_soon_as_its_writer_has_closed_it() {
    if !has("python3", "a_program_is_executed_as_soon_as_its_writer_has_closed_it") {
        return;
    }
    let script = "import os, shutil, subprocess\n\
        for turn in range(30):\n    \
            with open('/bin/sh', 'rb') as old, open('program', 'wb') as new: \
                new.write(old.read() + bytes(300000))\n    \
            os.chmod('program', 0o755)\n    \
            subprocess.check_call(['./program', '-c', 'exit 0'])\n\
        print('ok')";
    let [ours, theirs] = both_ways(script);
    assert_eq!(ours, theirs);
}

/// Lengths and offsets up to the file system's maximum, moved blocks, and rare flags.
#[test]
fn what_only_the_kernel_can_do_it_does() {
    if !has("python3", "what_only_the_kernel_can_do_it_does") {
        return;
    }
    let [ours, theirs] = both_ways(include_str!("only_kernel.py"));
    assert_eq!(ours, theirs);
    assert!(ours.ends_with("end\n"), "{ours}");
}

/// Rights are checked only at open. Needs a user other than root.
#[test]
fn a_file_that_loses_its_rights_stays_open() {
    let test = "a_file_that_loses_its_rights_stays_open";
    if !has("python3", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(300_000, 6)).unwrap();
    // Root has all rights. The other user may not reach the interpreter.
    let is_root = plain_shell_in(here.path(), "id -u").trim() == "0";
    let become_other: &[&str] =
        if is_root { &["setpriv", "--reuid=65534", "--clear-groups", "env"] } else { &["env"] };
    if is_root {
        plain_shell_in(here.path(), "chown -R 65534 .");
    }
    let begins = |python: &&str| {
        let mut begin = Command::new(become_other[0]);
        begin.args(&become_other[1..]).args([python, "-c", "open('a')"]);
        begin.current_dir(here.path()).output().is_ok_and(|output| output.status.success())
    };
    let Some(python) = [python(), "/usr/bin/python3"].into_iter().find(begins) else {
        eprintln!("SKIPPED: {test}: another user reaches no python3");
        return;
    };
    let mut run = Command::new(become_other[0]);
    run.args(&become_other[1..]).arg(pagetide()).args(["run", "--memory", "1M", "--", python]);
    let (tree, mut agent) = Tree::begin(here.path(), run, "inside");
    for flags in ["O_RDONLY", "O_RDWR"] {
        let file = agent.open("a", flags);
        let created = agent.open(&format!("b{flags}"), "O_RDWR | O_CREAT | O_EXCL");
        agent.value(&format!("os.chmod('a', 0), os.fchmod({created}, 0)"));
        assert!(agent.bytes(&format!("os.read({file}, 200)")) == noise(200, 6));
        agent.number(&format!("os.write({created}, b'text')"));
        assert_eq!(agent.bytes(&format!("os.pread({created}, 10, 0)")), b"text");
        assert_eq!(agent.ask("os.open('a', os.O_RDONLY)"), Err(13));
        // The hand-over comes too late to be refused.
        assert!(agent.bytes(&format!("map_read({file}, 100, 0)")) == noise(100, 6));
        agent.value("os.chmod('a', 0o644)");
    }
    drop(agent);
    tree.finish();
}

/// The descriptor limit is per program, and all programs together exceed it.
#[test]
fn many_programs_have_many_files_open() {
    if !has("python3", "many_programs_have_many_files_open") {
        return;
    }
    let here = folder();
    for file in 0..200 {
        std::fs::write(here.path().join(format!("a{file}")), noise(140_000, file)).unwrap();
    }
    let script = "import os\n\
        ends = []\n\
        for child in range(5):\n    \
            read, write = os.pipe(); go_read, go = os.pipe()\n    \
            if os.fork() == 0:\n        \
                for n in (read, go, *(x for e in ends for x in e)): os.close(n)\n        \
                names = [\"a%d\" % (child * 40 + n) for n in range(40)]\n        \
                files = [os.open(name, os.O_RDWR) for name in names]\n        \
                for f in files: os.pwrite(f, b\"new\", 5)\n        \
                os.write(write, b\".\"); os.read(go_read, 1)\n        \
                ok = all(os.pread(f, 3, 5) == b\"new\" for f in files)\n        \
                os.write(write, b\"y\" if ok else b\"n\"); os._exit(0)\n    \
            os.close(write); os.close(go_read); ends.append((read, go))\n\
        print([os.read(r, 1) for r, g in ends].count(b\".\"))\n\
        for r, g in ends: os.write(g, b\".\")\n\
        print([os.read(r, 1) for r, g in ends].count(b\"y\"))\n";
    for limit in ["-S", "-H"] {
        let line = format!(
            "ulimit -S -n 64; ulimit {limit} -n 64; exec {} run --memory 1M -- {} -c {}",
            pagetide().display(),
            python(),
            quoted(script)
        );
        assert_eq!(plain_shell_in(here.path(), &line), "5\n5\n", "{limit}");
        for file in 0..200 {
            let contents = std::fs::read(here.path().join(format!("a{file}"))).unwrap();
            assert!(contents[5..8] == *b"new" && contents[8..] == noise(140_000, file)[8..]);
        }
    }
}

#[test]
fn calls_near_the_last_offset_are_refused_alike() {
    if !has("python3", "calls_near_the_last_offset_are_refused_alike") {
        return;
    }
    let [ours, theirs] = both_ways(include_str!("far.py"));
    assert_eq!(ours, theirs);
}

fn of_c(program: &str, source: &str) -> [String; 2] {
    let (ours, theirs) = (folder(), folder());
    for here in [&ours, &theirs] {
        std::fs::write(here.path().join("program.c"), source).unwrap();
        plain_shell_in(here.path(), &format!("gcc -O1 -w program.c -o {program}"));
    }
    let line = format!("./{program}");
    [shell_in(ours.path(), "512K", &line), plain_shell_in(theirs.path(), &line)]
}

#[test]
fn copies_that_the_kernel_refuses_are_refused() {
    if !has("gcc", "copies_that_the_kernel_refuses_are_refused") {
        return;
    }
    let [ours, theirs] = of_c("copies", include_str!("copies.c"));
    assert_eq!(ours, theirs);
}
