//! Bad input and failures.

use super::{folder, has, pagetide, plain_shell_in, run_in};
use std::process::Command;

fn code_and_errors(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_is_no_program_126() {
    let here = folder();
    std::fs::write(here.path().join("text"), "no program").unwrap();
    assert_eq!(run_in(here.path(), "1M", &["no-such-program"]).status.code(), Some(127));
    assert_eq!(run_in(here.path(), "1M", &["./text"]).status.code(), Some(126));
    assert_eq!(run_in(here.path(), "1M", &["sh", "-c", "exit 9"]).status.code(), Some(9));
}

#[test]
fn a_limit_too_small_is_a_usage_error() {
    let output = run_in(folder().path(), "4K", &["true"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.trim().lines().count(), 1, "{errors}");
}

/// The command alone, as installed by `cargo install`.
#[test]
fn the_library_travels_inside_the_command() {
    let here = folder();
    let copy = here.path().join("pagetide");
    std::fs::copy(pagetide(), &copy).unwrap();
    std::fs::write(here.path().join("data"), vec![1; 1 << 20]).unwrap();
    let run = |cache: &str| {
        let mut run = Command::new(&copy);
        run.args(["run", "--memory", "1M", "--json", "summary", "--"]);
        run.args(["cp", "data", "copy"]).current_dir(&here);
        run.env("XDG_CACHE_HOME", cache).env("XDG_RUNTIME_DIR", cache).env("TMPDIR", cache);
        run
    };
    // A foreign library of another version is not used.
    std::fs::write(here.path().join("libpagetide_preload.so"), "of another version").unwrap();
    let cache = here.path().join("cache");
    for _ in 0..2 {
        let output = run(cache.to_str().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary = std::fs::read_to_string(here.path().join("summary")).unwrap();
        assert!(!summary.contains("\"accesses\": 0,"), "it is served: {summary}");
    }
    let kept: Vec<_> = std::fs::read_dir(cache.join("pagetide")).unwrap().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");

    let (code, errors) = code_and_errors(&mut run("/dev/null/nowhere"));
    assert_eq!((code, errors.lines().count()), (Some(1), 1), "{errors}");
    assert!(errors.contains("no folder for the library"), "{errors}");
}

#[test]
fn a_static_program_is_told_and_gets_its_descriptors() {
    let test = "a_static_program_is_told_and_gets_its_descriptors";
    if !has("gcc", test) || !has("python3", test) {
        return;
    }
    let here = folder();
    let program = "#include <unistd.h>\nint main(void) { return write(9, \"two\\n\", 4) != 4; }";
    std::fs::write(here.path().join("a.c"), program).unwrap();
    plain_shell_in(here.path(), "gcc -static -o program a.c");
    let script = "import os\n\
        fd = os.open('out', os.O_RDWR | os.O_CREAT)\n\
        os.write(fd, b'one\\n')\n\
        os.dup2(fd, 9, inheritable=True)\n\
        assert os.spawnv(os.P_WAIT, './program', ['./program']) == 0\n\
        os.write(fd, b'three\\n')\n";
    let output = run_in(here.path(), "1M", &["python3", "-c", script]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("linked statically"), "{errors}");
    let contents = std::fs::read(here.path().join("out")).unwrap();
    assert_eq!(String::from_utf8(contents).unwrap(), "one\ntwo\nthree\n");
}

/// Argument lists in registers and on the stack. Inherited descriptors become the kernel's.
#[test]
fn execl_and_its_relatives_are_noticed() {
    if !has("gcc", "execl_and_its_relatives_are_noticed") {
        return;
    }
    let here = folder();
    let program = "#include <unistd.h>\n#include <string.h>\n\
        int main(int nr, char **all) { for (int i = 1; i < nr; i++) \
        if (write(9, all[i], strlen(all[i])) < 0) return 1; return nr != 9; }";
    let starter = "#include <fcntl.h>\n#include <unistd.h>\n#include <sys/wait.h>\n\
        extern char **environ;\n\
        #define LIST \"x\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\\n\", (char *)0\n\
        int main(void) { int fd = open(\"out\", O_RDWR | O_CREAT, 0644), status; dup2(fd, 9);\n\
        for (int turn = 0; turn < 3; turn++) { if (fork() == 0) {\n\
        if (turn == 0) execl(\"./program\", LIST); if (turn == 1) execlp(\"./program\", LIST);\n\
        execle(\"./program\", LIST, environ); _exit(99); }\n\
        wait(&status); if (status) return 1 + turn; } return write(fd, \"end\", 3) != 3; }";
    std::fs::write(here.path().join("program.c"), program).unwrap();
    std::fs::write(here.path().join("starter.c"), starter).unwrap();
    let compile = "gcc -static -o program program.c && gcc -w -o starter starter.c";
    plain_shell_in(here.path(), compile);
    let output = run_in(here.path(), "1M", &["./starter"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors.matches("linked statically").count(), 1, "it is said once: {errors}");
    let contents = std::fs::read_to_string(here.path().join("out")).unwrap();
    assert_eq!(contents, "12345678\n12345678\n12345678\nend");
}

#[test]
fn io_uring_is_refused_and_said() {
    if !has("fio", "io_uring_is_refused_and_said") {
        return;
    }
    let line = "fio --name=a --filename=f --size=64K --rw=write --ioengine=io_uring";
    let output = run_in(folder().path(), "1M", &["sh", "-c", line]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("asked for io_uring"), "{errors}");
}

#[test]
fn what_is_excluded_is_the_kernels() {
    let here = folder();
    let text = super::noise(200 << 10, 4);
    std::fs::write(here.path().join("a.log"), &text).unwrap();
    let line = ["cp", "a.log", "b.log"];
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--exclude", "*.log", "--"]).args(line);
    let output = run.current_dir(here.path()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("pagetide: 0 accesses") && errors.contains("excluded"), "{errors}");
    assert_eq!(std::fs::read(here.path().join("b.log")).unwrap(), text);
}

#[test]
fn a_record_replays() {
    let here = folder();
    std::fs::write(here.path().join("a"), super::noise(1 << 20, 6)).unwrap();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "256K", "--record", "a.ptt", "--", "cat", "a", "a"]);
    assert!(run.current_dir(here.path()).output().unwrap().status.success());
    let mut replay = Command::new(pagetide());
    replay.args(["replay", "a.ptt", "--memory", "256K", "--policy", "pagetide", "--json"]);
    let output = replay.current_dir(here.path()).output().unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows["rows"][0]["accesses"].as_u64().unwrap() >= 512, "{rows}");
}
