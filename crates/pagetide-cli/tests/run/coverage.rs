//! The list of intercepted and other functions is complete and true.

use super::{has, pagetide};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const LIST: &str = include_str!("../../../pagetide-preload/functions.txt");

/// Prefixes of functions on files or descriptors, without leading underscores.
const FAMILIES: [&str; 80] = [
    "aio_",
    "backtrace_symbols_fd",
    "clone",
    "close",
    "copy_file",
    "creat",
    "daemon",
    "dprintf",
    "dup",
    "epoll_ctl",
    "exec",
    "fallocate",
    "fchmod",
    "fchown",
    "fcntl",
    "fdatasync",
    "fdopen",
    "fexec",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fopen",
    "fork",
    "fremovexattr",
    "freopen",
    "fsetxattr",
    "fsync",
    "ftruncate",
    "futime",
    "io_setup",
    "ioctl",
    "isatty",
    "lio_",
    "llseek",
    "lockf",
    "lseek",
    "lutime",
    "mkostemp",
    "mkstemp",
    "mmap",
    "mremap",
    "open",
    "poll",
    "popen",
    "posix_fa",
    "posix_spawn",
    "ppoll",
    "pread",
    "pselect",
    "pwrite",
    "quick_exit",
    "read_",
    "readahead",
    "readv",
    "remap_file",
    "select",
    "sendfile",
    "sendm",
    "setegid",
    "seteuid",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setuid",
    "splice",
    "sync",
    "syscall",
    "system",
    "tee",
    "tmpfile",
    "truncate",
    "utime",
    "vdprintf",
    "vmsplice",
    "wait",
];
/// Whole names, because the prefixes match unrelated functions.
const NAMES: [&str; 7] = ["read", "write", "writev", "vfork", "exit", "Exit", "opendir"];
/// Functions that only set attributes of a process.
const OTHERS: [&str; 4] = [
    "posix_spawnattr_",
    "posix_spawn_file_actions_init",
    "posix_spawn_file_actions_destroy",
    "sync_",
];

fn exports(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (kind, name) = (words.next()?, words.next()?);
        matches!(kind, "T" | "W" | "i").then(|| name.split('@').next().unwrap().to_owned())
    });
    symbols.collect()
}

/// Parses two lists below lines that begin with #.
fn listed() -> (BTreeSet<String>, BTreeSet<String>) {
    let blocks: Vec<&str> = LIST.split("\n\n").filter(|block| !block.starts_with('#')).collect();
    let [taken, left] = blocks[..] else { panic!("two lists, and not {}", blocks.len()) };
    let names = |text: &'static str| text.split_ascii_whitespace().map(str::to_owned);
    let left = left.lines().map(|line| line.split_once(": ").expect("names, then why").0);
    (names(taken).collect(), left.flat_map(names).collect())
}

fn is_about_files(name: &str) -> bool {
    let bare = name.trim_start_matches('_').trim_start_matches("IO_");
    let is_family = FAMILIES.iter().any(|family| bare.starts_with(family)) || NAMES.contains(&bare);
    is_family && !OTHERS.iter().any(|other| name.starts_with(other))
}

#[test]
fn every_call_is_taken_over_or_listed() {
    let test = "every_call_is_taken_over_or_listed";
    if !cfg!(target_arch = "x86_64") {
        eprintln!("SKIPPED: {test}: the list is that of x86-64");
        return;
    }
    if !has("nm", test) {
        return;
    }
    let ours = exports(&pagetide().with_file_name("deps/libpagetide_preload.so"));
    let (taken, left) = listed();
    assert_eq!(ours, taken, "functions.txt names what the library exports");
    let both: Vec<_> = taken.intersection(&left).collect();
    assert!(both.is_empty(), "taken over and not: {both:?}");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(libc) = maps.lines().find_map(|line| {
        line.find('/').map(|at| &line[at..]).filter(|path| path.ends_with("/libc.so.6"))
    }) else {
        eprintln!("SKIPPED: {test}: this test has no libc.so.6");
        return;
    };
    let theirs = exports(Path::new(libc));
    let missing: Vec<_> = theirs
        .iter()
        .filter(|name| is_about_files(name) && !taken.contains(*name) && !left.contains(*name))
        .collect();
    assert!(missing.is_empty(), "in neither list of functions.txt: {missing:?}");
}
