//! `--memory auto` in a memory cgroup: uses spare memory, and shrinks before the kernel kills a
//! process.

use super::{folder, has, is_long, pagetide, summary_in};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A memory cgroup, removed on drop.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(limit: u64) -> Option<MemoryGroup> {
        let name = format!("pagetide-auto-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (folder, file) = match v1.is_dir() {
            true => (v1.join(name), "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup").join(name), "memory.max"),
        };
        std::fs::create_dir(&folder).ok()?;
        let group = MemoryGroup(folder);
        std::fs::write(group.0.join(file), limit.to_string()).ok()?;
        Some(group)
    }

    fn nr_killed(&self) -> u64 {
        let read = |name: &str| std::fs::read_to_string(self.0.join(name)).unwrap_or_default();
        let text = read("memory.oom_control") + &read("memory.events");
        let nr = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok());
        nr.unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The last process may be exiting.
        while std::fs::remove_dir(&self.0).is_err_and(|error| error.raw_os_error() == Some(16)) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_program_with_bursts_of_its_own_is_not_killed() {
    let test = "a_program_with_bursts_of_its_own_is_not_killed";
    if !has("python3", test) {
        return;
    }
    let Some(group) = MemoryGroup::new(512 << 20) else {
        eprintln!("SKIPPED: {test}: no memory cgroup can be made (needs root)");
        return;
    };
    let here = folder();
    std::fs::write(here.path().join("auto.py"), include_str!("auto.py")).unwrap();
    // A hole is read like data.
    let file = std::fs::File::create(here.path().join("data")).unwrap();
    file.set_len(1 << 30).unwrap();
    // Files that are open outside of a run are not managed.
    drop(file);
    // Growth is slow on a machine with memory stalls.
    let seconds: &[u32] = if is_long() { &[120] } else { &[6, 20] };
    let has_grown = seconds.iter().any(|&seconds| {
        let auto = play(&group, here.path(), seconds);
        let most = auto["memory_bytes_max"].as_u64().unwrap() >> 20;
        assert!(most < 212, "{most} MiB, beside bursts of 300: {auto}");
        let has_grown = auto["grown"].as_u64() > Some(3) && most >= 100;
        if !has_grown {
            eprintln!("in {seconds} s: {auto}");
        }
        has_grown
    });
    if !has_grown {
        eprintln!("SKIPPED: {test}: whether it grows, as threads wait for memory on this machine");
    }
}

/// Returns the history of the limit.
fn play(group: &MemoryGroup, here: &Path, seconds: u32) -> serde_json::Value {
    let join = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let mut run = Command::new("sh");
    run.args(["-c", join]).arg(&group.0).arg(pagetide());
    run.args(["run", "--memory", "auto:16M-512M", "--json", "summary.json", "--"]);
    run.args(["python3", "auto.py", "data", &seconds.to_string(), "314572800", "1.5"]);
    let output = run.current_dir(here).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(group.nr_killed(), 0, "{errors}");
    assert!(errors.contains("pagetide: memory auto: "), "{errors}");
    summary_in(&here.join("summary.json"))["auto"].take()
}
