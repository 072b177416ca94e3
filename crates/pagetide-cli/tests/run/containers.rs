//! As in a container: an unprivileged user with a seccomp filter against io_uring and userfaultfd.

use super::{has, noise, plain_shell_in, summary_in};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Makes a folder writable by any user.
fn container() -> TempDir {
    let here = tempfile::tempdir().unwrap();
    std::fs::copy(super::pagetide(), here.path().join("pagetide")).unwrap();
    std::fs::write(here.path().join("container.py"), include_str!("container.py")).unwrap();
    plain_shell_in(here.path(), "chmod 777 . && chmod 755 pagetide");
    here
}

fn contained(here: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.args(["container.py", "./pagetide"]).args(args).current_dir(here.path());
    command.output().unwrap()
}

#[test]
fn a_run_without_io_uring_and_userfaultfd_has_the_same_bytes() {
    let test = "a_run_without_io_uring_and_userfaultfd_has_the_same_bytes";
    if !has("python3", test) {
        return;
    }
    let here = container();
    let contents = noise(3_000_000, 9);
    let script = "\
import mmap, os
bytes = open('made', 'rb').read()
with open('copy', 'wb') as copy:
    copy.write(bytes)
    os.fsync(copy.fileno())
again = open('copy', 'rb')
assert again.read() == bytes
assert mmap.mmap(again.fileno(), 0, prot=mmap.PROT_READ)[:] == bytes
print(len(bytes))";
    let make = "cat > made; exec python3 -c \"$SCRIPT\"";
    let output = {
        let mut command = Command::new("python3");
        command.args(["container.py", "./pagetide", "run", "--memory", "1M", "--mmap", "cache"]);
        command.args(["--json", "summary.json", "--", "sh", "-c", make]).current_dir(here.path());
        std::fs::write(here.path().join("input"), &contents).unwrap();
        let input = std::fs::File::open(here.path().join("input")).unwrap();
        command.env("SCRIPT", script).stdin(input).output().unwrap()
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(output.stdout, b"3000000\n", "{errors}");
    assert!(std::fs::read(here.path().join("copy")).unwrap() == contents);
    let summary = summary_in(&here.path().join("summary.json"));
    let kernel = &summary["kernel_files"];
    assert_eq!(kernel["mapped, with userfaultfd refused"], 1, "{summary}");
    assert!(summary["device_read_bytes"].as_u64() > Some(0), "{summary}");
}

#[test]
fn a_demo_without_them_plays_our_subjects() {
    let test = "a_demo_without_them_plays_our_subjects";
    if !has("python3", test) {
        return;
    }
    let here = container();
    let demo = ["demo", "--memory", "4M", "--seconds", "0.1", "--rounds", "1", "--no-report"];
    let what = ["--workloads", "oltp", "--subjects", "pagetide", "--json"];
    let output = contained(&here, &[&demo[..], &what[..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["rows"][0]["detail"]["io_uring"], false, "{document}");
}
