//! Messages are one line, printed once, about the user's concerns, and none with `--quiet`.

use super::{folder, has, pagetide, plain_shell_in};
use std::fs::File;
use std::process::Command;

#[test]
fn redirected_output_is_no_news() {
    let here = folder();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--", "sh", "-c", "echo text; echo more"]);
    run.stdout(File::create(here.path().join("out")).unwrap());
    let output = run.current_dir(here.path()).output().unwrap();
    assert_eq!(std::fs::read(here.path().join("out")).unwrap(), b"text\nmore\n");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("kernel's"), "{errors}");
}

#[test]
fn a_refusal_is_said_once_a_run_and_not_at_all_where_it_is_to_be_quiet() {
    if !has("gcc", "a_refusal_is_said_once_a_run_and_not_at_all_where_it_is_to_be_quiet") {
        return;
    }
    let here = folder();
    // An io_uring setup, ten times.
    let source = "#include <unistd.h>\nint main(void) { char room[120] = {0}; int made = 0;\n\
        for (int n = 0; n < 10; n++) made += syscall(425, 4, room) >= 0; return made; }";
    std::fs::write(here.path().join("a.c"), source).unwrap();
    plain_shell_in(here.path(), "gcc -o a a.c");
    let said = |options: &[&str]| {
        let mut run = Command::new(pagetide());
        run.args(["run", "--memory", "1M"]).args(options);
        run.args(["--", "sh", "-c", "./a && ./a && ./a"]).current_dir(here.path());
        let output = run.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        errors
    };
    let errors = said(&[]);
    assert_eq!(errors.matches("io_uring").count(), 1, "{errors}");
    assert_eq!(said(&["--quiet"]), "");
}
