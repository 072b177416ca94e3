//! Programs that cannot be served, told from their files before they are executed.
//!
//! ```text
//!   ELF with an interpreter   the dynamic linker runs, and loads our library
//!   ELF without one           static: its system calls are its own
//!   ELF with a note of Go's   dynamic or not, its system calls are its own
//!   set-user-id, set-group-id the dynamic linker refuses libraries it is told of
//!   #!                        the interpreter it names is looked at instead
//! ```
//!
//! Such a program finds stand-ins open that the kernel refuses to read and write, so what it would
//! inherit is handed over before.
//!
//! **Ignored.** File capabilities, which have the dynamic linker refuse as set-user-id has. A
//! static program that is position independent has no interpreter either, and is found.
//!
//! Source: elf(5), execve(2), ld.so(8).

use crate::{next, own, process};
use libc::c_int;
use std::ffi::CStr;

/// Scripts may be interpreted by scripts, so often.
const SCRIPTS_MAX: usize = 4;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;

/// Why a program cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unserved {
    /// It has no dynamic linker.
    Static,
    /// It is written in Go.
    Go,
    /// It runs with another user's or group's rights.
    SetId,
}

impl Unserved {
    /// As the end of a sentence about the program.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Unserved::Static => "is linked statically",
            Unserved::Go => "makes its system calls without the C library",
            Unserved::SetId => "runs with another user's rights",
        }
    }
}

/// Why the program that is open at `fd` cannot be served, if so. What cannot be read, or is
/// something else, is left to the kernel to judge.
pub(crate) fn inspect(fd: c_int) -> Option<Unserved> {
    inspect_deeply(fd, SCRIPTS_MAX)
}

fn inspect_deeply(fd: c_int, scripts_left: usize) -> Option<Unserved> {
    if gains_rights(&process::stat(fd).ok()?) {
        return Some(Unserved::SetId);
    }
    let mut head = [0; 256];
    let len = read(fd, &mut head, 0);
    let head = &head[..len];
    if let Some(line) = head.strip_prefix(b"#!") {
        return inspect_interpreter(line, scripts_left.checked_sub(1)?);
    }
    // 64-bit, little-endian, and long enough for the fields that are read.
    let is_elf = head.len() >= 64 && head.starts_with(b"\x7fELF\x02\x01");
    if is_elf { inspect_elf(fd, head) } else { None }
}

fn gains_rights(stat: &libc::stat) -> bool {
    // SAFETY: no arguments (S20).
    let (user, group) = (unsafe { libc::geteuid() }, unsafe { libc::getegid() });
    stat.st_mode & libc::S_ISUID != 0 && stat.st_uid != user
        || stat.st_mode & libc::S_ISGID != 0 && stat.st_gid != group
}

/// `line` is what follows a script's first two bytes.
fn inspect_interpreter(line: &[u8], scripts_left: usize) -> Option<Unserved> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let name = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    let mut path = [0; 256];
    path[..name.len()].copy_from_slice(name);
    let fd = open(CStr::from_bytes_until_nul(&path).ok()?)?;
    let found = inspect_deeply(fd, scripts_left);
    own::close(fd);
    found
}

/// Opens a program's file.
pub(crate) fn open(path: &CStr) -> Option<c_int> {
    // SAFETY: a string (S20).
    let fd =
        unsafe { next::openat(libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    (fd >= 0).then_some(fd)
}

fn inspect_elf(fd: c_int, head: &[u8]) -> Option<Unserved> {
    let table = word(head, 32);
    let (entry_bytes, nr_entries) = (half(head, 54), half(head, 56));
    let (mut has_interpreter, mut is_go) = (false, false);
    for index in 0..nr_entries {
        let mut entry = [0; 56];
        if read(fd, &mut entry, table.saturating_add(index * entry_bytes)) < entry.len() {
            // As the kernel will find.
            return None;
        }
        match u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) {
            PT_INTERP => has_interpreter = true,
            PT_NOTE => is_go |= has_note_of_go(fd, word(&entry, 8), word(&entry, 32)),
            _ => {}
        }
    }
    match (has_interpreter, is_go) {
        (false, _) => Some(Unserved::Static),
        (true, true) => Some(Unserved::Go),
        (true, false) => None,
    }
}

/// Looks through a segment of notes: the lengths of name and contents, a kind, and these, each
/// filled up to four bytes.
fn has_note_of_go(fd: c_int, offset: u64, len: u64) -> bool {
    let mut notes = [0; 1024];
    let len = read(fd, &mut notes, offset).min(usize::try_from(len).unwrap_or(usize::MAX));
    let mut rest = &notes[..len];
    while rest.len() >= 16 {
        if rest[..4] == 4_u32.to_le_bytes() && rest[12..16] == *b"Go\0\0" {
            return true;
        }
        let lens = word(rest, 0);
        let [name, contents] = [lens as u32, (lens >> 32) as u32].map(|len| len as usize);
        let next = 12 + name.next_multiple_of(4) + contents.next_multiple_of(4);
        rest = rest.get(next..).unwrap_or_default();
    }
    false
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn half(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// pread(2); how many bytes there are.
fn read(fd: c_int, target: &mut [u8], offset: u64) -> usize {
    // SAFETY: a live buffer, so long (S20).
    let nr = unsafe { next::pread64(fd, target.as_mut_ptr().cast(), target.len(), offset as i64) };
    nr.max(0) as usize
}
