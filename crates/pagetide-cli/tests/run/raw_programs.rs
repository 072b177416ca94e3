//! Programs that make their own system calls: static ones, Go's, a shell in one file, and dynamic
//! ones with inline syscalls. A hidden descriptor may fail in such a program, but never silently.

use super::agents::{Agent, Tree, literal};
use super::{folder, has, noise, plain_shell_in};
use std::path::Path;

/// A program's build, requirements, and first words of its command line.
struct Kind {
    name: &'static str,
    needs: &'static [&'static str],
    make: &'static str,
    begin: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "static",
        needs: &["gcc"],
        make: "gcc -O1 -static raw.c -o raw",
        begin: "'./raw'",
    },
    Kind { name: "dynamic", needs: &["gcc"], make: "gcc -O1 raw.c -o raw", begin: "'./raw'" },
    Kind {
        name: "go",
        needs: &["go"],
        make: "CGO_ENABLED=0 go build -o raw raw.go",
        begin: "'./raw'",
    },
    Kind {
        name: "go that uses C",
        needs: &["go", "gcc"],
        make: "sed -i 's/^package main/package main\\nimport \"C\"/' raw.go && \
               CGO_ENABLED=1 go build -o raw raw.go",
        begin: "'./raw'",
    },
    Kind { name: "busybox", needs: &["busybox"], make: ":", begin: "'busybox', 'sh', 'raw.sh'" },
];

fn for_every_kind(test: &str, law: impl Fn(&Path, &Kind, &mut Agent)) {
    for kind in &KINDS {
        if !kind.needs.iter().chain(&["python3"]).all(|program| has(program, test)) {
            continue;
        }
        eprintln!("{}", kind.name);
        let here = folder();
        for (name, text) in [
            ("raw.c", include_str!("raw.c")),
            ("raw.go", include_str!("raw.go")),
            ("raw.sh", include_str!("raw.sh")),
        ] {
            std::fs::write(here.path().join(name), text).unwrap();
        }
        plain_shell_in(here.path(), kind.make);
        let (tree, mut agent) = Tree::under_run(here.path(), "1M", "inside");
        law(here.path(), kind, &mut agent);
        drop(agent);
        tree.finish();
    }
}

fn start(agent: &mut Agent, kind: &Kind, words: &str, options: &str) -> (i64, Vec<u8>) {
    let line = format!("subprocess.run([{}, {words}], {options})", kind.begin);
    agent.value(&format!("globals().update(ended={line})"));
    (agent.number("ended.returncode"), agent.bytes("ended.stdout or b''"))
}

/// Short files have different rules.
const LENGTHS: [usize; 2] = [100, 300_000];

#[test]
fn a_raw_program_reads_what_a_parent_wrote_and_its_lines_are_kept() {
    let test = "a_raw_program_reads_what_a_parent_wrote_and_its_lines_are_kept";
    for_every_kind(test, |here, kind, agent| {
        for length in LENGTHS {
            let mut expected = noise(length, 1);
            std::fs::write(here.join("log"), &expected).unwrap();
            let log = agent.open("log", "O_RDWR | O_APPEND");
            for turn in 0..3 {
                for part in 0..2 {
                    let text = format!("{turn} {part}\n");
                    agent.number(&format!("os.write({log}, b{text:?})"));
                    expected.extend(text.bytes());
                }
                let (code, seen) = start(agent, kind, "'read', 'log'", "stdout=subprocess.PIPE");
                assert!(code == 0 && seen == expected, "{code}, {} bytes", seen.len());
                let (code, _) = start(agent, kind, "'append', 'log', 'raw\\n'", "");
                expected.extend(b"raw\n");
                assert_eq!(code, 0);
                let seen = agent.bytes(&format!("os.pread({log}, 1 << 20, 0)"));
                assert!(seen == expected, "{} for {}", seen.len(), expected.len());
            }
            agent.value(&format!("os.close({log})"));
            assert!(std::fs::read(here.join("log")).unwrap() == expected);
        }
    });
}

#[test]
fn an_inherited_standard_descriptor_works_in_a_raw_program() {
    let test = "an_inherited_standard_descriptor_works_in_a_raw_program";
    for_every_kind(test, |here, kind, agent| {
        for length in LENGTHS {
            let mut expected = noise(length, 2);
            std::fs::write(here.join("log"), b"").unwrap();
            let log = agent.open("log", "O_RDWR");
            // Parent and child share the position.
            agent.number(&format!("os.write({log}, {})", literal(&expected)));
            let (code, _) =
                start(agent, kind, "'writefd', '1', 'out\\n'", &format!("stdout={log}"));
            assert_eq!(code, 0);
            agent.number(&format!("os.write({log}, b'parent')"));
            expected.extend(b"out\nparent");
            assert!(agent.bytes(&format!("os.pread({log}, 1 << 20, 0)")) == expected);
            let begin = agent.number(&format!("os.lseek({log}, 50, os.SEEK_SET)")) as usize;
            let options = format!("stdin={log}, stdout=subprocess.PIPE");
            let (code, seen) = start(agent, kind, "'readfd', '0'", &options);
            assert!(code == 0 && seen == expected[begin..], "{code}, {} bytes", seen.len());
            let end = agent.number(&format!("os.lseek({log}, 0, os.SEEK_CUR)")) as usize;
            assert_eq!(end, expected.len());
            agent.value(&format!("os.close({log})"));
        }
    });
}

#[test]
fn an_inherited_descriptor_is_right_in_a_raw_program_or_fails_there() {
    let test = "an_inherited_descriptor_is_right_in_a_raw_program_or_fails_there";
    for_every_kind(test, |here, kind, agent| {
        for length in LENGTHS {
            let mut expected = noise(length, 3);
            std::fs::write(here.join("log"), &expected).unwrap();
            let log = agent.open("log", "O_RDWR");
            agent.number(&format!("os.write({log}, b'parent')"));
            expected[..6].copy_from_slice(b"parent");
            agent.number(&format!("os.dup2({log}, 9)"));
            let options = "pass_fds=[9], stdout=subprocess.PIPE";
            let (code, _) = start(agent, kind, "'writefd', '9', 'child'", options);
            if code == 0 {
                expected[6..11].copy_from_slice(b"child");
            }
            let at = agent.number(&format!("os.lseek({log}, 0, os.SEEK_CUR)"));
            assert_eq!(at, if code == 0 { 11 } else { 6 }, "{code}");
            let (code, seen) = start(agent, kind, "'readfd', '9'", options);
            assert!(code != 0 || seen == expected[at as usize..], "{} bytes", seen.len());
            assert!(agent.bytes(&format!("os.pread({log}, 1 << 20, 0)")) == expected);
            agent.value(&format!("os.closerange({log}, 10)"));
            assert!(std::fs::read(here.join("log")).unwrap() == expected);
        }
    });
}
