//! Every read by any program and any call sees all earlier writes, and no write is lost.
//!
//! Each law runs on two processes that share only the files: inside and outside, in two runs, in a
//! nested run, in one run.

use super::agents::{Agent, Tree, literal};
use super::{folder, has, noise};
use std::path::Path;

/// Short files may be treated differently.
const LENGTHS: [usize; 4] = [10, 5000, 200_000, 3 << 20];

fn put(here: &Path, contents: &[u8]) {
    std::fs::write(here.join("f"), contents).unwrap();
}

type Law = fn(&Path, &mut Agent, &mut Agent);

macro_rules! laws {
    ($($law:ident)+) => {
        /// For other file systems.
        pub(super) const LAWS: &[(&str, Law)] = &[$((stringify!($law), $law)),+];

        mod on_the_disk {
            use super::super::agents::{Place, for_every_pair};

            $(
                #[test]
                fn $law() {
                    if super::has("python3", stringify!($law)) {
                        for_every_pair(&Place::disk(), super::$law);
                    }
                }
            )+
        }
    };
}

laws! {
    what_one_appends_another_that_had_it_open_reads_at_once
    what_one_writes_anew_another_that_has_read_it_sees
    both_append_and_every_line_is_there
    both_write_parts_of_the_same_pages_and_both_are_kept
    a_mapping_and_calls_of_another_see_one_file
    what_one_cuts_off_comes_back_for_nobody
    a_counter_under_a_lock_loses_nothing
}

fn what_one_appends_another_that_had_it_open_reads_at_once(
    here: &Path,
    writer: &mut Agent,
    reader: &mut Agent,
) {
    for (turn, length) in LENGTHS.into_iter().enumerate() {
        put(here, &noise(length, turn as u64));
        // As `tail -f`.
        let file = reader.open("f", "O_RDONLY");
        reader.number(&format!("os.lseek({file}, 0, os.SEEK_END)"));
        let log = writer.open("f", "O_WRONLY | O_APPEND");
        for line in 0..20 {
            let text = format!("line {line} of {length}\n");
            writer.number(&format!("os.write({log}, b{text:?})"));
            let seen = reader.bytes(&format!("os.read({file}, 100)"));
            assert_eq!(String::from_utf8_lossy(&seen), text, "{length}");
        }
        for (agent, descriptor) in [(&mut *writer, log), (&mut *reader, file)] {
            agent.value(&format!("os.close({descriptor})"));
        }
    }
}

fn what_one_writes_anew_another_that_has_read_it_sees(
    here: &Path,
    writer: &mut Agent,
    reader: &mut Agent,
) {
    for (turn, length) in LENGTHS.into_iter().enumerate() {
        put(here, &noise(length, turn as u64));
        for flags in ["O_RDONLY", "O_RDWR"] {
            let file = reader.open("f", flags);
            for version in 0..3 {
                reader.bytes(&format!("os.pread({file}, 100, 0)"));
                // As `echo v2 > f`.
                let new = writer.open("f", "O_WRONLY | O_CREAT | O_TRUNC");
                writer.number(&format!("os.write({new}, b'version {version}')"));
                let seen = reader.bytes(&format!("os.pread({file}, 100, 0)"));
                let seen = String::from_utf8_lossy(&seen);
                assert_eq!(seen, format!("version {version}"), "{length} {flags}");
                writer.value(&format!("os.close({new})"));
            }
            reader.value(&format!("os.close({file})"));
        }
    }
}

fn both_append_and_every_line_is_there(here: &Path, left: &mut Agent, right: &mut Agent) {
    put(here, b"");
    let files = [left.open("f", "O_RDWR | O_APPEND"), right.open("f", "O_RDWR | O_APPEND")];
    let mut expected = String::new();
    for line in 0..60 {
        let text = format!("{line} {}\n", "x".repeat(line * 37));
        // Alternating, sometimes twice the same side.
        let side = usize::from(line % 3 == 1);
        let agent = if side == 0 { &mut *left } else { &mut *right };
        agent.number(&format!("os.write({}, b{text:?})", files[side]));
        expected += &text;
    }
    let seen = std::fs::read_to_string(here.join("f")).unwrap();
    assert!(seen == expected, "{} of {} bytes", seen.len(), expected.len());
}

fn both_write_parts_of_the_same_pages_and_both_are_kept(
    here: &Path,
    left: &mut Agent,
    right: &mut Agent,
) {
    let mut expected = noise(64 << 10, 3);
    put(here, &expected);
    let files = [left.open("f", "O_RDWR"), right.open("f", "O_RDWR")];
    for part in 0..120 {
        let side = part % 2;
        let at = part * 3001 % (60 << 10);
        let bytes = noise(1 + part * 7, part as u64);
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
        let agent = if side == 0 { &mut *left } else { &mut *right };
        agent.number(&format!("os.pwrite({}, {}, {at})", files[side], literal(&bytes)));
    }
    for (agent, file) in [(left, files[0]), (right, files[1])] {
        assert!(agent.bytes(&format!("os.pread({file}, 1 << 20, 0)")) == expected);
    }
    assert!(std::fs::read(here.join("f")).unwrap() == expected);
}

