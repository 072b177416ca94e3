//! New files: the kernel serves them while they are only written, within the limit.

use super::limit::{FEW, cached_in, can_count, most_cached};
use super::{folder, has, noise, pagetide, plain_shell_in, python_counted, python_in, run_counted};
use std::process::Command;

/// Each call comes after a short write, so that the file is still the kernel's.
#[test]
fn a_new_file_has_the_same_bytes_after_each_kind_of_call() {
    if has("python3", "a_new_file_has_the_same_bytes_after_each_kind_of_call") {
        python_in(folder().path(), "4M", include_str!("new_files.py"));
    }
}

/// The pages move from the kernel's page cache to Pagetide's.
#[test]
fn a_new_file_that_is_read_back_is_managed_and_needs_no_device() {
    let test = "a_new_file_that_is_read_back_is_managed_and_needs_no_device";
    let here = folder();
    if !has("python3", test) {
        return;
    }
    let script = "import os\n\
        def check(fd):\n    \
            for at in range(0, 4 << 20, 4096): assert os.pread(fd, 4096, at) == bytes(4096)\n\
        for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND:\n    \
            fd = os.open(str(flags), flags | os.O_CREAT)\n    \
            for _ in range(64): assert os.write(fd, bytes(64 << 10)) == 64 << 10\n    \
            if flags != os.O_RDWR:\n        \
                os.close(fd)\n        \
                fd = os.open(str(flags), os.O_RDONLY)\n    \
            check(fd), os.close(fd)\n";
    let summary = python_counted(here.path(), "64M", &[], script);
    assert_eq!(summary["kernel_files"], serde_json::json!({}), "{summary}");
    let read = summary["device_read_bytes"].as_u64().unwrap();
    assert!(read <= 1 << 20, "the written pages are in the page cache: {summary}");
    assert!(summary["hits"].as_u64().unwrap() >= 3 * 1000, "{summary}");
    let left = cached_in(here.path());
    assert!(left <= 1 << 20, "{left} bytes are still in the kernel's page cache");
}

/// Each script writes 48 MiB to new files.
const SCRIPTS: [(&str, &str); 17] = [
    (
        "several threads",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
def write(first):
    for at in range(first, 48, 4): assert os.pwrite(fd, MEBIBYTE, at << 20) == 1 << 20
threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
[one.start() for one in threads], [one.join() for one in threads]
",
    ),
    (
        "a fork after the open",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def write():
    for _ in range(16): assert os.write(fd, MEBIBYTE) == 1 << 20
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        write()
        os._exit(0)
    children.append(child)
write()
for child in children: assert os.waitpid(child, 0)[1] == 0
",
    ),
    (
        "a child that inherits the descriptor",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
assert os.write(fd, MEBIBYTE) == 1 << 20
subprocess.run(['head', '-c', '47M', '/dev/zero'], stdout=fd, check=True)
",
    ),
    (
        "a child's standard output by posix_spawn",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
assert os.write(fd, MEBIBYTE) == 1 << 20
actions = [(os.POSIX_SPAWN_DUP2, fd, 1)]
command = ['head', '-c', '47M', '/dev/zero']
child = os.posix_spawnp('head', command, os.environ, file_actions=actions)
assert os.waitpid(child, 0)[1] == 0
",
    ),
    (
        "many files at once",
        "
fds = [os.open(f'out{nr}', os.O_WRONLY | os.O_CREAT) for nr in range(48)]
for _ in range(16):
    for fd in fds: assert os.write(fd, MEBIBYTE[:1 << 16]) == 1 << 16
",
    ),
    (
        "short writes to many files",
        "
fds = [os.open(f'out{nr}', os.O_RDWR | os.O_CREAT) for nr in range(100)]
for _ in range(120):
    for fd in fds: assert os.write(fd, MEBIBYTE[:4096]) == 4096
",
    ),
    (
        "copies in the kernel",
        "
open('source', 'wb').write(MEBIBYTE * 16)
def copies():
    fd, source = os.open('out', os.O_WRONLY | os.O_CREAT), os.open('source', os.O_RDONLY)
    for _ in range(16): assert os.sendfile(fd, source, None, 1 << 20) == 1 << 20
    os.lseek(source, 0, os.SEEK_SET)
    left = 16 << 20
    while left > 0: left -= os.copy_file_range(source, fd, 16 << 20)
    read, write = os.pipe()
    for _ in range(256):
        assert os.write(write, MEBIBYTE[:1 << 16]) == 1 << 16
        assert os.splice(read, fd, 1 << 16) == 1 << 16
copies()
os.unlink('source')
",
    ),
    (
        "offsets in random order",
        "
for flags in os.O_WRONLY, os.O_RDWR:
    fd = os.open(f'out{flags}', flags | os.O_CREAT)
    order = list(range(24 << 4))
    random.Random(7).shuffle(order)
    for at in order: assert os.pwrite(fd, MEBIBYTE[:1 << 16], at << 16) == 1 << 16
",
    ),
    (
        "a file with reserved blocks",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
os.posix_fallocate(fd, 0, 48 << 20)
for _ in range(48): assert os.write(fd, MEBIBYTE) == 1 << 20
",
    ),
    (
        "a file that is truncated by the open",
        "
open('out', 'wb').write(MEBIBYTE * 8)
fd = os.open('out', os.O_WRONLY | os.O_TRUNC)
for _ in range(48): assert os.write(fd, MEBIBYTE) == 1 << 20
",
    ),
    (
        "a file that gets another name",
        "
fd = os.open('first', os.O_WRONLY | os.O_CREAT)
for _ in range(8): assert os.write(fd, MEBIBYTE) == 1 << 20
os.rename('first', 'out')
for _ in range(40): assert os.write(fd, MEBIBYTE) == 1 << 20
",
    ),
    (
        "overwrites",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
for _ in range(3):
    for at in range(48): assert os.pwrite(fd, MEBIBYTE, at << 20) == 1 << 20
",
    ),
    (
        "short writes at far offsets",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
for at in range(0, 48 << 20, 4096): assert os.pwrite(fd, b'x', at + 4095) == 1
",
    ),
    (
        "short writes after moves of the position",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
for at in range(0, 48 << 20, 4096):
    os.lseek(fd, at + 4095, os.SEEK_SET)
    assert os.write(fd, b'x') == 1
",
    ),
    (
        "files that are moved to another folder",
        "
for nr in range(8):
    with open('../part', 'wb') as part:
        for _ in range(6): part.write(MEBIBYTE)
    os.rename('../part', f'out{nr}')
",
    ),
    (
        "a descriptor that a child of the C library has",
        "
child = subprocess.Popen(['sleep', '1000'])
for nr in range(6):
    fd = os.open(f'out{nr}', os.O_RDWR | os.O_CREAT)
    os.set_inheritable(fd, True)
    for _ in range(8): assert os.write(fd, MEBIBYTE) == 1 << 20
    os.lseek(fd, 7 << 20, os.SEEK_SET)
    assert os.write(fd, b'end') == 3
    os.close(fd), os.close(os.open('../mebibyte', os.O_RDONLY))
child.kill(), child.wait()
",
    ),
    (
        "a reader beside the writer",
        "
fd = os.open('out', os.O_WRONLY | os.O_CREAT)
reader = os.open('out', os.O_RDONLY)
for at in range(48):
    assert os.write(fd, MEBIBYTE) == 1 << 20
    assert os.pread(reader, 1 << 20, at << 20) == MEBIBYTE
for at in range(48): assert os.pread(reader, 1 << 20, at << 20) == MEBIBYTE
",
    ),
];

