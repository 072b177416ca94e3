//! Writes by a thread's write window: the results of the kernel, by few system calls.

use super::{folder, has, pagetide, plain_shell_in, shell_in};
use std::process::Command;

#[test]
fn writes_by_a_window_end_as_with_the_kernel() {
    if !has("python3", "writes_by_a_window_end_as_with_the_kernel") {
        return;
    }
    let script = include_str!("windows.py");
    let [ours, natively] = [folder(), folder()];
    for here in [&ours, &natively] {
        std::fs::write(here.path().join("windows.py"), script).unwrap();
    }
    let expected = plain_shell_in(natively.path(), "python3 windows.py");
    for memory in ["2M", "64M"] {
        assert_eq!(shell_in(ours.path(), memory, "python3 windows.py"), expected, "{memory}");
        let files = ["f", "log"].map(|name| std::fs::metadata(ours.path().join(name)).unwrap());
        assert!(files.iter().all(|file| file.len() > 0));
        let compare = format!("cmp f {}/f", natively.path().display());
        plain_shell_in(ours.path(), &compare);
    }
}

/// Filters of containers may refuse the copy by the kernel.
#[test]
fn writes_by_a_window_are_right_where_the_kernel_refuses_to_copy() {
    let test = "writes_by_a_window_are_right_where_the_kernel_refuses_to_copy";
    if !has("python3", test) || !has("strace", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("windows.py"), include_str!("windows.py")).unwrap();
    let expected = plain_shell_in(here.path(), "python3 windows.py");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", "trace=process_vm_readv"]);
    strace.args(["-e", "inject=process_vm_readv:error=EPERM"]).arg(pagetide());
    strace.args(["run", "--quiet", "--memory", "64M", "--", "python3", "windows.py"]);
    let output = strace.current_dir(here.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

/// Counts lines of strace that begin a call.
fn count(trace: &str, call: &str) -> usize {
    let start = format!("{call}(");
    trace.lines().filter(|line| line.contains(&start)).count()
}

#[test]
fn a_write_of_a_mib_is_one_request() {
    let test = "a_write_of_a_mib_is_one_request";
    if !has("strace", test) || !has("python3", test) {
        return;
    }
    let here = folder();
    let script = "import os\nfd = os.open('f', os.O_RDWR | os.O_CREAT)\n\
                  for _ in range(NR): assert os.write(fd, bytes(1 << 20)) == 1 << 20\n";
    let trace_of = |nr: usize| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", "trace", "-e", "trace=sendmsg,ftruncate,rt_sigpending,getuid"]);
        strace.arg(pagetide()).args(["run", "--quiet", "--memory", "64M", "--", "python3", "-c"]);
        strace.arg(script.replace("NR", &nr.to_string())).current_dir(here.path());
        assert!(strace.status().unwrap().success());
        std::fs::remove_file(here.path().join("f")).unwrap();
        std::fs::read_to_string(here.path().join("trace")).unwrap()
    };
    let [few, many] = [trace_of(4), trace_of(36)];
    let per_write = |call| (count(&many, call) as f64 - count(&few, call) as f64) / 32.;
    let calls = ["sendmsg", "ftruncate", "rt_sigpending", "getuid"].map(per_write);
    eprintln!("for each write: sendmsg, ftruncate, rt_sigpending, getuid: {calls:?}");
    // Two packets wake two sleeping ends. Others belong to the report of the program's memory.
    let most = [2.5, 1.1, 0.1, 0.1];
    assert!(calls.iter().zip(most).all(|(nr, most)| *nr <= most), "{calls:?}");
}