fn a_mapping_and_calls_of_another_see_one_file(here: &Path, left: &mut Agent, right: &mut Agent) {
    put(here, &noise(300_000, 5));
    let ours = left.open("f", "O_RDWR");
    let theirs = right.open("f", "O_RDWR");
    for turn in 0..6 {
        let at = turn * 40_003;
        left.number(&format!("os.pwrite({ours}, b'called {turn}', {at})"));
        let seen = right.bytes(&format!("map_read({theirs}, 8, {at})"));
        assert_eq!(String::from_utf8_lossy(&seen), format!("called {turn}"));
        right.value(&format!("map_write({theirs}, b'mapped {turn}', {at})"));
        let seen = left.bytes(&format!("os.pread({ours}, 8, {at})"));
        assert_eq!(String::from_utf8_lossy(&seen), format!("mapped {turn}"));
    }
}

fn what_one_cuts_off_comes_back_for_nobody(here: &Path, left: &mut Agent, right: &mut Agent) {
    let old = vec![b'o'; 300_000];
    put(here, &old);
    let ours = left.open("f", "O_RDWR");
    let theirs = right.open("f", "O_RDWR");
    left.number(&format!("os.pwrite({ours}, b'n' * 20000, 200000)"));
    right.value(&format!("os.ftruncate({theirs}, 5000)"));
    assert_eq!(left.number(&format!("os.fstat({ours}).st_size")), 5000);
    assert_eq!(left.value(&format!("os.pread({ours}, 10, 5000)")), "");
    left.number(&format!("os.pwrite({ours}, b'end', 250000)"));
    let mut expected = old[..5000].to_vec();
    expected.resize(250_000, 0);
    expected.extend(b"end");
    assert!(right.bytes(&format!("os.pread({theirs}, 1 << 20, 0)")) == expected);
    left.value("os.truncate('f', 4000)");
    right.value("os.truncate('f', 6000)");
    expected.truncate(4000);
    expected.resize(6000, 0);
    assert!(left.bytes("contents('f')") == expected);
    assert!(std::fs::read(here.join("f")).unwrap() == expected);
}

/// As databases and mailboxes, some hundred times each, concurrently.
fn a_counter_under_a_lock_loses_nothing(here: &Path, left: &mut Agent, right: &mut Agent) {
    let loop_of = |number: usize| {
        format!(
            "[(fcntl.lockf(f, fcntl.LOCK_EX), \
               os.pwrite(f, b'%08d' % (int(os.pread(f, 8, 4090)) + 1), 4090), \
               os.write(g, b'{number}'), \
               fcntl.lockf(f, fcntl.LOCK_UN)) for n in range(200)] and None"
        )
    };
    let mut contents = noise(200_000, 8);
    contents[4090..4098].copy_from_slice(b"00000000");
    put(here, &contents);
    for (number, agent) in [&mut *left, &mut *right].into_iter().enumerate() {
        let opened = "f=os.open('f', os.O_RDWR), g=os.open('g', os.O_WRONLY | os.O_CREAT | \
                      os.O_APPEND)";
        agent.value(&format!("globals().update({opened})"));
        agent.tell(&loop_of(number));
    }
    for agent in [left, right] {
        assert_eq!(agent.answer("counts"), Some(Ok("None".into())));
    }
    let seen = std::fs::read(here.join("f")).unwrap();
    assert_eq!(String::from_utf8_lossy(&seen[4090..4098]), "00000400");
    assert_eq!(std::fs::metadata(here.join("g")).unwrap().len(), 400);
}

/// All holders of a descriptor share its position, before and after the file goes to the kernel.
#[test]
fn a_position_is_kept_while_a_file_changes_hands() {
    if !has("python3", "a_position_is_kept_while_a_file_changes_hands") {
        return;
    }
    let here = folder();
    let expected = noise(400_000, 9);
    put(here.path(), &expected);
    let (tree, mut parent) = Tree::under_run(here.path(), "1M", "parent");
    let (_outside, mut outside) = Tree::outside(here.path(), "outside");
    let file = parent.open("f", "O_RDONLY");
    let mut child = parent.fork("child");
    let mut at = 0;
    let mut read_next = |agent: &mut Agent, count: usize| {
        let seen = agent.bytes(&format!("os.read({file}, {count})"));
        assert!(seen == expected[at..at + count], "{count} bytes at {at}");
        at += count;
    };
    read_next(&mut parent, 1000);
    read_next(&mut child, 1234);
    let writer = outside.open("f", "O_RDWR");
    read_next(&mut child, 1);
    read_next(&mut parent, 70_000);
    outside.value(&format!("os.close({writer})"));
    read_next(&mut parent, 3);
    read_next(&mut child, 100_000);
    drop((child, parent));
    tree.finish();
}
