//! Unmodified programs, compared with native runs.

use super::{
    folder, has, is_long, noise, pagetide, plain_shell_in, python_in, run_in, shell_in, summary_in,
};
use std::process::Command;

fn compare(memory: &str, files: &[(&str, &[u8])], line: &str) {
    let (ours, theirs) = (folder(), folder());
    for (name, contents) in files {
        std::fs::write(ours.path().join(name), contents).unwrap();
        std::fs::write(theirs.path().join(name), contents).unwrap();
    }
    let expected = plain_shell_in(theirs.path(), line);
    assert_eq!(shell_in(ours.path(), memory, line), expected, "{line}");
    // Read outside the run.
    let sums = "find . -type f | sort | xargs md5sum";
    assert_eq!(plain_shell_in(ours.path(), sums), plain_shell_in(theirs.path(), sums), "{line}");
}

#[test]
fn files_are_copied_over_less_memory_than_they_have() {
    let noise = noise(3 << 20, 1);
    let files = [("a", &noise[..])];
    compare("1M", &files, "cp a b && cat a b > c && md5sum a b c && wc -c < c");
    compare("1M", &files, "dd if=a of=d bs=7777 2>/dev/null && cmp a d && rm a && mv d a");
    compare("1M", &files, "dd if=a of=d bs=1M seek=2 conv=notrunc 2>/dev/null; md5sum d");
    compare("1M", &files, "head -c 100000 a > b; tail -c 100000 a >> b; truncate -s 150001 b");
}

#[test]
fn shells_append_and_redirect() {
    let line = "echo one > a; echo two >> a; cat a; (echo x; cat a; echo y) > b; cat < b; \
                while read l; do echo \"[$l]\" >> c; done < b; cat c; sort -r b -o b; cat b";
    compare("256K", &[], line);
}

#[test]
fn text_is_sorted_and_searched() {
    let lines: Vec<u8> =
        noise(1 << 19, 2).chunks(8).flat_map(|c| format!("{c:x?} x\n").into_bytes()).collect();
    let files = [("a", &lines[..])];
    compare("512K", &files, "sort a > b && sort -c b && grep -c 'f, f' a; grep -rc 1 . | sort");
}

#[test]
fn archives_hold_what_was_put_in() {
    if !has("tar", "archives_hold_what_was_put_in") {
        return;
    }
    let noise = noise(1 << 20, 3);
    let files = [("a", &noise[..]), ("b", b"small")];
    let line = "mkdir d && tar cf d/t.tar a b && cd d && tar xf t.tar && rm t.tar && \
                cmp a ../a && ls -l --time-style=+%s a ../a | awk '{print $5}'";
    compare("256K", &files, line);
}

#[test]
fn git_clones_packs_and_checks() {
    if !has("git", "git_clones_packs_and_checks") {
        return;
    }
    let here = folder();
    let line = "git init -q a && cd a && git config user.email a@b && git config user.name c && \
                for i in 1 2 3 4 5; do seq $i 2000 > f$i; git add . ; git commit -qm $i; done && \
                cd .. && git clone -q a b && cd b && git gc -q && git fsck --strict && \
                git status --short && git log --oneline | wc -l && md5sum f1 f5";
    let printed = shell_in(here.path(), "1M", line);
    assert!(printed.starts_with("5\n"), "{printed}");
    let seen = plain_shell_in(here.path(), "cd b && git fsck && git diff-files && git status -s");
    assert_eq!(seen, "");
}

