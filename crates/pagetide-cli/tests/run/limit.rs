//! The limit of a run includes the kernel's page cache of the files that the run reads and writes.

use super::{
    folder, has, noise, pagetide, plain_shell_in, python_counted, run_counted, summary_in,
};
use pagetide_sys::kernel_cache::read_kernel_cache;
use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that the files of a run may keep in the kernel's page cache.
pub(super) const FEW: u64 = 6 << 20;

/// Returns the bytes of an open file in the kernel's page cache, `None` before Linux 6.5.
fn cached_bytes(file: &File) -> Option<u64> {
    read_kernel_cache(file, 0, 0).ok().map(|found| found.nr_cached << 12)
}

/// Returns the bytes of all files of a folder in the kernel's page cache.
pub(super) fn cached_in(folder: &Path) -> u64 {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // A program may just have renamed a file.
    let files = names.filter_map(|name| File::open(name).ok());
    files.map(|file| cached_bytes(&file).unwrap()).sum()
}

pub(super) fn can_count(folder: &Path, test: &str) -> bool {
    let can = cached_bytes(&File::create(folder.join("probe")).unwrap()).is_some();
    if !can {
        eprintln!("SKIPPED: {test}: the kernel does not tell what it has cached");
    }
    std::fs::remove_file(folder.join("probe")).unwrap();
    can
}

/// Runs a program, and returns the maximum of a folder's bytes in the kernel's page cache.
pub(super) fn most_cached(run: &mut Command, folder: &Path) -> u64 {
    let mut child = run.spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(cached_in(folder));
    }
    assert!(child.wait().unwrap().success());
    most
}

/// Makes a file of 64 MiB, no page of which is in the kernel's page cache.
fn make_cold(path: &Path) -> File {
    let mut file = File::create(path).unwrap();
    let bytes = noise(1 << 20, 3);
    (0..64).for_each(|_| file.write_all(&bytes).unwrap());
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    file
}

#[test]
fn written_files_leave_little_in_the_kernels_cache() {
    let test = "written_files_leave_little_in_the_kernels_cache";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let files = "import os, sys\n\
        for nr in range(400):\n    \
            with open(str(nr), 'wb', buffering=0) as file:\n        \
                for piece in range(PIECES): file.write(b'x' * 4096)\n";
    let python = |nr: u32| format!("python3 -c \"{}\"", files.replace("PIECES", &nr.to_string()));
    let (short, long) = (python(29), python(40));
    // The page cache lends most of its memory to files that the run has created by name.
    let loan = 16 << 20;
    let lines = [
        ("dd if=/dev/zero of=out bs=1M count=64", 64, FEW),
        ("head -c 64M /dev/zero > out", 64, FEW),
        ("seq 5000000 > out", 38, FEW),
        ("seq 2000000 | sort -S 4M -o out", 15, loan),
        (&short, 46, loan),
        (&long, 64, loan),
    ];
    for (line, mebibytes, few) in lines {
        let here = folder();
        let (output, summary) = run_counted(here.path(), "16M", &[], &["sh", "-c", line]);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let cached = cached_in(here.path());
        assert!(cached <= few, "{line}: {cached} bytes of {mebibytes} MiB are cached");
        // The server counts after each write of a MiB that the library sees.
        let peak = summary["kernel"]["cached_bytes_max"].as_u64().unwrap();
        let is_seen = !line.starts_with("seq 5");
        assert!(!is_seen || peak <= few + FEW, "{line}: {peak} bytes were cached");
    }
}

#[test]
fn standard_output_never_has_many_dirty_pages() {
    let test = "standard_output_never_has_many_dirty_pages";
    let here = folder();
    if !can_count(here.path(), test) {
        return;
    }
    let out = File::create(here.path().join("out")).unwrap();
    let seen = out.try_clone().unwrap();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "16M", "--", "head", "-c", "200M", "/dev/zero"]).stdout(out);
    let mut child = run.spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(cached_bytes(&seen).unwrap());
        std::thread::yield_now();
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(seen.metadata().unwrap().len(), 200 << 20);
    let left = cached_bytes(&seen).unwrap();
    assert!(most <= 2 * FEW && left <= FEW, "{most} bytes at most, {left} at the end");
}