#[test]
fn new_files_stay_within_the_limit_however_they_are_written() {
    let test = "new_files_stay_within_the_limit_however_they_are_written";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    std::fs::write(here.path().join("mebibyte"), noise(1 << 20, 11)).unwrap();
    let head = "import os, random, subprocess, sys, threading\n\
        MEBIBYTE = open('../mebibyte', 'rb').read()\n";
    for (name, script) in SCRIPTS {
        let within = here.path().join("files");
        std::fs::create_dir(&within).unwrap();
        let mut run = Command::new(pagetide());
        let script = [head, script].concat();
        run.args(["run", "--quiet", "--memory", "16M", "--", "python3", "-c", &script]);
        let most = most_cached(run.current_dir(&within), &within);
        let len = |entry: std::fs::DirEntry| entry.metadata().unwrap().len();
        let lens = std::fs::read_dir(&within).unwrap().map(|entry| len(entry.unwrap()));
        let written = lens.sum::<u64>();
        assert!(written >= 46 << 20, "{name}: {written} bytes");
        // The kernel reads up to 8 MiB ahead on some machines.
        let ahead = if name.contains("reader") { 8 << 20 } else { 0 };
        assert!(most <= (16 << 20) + FEW + ahead, "{name}: {most} bytes were cached");
        std::fs::remove_dir_all(&within).unwrap();
    }
}

/// The server cannot find such a file by its name.
#[test]
fn a_new_file_without_a_name_stays_within_the_limit() {
    let test = "a_new_file_without_a_name_stays_within_the_limit";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let script = "import os\n\
        for early in True, False:\n    \
            fd = os.open('out', os.O_WRONLY | os.O_CREAT)\n    \
            if not early: assert os.write(fd, bytes(8 << 20)) == 8 << 20\n    \
            os.unlink('out')\n    \
            for _ in range(40): assert os.write(fd, bytes(1 << 20)) == 1 << 20\n    \
            os.close(fd)\n";
    let summary = python_counted(here.path(), "16M", &[], script);
    let most = summary["kernel"]["cached_bytes_max"].as_u64().unwrap();
    assert!((1 << 20..=16 << 20).contains(&most), "{most} bytes were cached");
}

