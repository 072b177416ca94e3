//! Unusual programs.

use super::worlds::compiled;
use super::{folder, has, pagetide, plain_shell_in, python_in, run_in};
use std::path::Path;
use std::process::{Command, Output};

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_ok(output: &Output) {
    let status = output.status;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{status}: {}", errors(output));
}

macro_rules! scripts {
    ($($test:ident = $script:literal;)+) => {
        $(
            #[test]
            fn $test() {
                if has("python3", stringify!($test)) {
                    python_in(folder().path(), "256K", include_str!($script));
                }
            }
        )+
    };
}

scripts! {
    a_program_that_is_killed_leaves_no_lock = "killed_locks.py";
    what_is_kept_for_locks_hides_no_later_file = "kept_locks.py";
    record_locks_on_many_files_outlive_an_exec = "executed_locks.py";
    a_refused_close_range_closes_nothing = "refused_closes.py";
    a_fork_among_busy_threads_is_served = "forks.py";
    a_file_that_a_spawn_cuts_is_cut_for_all = "spawn_cuts.py";
    a_copy_is_refused_once_another_process_has_its_target_append = "shared_flags.py";
}

#[test]
fn file_io_in_a_signals_handler_is_right() {
    let test = "file_io_in_a_signals_handler_is_right";
    let Some(here) = compiled(include_str!("handler.c"), "", test) else { return };
    assert_ok(&run_in(here.path(), "128K", &["./compiled"]));
}

#[test]
fn calls_that_succeed_leave_errno_alone() {
    let test = "calls_that_succeed_leave_errno_alone";
    let Some(here) = compiled(include_str!("errno.c"), "-w", test) else { return };
    assert_ok(&run_in(here.path(), "256K", &["./compiled"]));
}

/// Natively no handler runs in the middle of a write.
#[test]
fn a_handler_that_writes_as_well_waits_for_no_long_write() {
    let test = "a_handler_that_writes_as_well_waits_for_no_long_write";
    let Some(here) = compiled(include_str!("long_writes.c"), "", test) else { return };
    for flags in ["0", "1024"] {
        assert_ok(&run_in(here.path(), "8M", &["timeout", "120", "./compiled", flags]));
    }
}

#[test]
fn calls_of_the_less_common_kinds_answer_as_the_kernel_does() {
    let test = "calls_of_the_less_common_kinds_answer_as_the_kernel_does";
    let Some(here) = compiled(include_str!("as_the_kernel.c"), "-w", test) else { return };
    let program = here.path().join("compiled");
    let output = run_in(here.path(), "256K", &[&program]);
    let plain = Command::new(&program).current_dir(folder().path()).output().unwrap();
    let lines = |output: &Output| -> Vec<String> {
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    };
    let errors = errors(&output);
    assert!(output.status.success() && plain.status.success(), "{errors}");
    assert!(lines(&plain).len() > 100, "it says what it does");
    assert_eq!(lines(&output), lines(&plain), "{errors}");
}

#[test]
fn tar_finds_what_is_not_written_back_yet() {
    let test = "tar_finds_what_is_not_written_back_yet";
    if !has("tar", test) || !has("python3", test) {
        return;
    }
    let here = folder();
    // The file stays open for writing. tar archives a file without blocks as one hole.
    let script = "import os, subprocess\n\
        fd = os.open('a', os.O_RDWR | os.O_CREAT)\n\
        os.ftruncate(fd, 10 << 20)\n\
        os.pwrite(fd, b'data', 5 << 20)\n\
        subprocess.check_call(['tar', '-cSf', 'a.tar', 'a'])\n\
        out = subprocess.check_output(['tar', '-xOf', 'a.tar'])\n\
        assert out == bytes(5 << 20) + b'data' + bytes((5 << 20) - 4)\n\
        print('ok')";
    assert_ok(&run_in(here.path(), "16M", &["python3", "-c", script]));
}

#[test]
fn a_limit_on_the_length_of_files_is_the_programs_alone() {
    if !has("python3", "a_limit_on_the_length_of_files_is_the_programs_alone") {
        return;
    }
    let here = folder();
    // Files of at most 4 KiB, in a page cache of 1 MiB. Python ignores the signal.
    let script = "import os, resource; fd = os.open('big', os.O_RDWR | os.O_CREAT)\n\
        print(resource.getrlimit(resource.RLIMIT_FSIZE)[0], os.write(fd, bytes(3000)), \
        os.write(fd, bytes(3000)))\n\
        try: os.write(fd, b'more')\n\
        except OSError as error: print(error.errno, os.fstat(fd).st_size)";
    let limited = format!(
        "ulimit -S -f 8; exec {} run --memory 1M -- python3 -c \"{script}\"",
        pagetide().display()
    );
    assert_eq!(plain_shell_in(here.path(), &limited), "4096 3000 1096\n27 4096\n");
}