#[test]
fn pages_from_before_the_run_stay_in_the_kernels_cache() {
    let test = "pages_from_before_the_run_stay_in_the_kernels_cache";
    let here = folder();
    if !can_count(here.path(), test) {
        return;
    }
    let input = make_cold(&here.path().join("in"));
    let mut file = File::open(here.path().join("in")).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    file.read_exact(&mut vec![0; 8 << 20]).unwrap();
    drop((file, input));
    let cached = || cached_bytes(&File::open(here.path().join("in")).unwrap()).unwrap();
    let before = cached();
    let (output, _) =
        run_counted(here.path(), "16M", &[], &["sh", "-c", "cat < in | wc -c; cat < in | wc -c"]);
    assert_eq!(output.stdout, b"67108864\n67108864\n");
    let after = cached();
    assert!(before <= after && after <= before + FEW, "{before} bytes before, {after} after");
}

#[test]
fn a_locked_file_is_served_all_the_same() {
    let test = "a_locked_file_is_served_all_the_same";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    drop(make_cold(&here.path().join("in")));
    let script = "import fcntl, os\n\
        for flags, kind in (os.O_RDONLY, fcntl.LOCK_SH), (os.O_RDWR, fcntl.LOCK_EX):\n    \
            fd, other = os.open('in', flags), os.open('in', flags)\n    \
            fcntl.flock(fd, kind)\n    \
            assert all(len(os.pread(fd, 1 << 20, at << 20)) == 1 << 20 for at in range(64))\n    \
            try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    \
            except BlockingIOError: pass\n    \
            else: assert False, 'locked twice'\n    \
            read, write = os.pipe()\n    \
            child = os.fork()\n    \
            if child == 0:\n        \
                fcntl.flock(os.open('in', flags), fcntl.LOCK_EX)\n        \
                os._exit(0 if os.read(read, 1) == b'x' else 1)\n    \
            os.write(write, b'x')\n    \
            fcntl.flock(fd, fcntl.LOCK_UN)\n    \
            assert os.waitpid(child, 0)[1] == 0\n    \
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)\n    \
            os.close(fd), os.close(other), os.close(read), os.close(write)\n";
    let summary = python_counted(here.path(), "16M", &[], script);
    assert_eq!(summary["kernel_files"], serde_json::json!({}), "{summary}");
    let cached = cached_in(here.path());
    assert!(cached <= FEW, "{cached} bytes are cached");
}

