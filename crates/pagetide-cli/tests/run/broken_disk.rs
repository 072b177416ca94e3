//! Disk errors (EIO) reach programs as natively.

use super::agents::{Tree, literal};
use super::failing_disk::{FailingDisk, pages};
use super::{has, pagetide};
use std::process::Command;

const NR_PAGES: usize = 64;

fn disk(test: &str) -> Option<FailingDisk> {
    if !has("python3", test) {
        return None;
    }
    FailingDisk::mount().inspect_err(|why| eprintln!("SKIPPED: {test}: {why}")).ok()
}

/// Returns the output and the disk's contents.
fn told(run: &[&str], test: &str) -> Option<(String, Vec<u8>)> {
    let disk = disk(test)?;
    let script = disk.control().with_file_name("broken.py");
    std::fs::write(&script, include_str!("broken.py")).unwrap();
    let words: Vec<&str> = run.iter().copied().chain(["python3"]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(script).arg(disk.control()).current_dir(disk.path());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{run:?}: {errors}");
    let contents = std::fs::read(disk.path().join("data")).unwrap();
    Some((String::from_utf8(output.stdout).unwrap(), contents))
}

#[test]
fn programs_hear_of_a_broken_disk_as_without_us() {
    let test = "programs_hear_of_a_broken_disk_as_without_us";
    let Some((expected, _)) = told(&[], test) else { return };
    for memory in ["1M", "64M"] {
        let run = [pagetide().to_str().unwrap(), "run", "--memory", memory, "--"];
        let (printed, contents) = told(&run, test).expect("there was one before");
        assert_eq!(printed, expected, "{memory}");
        assert!(contents == pages(NR_PAGES, 4), "{memory}: bytes are lost");
    }
}

/// The opener waits for unwritable data, then sees all of it.
#[test]
fn a_reader_outside_of_what_a_disk_does_not_take_sees_it_once_it_does() {
    let Some(disk) = disk("a_reader_outside_of_what_a_disk_does_not_take_sees_it_once_it_does")
    else {
        return;
    };
    let (tree, mut inside) = Tree::under_run(&disk.path(), "64M", "inside");
    let file = inside.open("data", "O_RDWR | O_CREAT");
    inside.number(&format!("os.pwrite({file}, {}, 0)", literal(&pages(NR_PAGES, 0))));
    inside.value(&format!("os.fsync({file})"));
    disk.fail("write");
    inside.number(&format!("os.pwrite({file}, {}, 4096)", literal(&pages(4, 9))));
    let path = disk.path().join("data");
    let reader = std::thread::spawn(move || std::fs::read(path).unwrap());
    assert_eq!(inside.ask(&format!("os.fsync({file})")), Err(libc_eio()));
    assert!(!reader.is_finished(), "it would see what is not there");
    disk.fail("");
    let mut expected = pages(NR_PAGES, 0);
    expected[4096..4096 + 4 * 4096].copy_from_slice(&pages(4, 9));
    assert!(reader.join().unwrap() == expected);
    drop(inside);
    tree.finish();
}

fn libc_eio() -> i32 {
    5
}
