//! Small files: the kernel serves them, in memory that the page cache lends.

use super::limit::{FEW, cached_in, can_count, most_cached};
use super::{folder, has, noise, pagetide, run_counted};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Makes files no page of which is in the kernel's page cache.
fn make_cold_files(folder: &Path, nr_files: u32, nr_bytes: usize) {
    std::fs::create_dir_all(folder).unwrap();
    let bytes = noise(nr_bytes, 7);
    for nr in 0..nr_files {
        std::fs::write(folder.join(nr.to_string()), &bytes).unwrap();
    }
    rustix::fs::syncfs(File::open(folder).unwrap()).unwrap();
    for nr in 0..nr_files {
        let file = File::open(folder.join(nr.to_string())).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
}

#[test]
fn small_files_below_the_limit_are_read_from_the_device_once() {
    let test = "small_files_below_the_limit_are_read_from_the_device_once";
    let here = folder();
    if !can_count(here.path(), test) {
        return;
    }
    let line = "cat tree/* > /dev/null; cat tree/* > /dev/null; cat tree/* > /dev/null";
    // On a machine that is short of memory, the kernel drops pages of programs and files, and reads
    // them again.
    let is_read_once = (0..5).any(|_| {
        make_cold_files(&here.path().join("tree"), 1000, 24 << 10);
        let (output, summary) = run_counted(here.path(), "64M", &[], &["sh", "-c", line]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(summary["memory_bytes"], 64 << 20, "the loan was returned: {summary}");
        let nr_bytes = summary["kernel"]["device_read_bytes"].as_u64();
        let cached = cached_in(&here.path().join("tree"));
        eprintln!("24 MiB thrice, {cached} bytes are cached: {summary}");
        nr_bytes.is_none_or(|nr_bytes| nr_bytes < 36 << 20) && cached >= 20 << 20
    });
    assert!(is_read_once);
}

#[test]
fn small_files_beyond_the_limit_stay_within_the_limit() {
    let test = "small_files_beyond_the_limit_stay_within_the_limit";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let (source, target) = (here.path().join("source"), here.path().join("target"));
    make_cold_files(&source, 500, 96 << 10);
    std::fs::create_dir(&target).unwrap();
    let reads = "import os\n\
        for name in os.listdir('source'):\n    \
            with open('source/' + name, 'rb') as file: assert len(file.read()) == 96 << 10\n";
    // Each file gets another name in its folder.
    let writes = "import os\n\
        for nr in range(500):\n    \
            with open(f'target/{nr}.new', 'wb') as file: file.write(bytes(96 << 10))\n    \
            os.rename(f'target/{nr}.new', f'target/{nr}')\n";
    for (script, folder) in [(reads, &source), (writes, &target)] {
        let mut run = Command::new(pagetide());
        run.args(["run", "--quiet", "--memory", "16M", "--", "python3", "-c", script]);
        let most = most_cached(run.current_dir(here.path()), folder);
        assert!(most <= (16 << 20) + FEW, "{script}: {most} bytes of 47 MiB were cached");
        assert!(most >= 8 << 20, "{script}: only {most} bytes were cached");
    }
}

#[test]
fn a_large_file_gets_the_memory_that_small_files_have_borrowed() {
    let test = "a_large_file_gets_the_memory_that_small_files_have_borrowed";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let tree = here.path().join("tree");
    make_cold_files(&tree, 400, 48 << 10);
    let mut large = File::create(here.path().join("large")).unwrap();
    large.write_all(&noise(30 << 20, 9)).unwrap();
    drop(large);
    let script = "import os, select, sys\n\
        for name in os.listdir('tree'): open('tree/' + name, 'rb').read()\n\
        print('read', flush=True)\n\
        sys.stdin.readline()\n\
        fd = os.open('large', os.O_RDONLY)\n\
        while not select.select([sys.stdin], [], [], 0)[0]:\n    \
            for at in range(0, 30 << 20, 1 << 20): os.pread(fd, 1 << 20, at)\n";
    let mut run = Command::new(pagetide());
    run.args(["run", "--quiet", "--memory", "32M", "--", "python3", "-c", script]);
    let run = run.current_dir(here.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let before = cached_in(&tree);
    assert!(before >= 14 << 20, "{before} bytes of 18 MiB are cached");
    child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while cached_in(&tree) > FEW {
        assert!(Instant::now() < deadline, "{} bytes are cached", cached_in(&tree));
    }
    child.stdin.as_mut().unwrap().write_all(b"end\n").unwrap();
    assert!(child.wait().unwrap().success());
}