#[test]
fn streams_of_new_files_stay_within_the_limit() {
    let test = "streams_of_new_files_stay_within_the_limit";
    let here = folder();
    if !can_count(here.path(), test) || !has("gcc", test) {
        return;
    }
    let source = "#include <stdio.h>\n#include <wchar.h>\n#include <unistd.h>\n\
        static char line[1000];\n\
        int main(void) {\n\
        FILE *out = fopen(\"files/bytes\", \"w\"), *wide = fopen(\"files/wide\", \"w\");\n\
        for (int i = 0; i < 24000; i++) if (fwrite(line, 1, 1000, out) != 1000) return 1;\n\
        for (int i = 0; i < 24000; i++) if (fwprintf(wide, L\"%01000d\", i) != 1000) return 2;\n\
        int fd = fileno(out);\n\
        for (int i = 0; i < 24000; i++) if (dprintf(fd, \"%01000d\", i) != 1000) return 3;\n\
        return fclose(out) + fclose(wide); }\n";
    std::fs::write(here.path().join("streams.c"), source).unwrap();
    plain_shell_in(here.path(), "gcc -o streams streams.c");
    let within = here.path().join("files");
    std::fs::create_dir(&within).unwrap();
    let mut run = Command::new(pagetide());
    run.args(["run", "--quiet", "--memory", "16M", "--", "./streams"]);
    let most = most_cached(run.current_dir(here.path()), &within);
    assert!(most <= (16 << 20) + FEW, "{most} bytes were cached");
    assert_eq!(std::fs::metadata(within.join("bytes")).unwrap().len(), 48_000_000);
    assert_eq!(std::fs::metadata(within.join("wide")).unwrap().len(), 24_000_000);
}

/// A write by the server would cost a request and two copies.
#[test]
fn a_new_file_that_is_only_written_never_reaches_the_server() {
    let test = "a_new_file_that_is_only_written_never_reaches_the_server";
    let here = folder();
    if !has("python3", test) {
        return;
    }
    let script = "import os, subprocess, threading\n\
        open('old', 'wb').write(bytes(1 << 20))\n\
        def write(fd): assert all(os.write(fd, bytes(1 << 20)) == 1 << 20 for _ in range(8))\n\
        long = os.open('long', os.O_RDWR | os.O_CREAT)\n\
        write(long), os.close(long)\n\
        old = os.open('old', os.O_WRONLY | os.O_TRUNC)\n\
        write(old)\n\
        thread = threading.Thread(target=write, args=(old,))\n\
        thread.start(), thread.join()\n\
        child = os.fork()\n\
        if child == 0:\n    \
            write(old)\n    \
            os._exit(0)\n\
        assert os.waitpid(child, 0)[1] == 0\n";
    let summary = python_counted(here.path(), "64M", &[], script);
    assert_eq!(std::fs::metadata(here.path().join("old")).unwrap().len(), 24 << 20);
    assert_eq!(summary["device_write_bytes"], 0, "{summary}");
    let written = summary["kernel"]["written_bytes"].as_u64();
    assert!(written.is_none_or(|written| written >= 32 << 20), "{summary}");
}

#[test]
fn direct_writes_to_a_new_file_do_not_count_as_cached() {
    let test = "direct_writes_to_a_new_file_do_not_count_as_cached";
    let here = folder();
    if !can_count(here.path(), test) || !has("python3", test) {
        return;
    }
    let script = "import mmap, os\n\
        fd = os.open('out', os.O_WRONLY | os.O_CREAT | os.O_DIRECT)\n\
        for _ in range(48): assert os.write(fd, mmap.mmap(-1, 1 << 20)) == 1 << 20\n";
    let (output, summary) = run_counted(here.path(), "64M", &[], &["python3", "-c", script]);
    if !output.status.success() {
        eprintln!("SKIPPED: {test}: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let most = summary["kernel"]["cached_bytes_max"].as_u64().unwrap();
    assert!(most <= 4 << 20, "{most} bytes count as cached: {summary}");
}

/// The server does not find such a file by its path.
#[test]
fn a_new_file_in_another_mount_namespace_stays_within_the_limit() {
    let test = "a_new_file_in_another_mount_namespace_stays_within_the_limit";
    let here = folder();
    if !can_count(here.path(), test) || !has("unshare", test) || !has("python3", test) {
        return;
    }
    let within = here.path().join("hidden");
    std::fs::create_dir(&within).unwrap();
    std::fs::create_dir(here.path().join("seen")).unwrap();
    let probe = Command::new("unshare").args(["-m", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {test}: there are no mount namespaces here");
        return;
    }
    let line = "mount --bind hidden seen && python3 -c '\n\
        for nr in range(4): open(f\"seen/{nr}\", \"wb\").write(bytes(12 << 20))'";
    let mut run = Command::new(pagetide());
    run.args(["run", "--quiet", "--memory", "16M", "--", "unshare", "-m", "sh", "-c", line]);
    let most = most_cached(run.current_dir(here.path()), &within);
    assert!(most <= (16 << 20) + FEW, "{most} bytes were cached");
}

#[test]
fn a_program_leases_a_new_file_that_it_only_writes() {
    if has("python3", "a_program_leases_a_new_file_that_it_only_writes") {
        let script = "import fcntl, os\n\
            fd = os.open('out', os.O_WRONLY | os.O_CREAT)\n\
            assert os.write(fd, bytes(2 << 20)) == 2 << 20\n\
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK\n\
            print('ok')\n";
        python_in(folder().path(), "16M", script);
    }
}