#[test]
fn sqlite_builds_and_checks_a_database() {
    if !has("sqlite3", "sqlite_builds_and_checks_a_database") {
        return;
    }
    let here = folder();
    // A row takes 1,000 bytes in the table, plus the index: 200 MB, or 10.
    let nr_rows = if is_long() { 200_000 } else { 10_000 };
    let line = format!(
        "sqlite3 a.db \"create table t(a integer primary key, b text, c blob); \
         with recursive c(x) as (select 1 union all select x+1 from c where x<{nr_rows}) \
         insert into t select x, hex(x*7919), randomblob(980) from c; create index i on t(b); \
         select count(*) from t where b like '3%'; \
         delete from t where a % 3 = 0; vacuum; pragma integrity_check; \
         select count(*), sum(length(b)), sum(length(c)) from t;\""
    );
    let memory = if is_long() { "16M" } else { "2M" };
    let printed = shell_in(here.path(), memory, &line);
    let kept = nr_rows - nr_rows / 3;
    assert!(printed.contains(&format!("\nok\n{kept}|")), "{printed}");
    let bytes = std::fs::metadata(here.path().join("a.db")).unwrap().len();
    assert!(bytes > kept * 1_000, "{bytes}");
    let check = "sqlite3 a.db \"select count(*), sum(length(b)), sum(length(c)) from t; \
                 pragma integrity_check;\"";
    let seen = plain_shell_in(here.path(), check);
    assert!(printed.ends_with(seen.strip_suffix("ok\n").unwrap()), "{printed}, then {seen}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !has("fio", "fio_verifies_what_it_wrote") {
        return;
    }
    let (size, memory) = if is_long() { ("64M", "32M") } else { ("3M", "2M") };
    for engine in ["psync", "sync", "pvsync"] {
        for jobs in ["--thread", ""] {
            let here = folder();
            let line = format!(
                "fio --name=a --directory=. --size={size} --rw=randwrite --bs=4k \
                 --ioengine={engine} --verify=crc32c --numjobs=4 {jobs} | grep -c 'err= 0'"
            );
            assert_eq!(shell_in(here.path(), memory, &line), "4\n", "{engine} {jobs}");
        }
    }
}

#[test]
fn python_sees_one_file_through_every_call() {
    if !has("python3", "python_sees_one_file_through_every_call") {
        return;
    }
    let here = folder();
    python_in(here.path(), "256K", include_str!("calls.py"));
}

#[test]
fn c_streams_are_served_as_they_were() {
    let test = "c_streams_are_served_as_they_were";
    if !has("gcc", test) {
        return;
    }
    let (ours, theirs) = (folder(), folder());
    for here in [&ours, &theirs] {
        std::fs::write(here.path().join("streams.c"), include_str!("streams.c")).unwrap();
        plain_shell_in(here.path(), "gcc -O1 -D_FORTIFY_SOURCE=2 streams.c -o streams");
    }
    let expected = plain_shell_in(theirs.path(), "./streams");
    let output = run_in(ours.path(), "256K", &["./streams"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{errors}");
    let sums = "md5sum lines both first second wide family";
    assert_eq!(plain_shell_in(ours.path(), sums), plain_shell_in(theirs.path(), sums));
    // Wide-character streams, unseen opens and small read-only files are the kernel's.
    assert!(errors.contains("1 used by other interfaces"), "{errors}");
    assert!(!errors.contains(" 0 evictions"), "{errors}");
}

/// Sorting reads C streams of six times the limit.
#[test]
fn sorting_stays_within_the_limit() {
    let here = folder();
    let lines: Vec<u8> =
        noise(1 << 19, 2).chunks(8).flat_map(|c| format!("{c:x?} x\n").into_bytes()).collect();
    std::fs::write(here.path().join("a"), &lines).unwrap();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "512K", "--json", "s.json", "--include", "**/a", "--"]);
    run.args(["sort", "-S", "1M", "-T", ".", "a", "-o", "b"]).current_dir(here.path());
    assert!(run.status().unwrap().success());
    let summary = summary_in(&here.path().join("s.json"));
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert!(count("device_read_bytes") >= lines.len() as u64, "{summary}");
    assert!(count("resident_bytes_max") <= 512 << 10, "{summary}");
    assert!((256 << 10..12 << 20).contains(&count("own_bytes")), "{summary}");
    plain_shell_in(here.path(), "sort a | cmp - b");
}
