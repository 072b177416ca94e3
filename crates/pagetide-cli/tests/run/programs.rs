//! Programs nobody wrote for us, compared with themselves.

use super::{folder, has, noise, plain_shell_in, run_in, shell_in};

/// Runs a line under us and without us, in folders that begin the same; compares what is printed.
fn compare(memory: &str, files: &[(&str, &[u8])], line: &str) {
    let (ours, theirs) = (folder(), folder());
    for (name, contents) in files {
        std::fs::write(ours.path().join(name), contents).unwrap();
        std::fs::write(theirs.path().join(name), contents).unwrap();
    }
    let expected = plain_shell_in(theirs.path(), line);
    assert_eq!(shell_in(ours.path(), memory, line), expected, "{line}");
    // What is on the disk, read by somebody who knows nothing of us.
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
    // Git sees nothing modified either when it looks without us.
    let seen = plain_shell_in(here.path(), "cd b && git fsck && git diff-files && git status -s");
    assert_eq!(seen, "");
}

#[test]
fn sqlite_builds_and_checks_a_database() {
    if !has("sqlite3", "sqlite_builds_and_checks_a_database") {
        return;
    }
    let here = folder();
    let line = "sqlite3 a.db \"create table t(a integer primary key, b text); \
                with recursive c(x) as (select 1 union all select x+1 from c where x<20000) \
                insert into t select x, hex(x*7919) from c; create index i on t(b); \
                delete from t where a % 3 = 0; vacuum; pragma integrity_check; \
                select count(*), sum(length(b)) from t;\"";
    let printed = shell_in(here.path(), "512K", line);
    assert!(printed.starts_with("ok\n13334|"), "{printed}");
    let check = "sqlite3 a.db 'pragma integrity_check; select count(*), sum(length(b)) from t'";
    assert_eq!(plain_shell_in(here.path(), check), printed);
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !has("fio", "fio_verifies_what_it_wrote") {
        return;
    }
    for (engine, threads) in [("psync", "--thread"), ("sync", ""), ("pvsync", "--thread")] {
        let here = folder();
        let line = format!(
            "fio --name=a --directory=. --size=4M --rw=randwrite --bs=4k --ioengine={engine} \
             --verify=crc32c --numjobs=4 {threads} | grep -c 'err= 0'"
        );
        assert_eq!(shell_in(here.path(), "2M", &line), "4\n", "{engine}");
    }
}

#[test]
fn python_sees_one_file_through_every_call() {
    if !has("python3", "python_sees_one_file_through_every_call") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("calls.py"), include_str!("calls.py")).unwrap();
    let output = run_in(here.path(), "256K", &["python3", "calls.py"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{errors}");
}