/// The kernel's locks count for processes outside the run.
#[test]
fn a_lock_holds_against_processes_outside_the_run() {
    let test = "a_lock_holds_against_processes_outside_the_run";
    if !has("python3", test) {
        return;
    }
    for flags in ["O_RDONLY", "O_RDWR"] {
        let here = folder();
        drop(make_cold(&here.path().join("in")));
        let script = format!(
            "import fcntl, os, sys\n\
             fd = os.open('in', os.{flags})\n\
             fcntl.flock(fd, fcntl.LOCK_EX)\n\
             print('locked', flush=True)\n\
             sys.stdin.readline()\n\
             assert len(os.pread(fd, 10, 0)) == 10\n\
             fcntl.flock(fd, fcntl.LOCK_UN)\n\
             print('free', flush=True)\n\
             sys.stdin.readline()\n"
        );
        let mut run = Command::new(pagetide());
        run.args(["run", "--quiet", "--memory", "4M", "--", "python3", "-c", &script]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(here.path());
        let mut child = run.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "locked");
        let file = File::open(here.path().join("in")).unwrap();
        let try_to_lock = || flock(&file, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(try_to_lock(), Err(rustix::io::Errno::WOULDBLOCK), "{flags}");
        child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "free");
        assert_eq!(try_to_lock(), Ok(()), "{flags}");
        child.stdin.as_mut().unwrap().write_all(b"end\n").unwrap();
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn the_summary_counts_reads_and_what_the_kernel_served() {
    let test = "the_summary_counts_reads_and_what_the_kernel_served";
    let here = folder();
    if !has("python3", test) {
        return;
    }
    drop(make_cold(&here.path().join("in")));
    let script = "import os\n\
        fd = os.open('in', os.O_RDONLY)\n\
        for at in range(0, 64 << 20, 1 << 19): os.pread(fd, 16384, at)\n";
    let options = ["--set", "readahead_max=0"];
    let summary = python_counted(here.path(), "4M", &options, script);
    let reads = summary["device_reads"].as_u64().unwrap();
    assert!((128..160).contains(&reads), "{reads} for 128 reads: {summary}");
    let (_, written) = run_counted(here.path(), "4M", &[], &["sh", "-c", "seq 500000 > out"]);
    let bytes = written["kernel"]["written_bytes"].as_u64();
    assert!(bytes.is_none_or(|bytes| bytes >= 3_000_000), "{written}");
    assert!(written["kernel"]["served_share"].as_f64().unwrap() < 0.5, "{written}");
    let again = summary_in(&here.path().join("summary.json"));
    assert_eq!(again["kernel_files"]["standard input or output"], 1, "{again}");
}

/// A static program is served by the kernel. The summary reports its bytes.
#[test]
fn the_summary_reports_the_bytes_of_a_static_program() {
    let test = "the_summary_reports_the_bytes_of_a_static_program";
    let here = folder();
    if !has("gcc", test) {
        return;
    }
    let source = "#include <unistd.h>\n#include <fcntl.h>\nstatic char b[1 << 20];\n\
        int main(void) { int fd = open(\"out\", O_CREAT | O_WRONLY, 0600);\n\
        for (int i = 0; i < 32; i++) if (write(fd, b, sizeof b) != sizeof b) return 1;\n\
        return 0; }\n";
    std::fs::write(here.path().join("raw.c"), source).unwrap();
    plain_shell_in(here.path(), "gcc -static -o raw raw.c || gcc -nostartfiles -o raw raw.c");
    let (output, summary) = run_counted(here.path(), "4M", &[], &["./raw"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = summary["kernel"]["written_bytes"].as_u64();
    assert!(bytes.is_none_or(|bytes| bytes >= 32 << 20), "{summary}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = text.split_once("served 0 % of the I/O; the kernel served ").map(|(_, rest)| rest);
    // The kernel reads programs as well, and again if they left its memory.
    let mebibytes = said.and_then(|rest| rest.split_once(" MiB")?.0.parse::<f64>().ok());
    assert!(mebibytes >= Some(32.0), "{text}");
}

/// The library does not see what puts writes. The second open fails to get a lease.
#[test]
fn standard_output_stays_limited_after_another_open_of_its_file() {
    let test = "standard_output_stays_limited_after_another_open_of_its_file";
    let here = folder();
    if !can_count(here.path(), test) || !has("gcc", test) {
        return;
    }
    let source = "#include <stdio.h>\n\
        int main(void) {\n\
        for (int i = 0; i < 1 << 19; i++) puts(\"thirty-one bytes and a new line\");\n\
        return 0; }\n";
    std::fs::write(here.path().join("lines.c"), source).unwrap();
    plain_shell_in(here.path(), "gcc -o lines lines.c");
    let line = "{ ./lines; : >> out; ./lines; } > out";
    let (output, _) = run_counted(here.path(), "16M", &[], &["sh", "-c", line]);
    assert!(output.status.success());
    let out = File::open(here.path().join("out")).unwrap();
    assert_eq!(out.metadata().unwrap().len(), 32 << 20);
    let cached = cached_bytes(&out).unwrap();
    assert!(cached <= FEW, "{cached} bytes are cached");
}

/// A file in memory has no other storage, so the server has nothing to drop.
#[test]
fn files_in_memory_are_not_limited() {
    let test = "files_in_memory_are_not_limited";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let script = "import os\n\
        fd = os.memfd_create('m')\n\
        for _ in range(16): assert os.write(fd, bytes(1 << 20)) == 1 << 20\n\
        assert len(os.pread(fd, 1 << 20, 15 << 20)) == 1 << 20\n";
    let summary = python_counted(here.path(), "16M", &[], script);
    assert_eq!(summary["kernel"]["cached_bytes_max"], 0, "{summary}");
}

/// A descriptor of the server's would keep the file system from being unmounted.
#[test]
fn a_file_that_was_mapped_is_not_kept_open() {
    let test = "a_file_that_was_mapped_is_not_kept_open";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let script = "import mmap, os, time\n\
        fd = os.open('out', os.O_RDWR | os.O_CREAT)\n\
        os.write(fd, bytes(1 << 20))\n\
        mapped = mmap.mmap(fd, 1 << 20, mmap.MAP_SHARED)\n\
        mapped[5] = 6\n\
        mapped.close()\n\
        os.close(fd)\n\
        server = f'/proc/{os.getppid()}/fd'\n\
        def is_open():\n    \
            for name in os.listdir(server):\n        \
                try:\n            \
                    if os.path.samefile(server + '/' + name, 'out'): return True\n        \
                except OSError: pass\n\
        deadline = time.monotonic() + 30\n\
        while is_open(): assert time.monotonic() < deadline\n";
    let summary = python_counted(here.path(), "16M", &[], script);
    assert_eq!(summary["kernel_files"]["mapped"], 1, "{summary}");
    assert_eq!(cached_bytes(&File::open(here.path().join("out")).unwrap()), Some(0));
}

/// The server exchanges its lease when the writer of a file with a reader closes.
#[test]
fn short_files_with_readers_leave_little_in_the_kernels_cache() {
    let test = "short_files_with_readers_leave_little_in_the_kernels_cache";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let script = "import os\n\
        for nr in range(400):\n    \
            reader = os.open(str(nr), os.O_RDONLY | os.O_CREAT)\n    \
            writer = os.open(str(nr), os.O_WRONLY)\n    \
            for piece in range(29): os.write(writer, b'x' * 4096)\n    \
            os.close(writer), os.close(reader)\n";
    python_counted(here.path(), "16M", &[], script);
    let cached = cached_in(here.path());
    assert!(cached <= 16 << 20, "{cached} bytes of 46 MiB are cached");
}

/// The library does not see the reads of the C library's streams.
#[test]
fn standard_input_of_the_run_is_limited() {
    let test = "standard_input_of_the_run_is_limited";
    let here = folder();
    if !can_count(here.path(), test) || !has("gcc", test) {
        return;
    }
    let source = "#include <stdio.h>\n\
        int main(void) { while (getchar() != EOF) { } return 0; }\n";
    std::fs::write(here.path().join("read.c"), source).unwrap();
    plain_shell_in(here.path(), "gcc -o read read.c");
    let input = make_cold(&here.path().join("in"));
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "16M", "--", "./read"]).current_dir(here.path());
    let status = run.stdin(File::open(here.path().join("in")).unwrap()).status().unwrap();
    assert!(status.success());
    let cached = cached_bytes(&input).unwrap();
    assert!(cached <= 20 << 20, "{cached} bytes are cached");
}

/// The library does not see the writes of the C library's streams.
#[test]
fn a_file_that_is_open_elsewhere_is_limited() {
    let test = "a_file_that_is_open_elsewhere_is_limited";
    let here = folder();
    if !can_count(here.path(), test) || !has("gcc", test) {
        return;
    }
    let source = "#include <stdio.h>\n\
        int main(void) {\n\
        FILE *out = fopen(\"out\", \"a\");\n\
        for (int i = 0; i < 1 << 20; i++) fputs(\"thirty-one bytes and a new line\\n\", out);\n\
        return fclose(out) + getchar() - 'x'; }\n";
    std::fs::write(here.path().join("write.c"), source).unwrap();
    plain_shell_in(here.path(), "gcc -o write write.c");
    let out = File::create(here.path().join("out")).unwrap();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "16M", "--", "./write"]).current_dir(here.path());
    let mut child = run.stdin(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while out.metadata().unwrap().len() < 32 << 20 || cached_bytes(&out).unwrap() > FEW {
        assert!(Instant::now() < deadline, "{} bytes are cached", cached_bytes(&out).unwrap());
        std::thread::yield_now();
    }
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn locks_of_one_description_by_two_threads_do_not_conflict() {
    let test = "locks_of_one_description_by_two_threads_do_not_conflict";
    let here = folder();
    if !has("python3", test) {
        return;
    }
    drop(make_cold(&here.path().join("in")));
    let script = "import fcntl, os, threading\n\
        for _ in range(500):\n    \
            fd, both, errors = os.open('in', os.O_RDONLY), threading.Barrier(2), []\n    \
            def lock(kind):\n        \
                both.wait()\n        \
                try: fcntl.flock(fd, kind | fcntl.LOCK_NB)\n        \
                except OSError as error: errors.append(error)\n    \
            kinds = fcntl.LOCK_SH, fcntl.LOCK_EX\n    \
            threads = [threading.Thread(target=lock, args=(kind,)) for kind in kinds]\n    \
            [one.start() for one in threads], [one.join() for one in threads]\n    \
            os.close(fd)\n    \
            assert not errors, errors\n";
    python_counted(here.path(), "16M", &[], script);
}

/// The pages from before the run are gone with the bytes.
#[test]
fn a_file_that_was_cached_and_truncated_is_limited() {
    let test = "a_file_that_was_cached_and_truncated_is_limited";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let mut out = File::create(here.path().join("out")).unwrap();
    out.write_all(&noise(32 << 20, 5)).unwrap();
    let script = "import os\n\
        os.ftruncate(1, 0), os.lseek(1, 0, os.SEEK_SET)\n\
        for _ in range(32): assert os.write(1, bytes(1 << 20)) == 1 << 20\n";
    let mut run = Command::new(pagetide());
    run.args(["run", "--quiet", "--memory", "16M", "--", "python3", "-c", script]);
    assert!(run.stdout(out.try_clone().unwrap()).status().unwrap().success());
    assert_eq!(out.metadata().unwrap().len(), 32 << 20);
    let cached = cached_bytes(&out).unwrap();
    assert!(cached <= FEW, "{cached} bytes are cached");
}