#[test]
fn a_program_that_closes_everything_is_served_on() {
    let test = "a_program_that_closes_everything_is_served_on";
    let Some(here) = compiled(include_str!("closes.c"), "", test) else { return };
    let output = run_in(here.path(), "256K", &["./compiled"]);
    assert_ok(&output);
    let errors = errors(&output);
    assert!(!errors.contains("has lost its page cache"), "{errors}");
}

#[test]
fn a_malloc_that_writes_files_is_served() {
    let test = "a_malloc_that_writes_files_is_served";
    if !has("python3", test) {
        return;
    }
    let flags = "-shared -fPIC";
    let Some(here) = compiled(include_str!("malloc_log.c"), flags, test) else { return };
    let script = "import os\n\
        fd = os.open('a', os.O_RDWR | os.O_CREAT)\n\
        for n in range(500):\n    os.write(fd, b'%04d' % n * 700)\n\
        read = [os.pread(fd, 4, n * 2800) for n in range(500)]\n\
        assert read == [b'%04d' % n for n in range(500)]\n\
        assert set(open('malloc.log', 'rb').read().split()) == {b'malloc'}\n\
        print('ok')";
    let preload = "LD_PRELOAD=./compiled";
    let output = run_in(here.path(), "256K", &["env", preload, "python3", "-c", script]);
    assert_ok(&output);
    let errors = errors(&output);
    assert!(!errors.contains("pagetide: 0 accesses"), "{errors}");
    let log = std::fs::read_to_string(here.path().join("malloc.log")).unwrap();
    assert!(log.lines().count() > 100 && log.lines().all(|line| line == "malloc"), "{log}");
}

#[test]
fn what_an_aborted_program_had_written_is_there() {
    let test = "what_an_aborted_program_had_written_is_there";
    if !has("python3", test) {
        return;
    }
    let here = folder();
    let script = "import os, resource\n\
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
        fd = os.open('a', os.O_RDWR | os.O_CREAT)\n\
        os.write(fd, b'x' * 100000)\n\
        os.abort()";
    let output = run_in(here.path(), "1M", &["python3", "-c", script]);
    assert_eq!(output.status.code(), Some(134));
    assert_eq!(std::fs::read(here.path().join("a")).unwrap(), vec![b'x'; 100_000]);
}

/// Needs root to mount.
#[test]
fn a_full_disk_is_told_to_the_program_and_harms_no_other_file() {
    let test = "a_full_disk_is_told_to_the_program_and_harms_no_other_file";
    if !has("python3", test) {
        return;
    }
    let here = folder();
    let small = here.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if let Err(refusal) = mount_small(&small) {
        eprintln!("SKIPPED: {test}: a small tmpfs cannot be mounted: {refusal}");
        return;
    }
    std::fs::write(here.path().join("script.py"), include_str!("full_disk.py")).unwrap();
    let mut run = Command::new("timeout");
    run.args(["--kill-after=5", "300"]).arg(pagetide()).args(["run", "--memory", "256K", "--"]);
    run.args(["python3", "script.py"]).arg(&small).current_dir(here.path());
    let output = run.output();
    let unmounted = Command::new("umount").arg(&small).status();
    assert!(unmounted.unwrap().success());
    assert_ok(&output.unwrap());
}

pub(super) fn mount_small(place: &Path) -> Result<(), String> {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1M", "tmpfs"]).arg(place);
    let output = mount.output().map_err(|error| error.to_string())?;
    let refusal = || errors(&output).trim().replace('\n', " ");
    output.status.success().then_some(()).ok_or_else(refusal)
}

#[test]
fn a_program_with_other_rights_is_told() {
    let test = "a_program_with_other_rights_is_told";
    let here = folder();
    // Root gives a copy away. Another user takes a program owned by root.
    let give = "cp /bin/true mine && chown nobody mine && chmod 4755 mine && echo ./mine || \
                ls /usr/bin/passwd /bin/su 2>/dev/null | head -n 1";
    let program = plain_shell_in(here.path(), &format!("{{ {give}; }} 2>/dev/null"));
    let program = program.trim();
    if program.is_empty() {
        eprintln!("SKIPPED: {test}: no program here has its set-user-id bit");
        return;
    }
    let output = run_in(here.path(), "1M", &["sh", "-c", &format!("{program} --help")]);
    let errors = errors(&output);
    assert!(errors.contains("runs with another user's rights"), "{errors}");
}
