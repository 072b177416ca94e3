//! Memory of a run, all processes together: the limit and the documented overhead.

use super::{folder, has, noise, pagetide};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Three children do `WORK` on the open file, with its pages `nr` and a 2 MiB `block`.
const SCRIPT: &str = "import os, random, sys\n\
    nr, block = os.path.getsize('a') // 4096, b'x' * (2 << 20)\n\
    go = os.pipe()\n\
    children = []\n\
    for seed in range(3):\n    \
        child = os.fork()\n    \
        if child == 0:\n        \
            os.read(go[0], 1)\n        \
            random.seed(seed)\n        \
            fd = os.open('a', os.O_RDWR)\n        \
            WORK\n        \
            os._exit(0)\n    \
        children.append(child)\n\
    print('ready', flush=True)\n\
    sys.stdin.readline()\n\
    os.write(go[1], b'...')\n\
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)\n\
    print('done', flush=True)\n\
    sys.stdin.readline()\n";

/// Twice the file's size, with a page write in eight.
const READS: &str = "for turn in range(2 * nr):\n            \
        page = random.randrange(nr)\n            \
        if turn % 8 == 0: os.pwrite(fd, b'x' * 4096, page * 4096)\n            \
        else: os.pread(fd, 4096, page * 4096)";

/// Each synced before the next.
const WRITES: &str = "for turn in range(nr // 512):\n            \
        os.pwrite(fd, block, random.randrange(nr // 512) * len(block))\n            \
        os.fsync(fd)";

/// Managed because they are opened for writing.
const SMALL_FILES: &str = "for name in os.listdir('small'):\n            \
        small = os.open('small/' + name, os.O_RDWR)\n            \
        assert os.pread(small, 4096, 0)\n            \
        os.close(small)";

/// Counts shared pages pro rata.
pub(super) fn memory_of(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some((field("Pss_Anon:")? + field("Pss_Shmem:")?) << 10)
}

pub(super) fn descendants_of(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(text.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        next += 1;
    }
    found
}

pub(super) fn memory_of_all(processes: &[u32]) -> u64 {
    processes.iter().filter_map(|process| memory_of(*process)).sum()
}

fn measure(folder: &Path, work: &str, memory: &str, limit: u64) -> u64 {
    let mut run = Command::new(pagetide());
    let script = SCRIPT.replace("WORK", work);
    run.args(["run", "--memory", memory, "--include", "**/a", "--include", "**/small/*"]);
    run.args(["--", "python3", "-c", &script]);
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = run.current_dir(folder).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    // The programs' own memory before any read.
    let own: u64 = memory_of_all(&descendants_of(child.id())[1..]);
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let (tell, told) = channel();
    let reader = std::thread::spawn(move || tell.send(lines.next().unwrap().unwrap()).unwrap());
    let (mut most, mut nr_samples) = (0, 0);
    let last = loop {
        // A look takes a millisecond of CPU time in the kernel.
        let said = told.recv_timeout(Duration::from_millis(10));
        // Once more at the end, for short work.
        most = most.max(memory_of_all(&descendants_of(child.id())));
        nr_samples += 1;
        match said {
            Err(RecvTimeoutError::Timeout) => {}
            other => break other.unwrap(),
        }
    };
    reader.join().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"end\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(last, "done");
    let beside = most.saturating_sub(own).saturating_sub(limit);
    println!(
        "{memory}: {} KiB at most in {nr_samples} looks, {} KiB beside the limit",
        (most - own) >> 10,
        beside >> 10
    );
    assert!(most - own > limit / 2, "{most} bytes, {own} of them before: it was looked at");
    beside
}

/// results/notes.md, "Resident size": 160 bytes per frame, and 12 MiB.
#[test]
fn a_run_takes_its_limit_and_what_is_said_beside_it() {
    if !has("python3", "a_run_takes_its_limit_and_what_is_said_beside_it") {
        return;
    }
    let here = folder();
    let contents = noise(1 << 20, 10);
    let mut file = std::fs::File::create(here.path().join("a")).unwrap();
    (0..48).for_each(|_| file.write_all(&contents).unwrap());
    // Files that are open outside the run are not managed.
    drop(file);
    for (work, memory, mebibytes) in [(READS, "2M", 2), (READS, "24M", 24), (WRITES, "24M", 24)] {
        let limit = mebibytes << 20;
        let beside = measure(here.path(), work, memory, limit);
        let allowed = limit / 4096 * 160 + (12 << 20);
        assert!(beside <= allowed, "{memory}: {beside} bytes beside the limit, {allowed} allowed");
    }
}

/// results/notes.md, "Resident size": 7 KiB per file.
#[test]
fn a_file_of_one_page_takes_little_beside_the_page() {
    if !has("python3", "a_file_of_one_page_takes_little_beside_the_page") {
        return;
    }
    let here = folder();
    let small = here.path().join("small");
    std::fs::create_dir(&small).unwrap();
    std::fs::write(here.path().join("a"), "").unwrap();
    let (nr_files, limit) = (3000, 16 << 20);
    (0..nr_files).for_each(|file| std::fs::write(small.join(file.to_string()), [1; 4096]).unwrap());
    let beside = measure(here.path(), SMALL_FILES, "16M", limit);
    let allowed = nr_files * (7 << 10) + limit / 4096 * 160 + (12 << 20);
    assert!(beside <= allowed, "{beside} bytes beside the limit, {allowed} allowed");
}
