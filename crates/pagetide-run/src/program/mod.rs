//! Detection of unservable programs from their files, before execution.
//!
//! ```text
//!   ELF with an interpreter   the dynamic linker runs, and loads our library
//!   ELF without interpreter   static: the program makes its own system calls
//!   ELF with a Go note        dynamic or static, the program makes its own system calls
//!   set-user-id, set-group-id the dynamic linker ignores LD_PRELOAD
//!   #!                        the named interpreter is inspected instead
//! ```
//!
//! Both the command and the preload library inspect programs, each with its own [`ProgramFile`],
//! because the library may not allocate memory.
//!
//! **Ignored.** File capabilities, with which the dynamic linker also ignores LD_PRELOAD. Static
//! position-independent programs have no interpreter and count as static.
//!
//! Source: elf(5), execve(2), ld.so(8).

#[cfg(feature = "server")]
mod on_disk;

#[cfg(feature = "server")]
pub use on_disk::find;
#[cfg(feature = "server")]
pub(crate) use on_disk::{is_program, sentence};

use std::ffi::CStr;

/// Maximum nesting of script interpreters.
const SCRIPTS_MAX: usize = 4;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const ENTRY_BYTES: usize = 56;

/// The reason why a program cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unserved {
    /// The program has no dynamic linker.
    Static,
    /// The program is written in Go.
    Go,
    /// The program runs with the rights of another user or group.
    SetId,
}

impl Unserved {
    /// Returns the reason as the end of a sentence about the program.
    pub fn reason(self) -> &'static str {
        match self {
            Unserved::Static => "is linked statically",
            Unserved::Go => "makes its system calls without the C library",
            Unserved::SetId => "runs with another user's rights",
        }
    }
}

/// The owner of a file or process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// A program's file, with open and read provided by the caller.
pub trait ProgramFile: Sized {
    /// Opens the file at `path`. Returns `None` on failure.
    fn open(path: &CStr) -> Option<Self>;

    /// Returns the file's mode and owner, `None` if unknown.
    fn mode_and_owner(&self) -> Option<(u32, Owner)>;

    /// Fills the front of `target` from `offset`. Returns the bytes read, 0 on failure.
    fn read_at(&self, target: &mut [u8], offset: u64) -> usize;
}

/// Returns the reason why the program in `file` cannot be served to a process of `user`. Unreadable
/// files and other types are left to the kernel.
pub fn inspect<F: ProgramFile>(file: &F, user: Owner) -> Option<Unserved> {
    inspect_deeply(file, user, SCRIPTS_MAX)
}

fn inspect_deeply<F: ProgramFile>(file: &F, user: Owner, scripts_left: usize) -> Option<Unserved> {
    let (mode, owner) = file.mode_and_owner()?;
    let gains_user = mode & SET_USER_ID != 0 && owner.user != user.user;
    let gains_group = mode & SET_GROUP_ID != 0 && owner.group != user.group;
    if gains_user || gains_group {
        return Some(Unserved::SetId);
    }
    let mut head = [0; 256];
    let len = file.read_at(&mut head, 0);
    let head = &head[..len];
    if let Some(line) = head.strip_prefix(b"#!") {
        let scripts_left = scripts_left.checked_sub(1)?;
        return inspect_deeply(&interpreter_of::<F>(line)?, user, scripts_left);
    }
    // A 64-bit little-endian ELF file with all fields read below.
    let is_elf = head.len() >= 64 && head.starts_with(b"\x7fELF\x02\x01");
    if is_elf { inspect_elf(file, head) } else { None }
}

/// Opens a script's interpreter. `line` is the script without its first two bytes.
fn interpreter_of<F: ProgramFile>(line: &[u8]) -> Option<F> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let name = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    let mut path = [0; 256];
    path[..name.len()].copy_from_slice(name);
    F::open(CStr::from_bytes_until_nul(&path).ok()?)
}

fn inspect_elf(file: &impl ProgramFile, head: &[u8]) -> Option<Unserved> {
    let table = word(head, 32);
    let (entry_bytes, nr_entries) = (half(head, 54), half(head, 56));
    let (mut has_interpreter, mut is_go) = (false, false);
    for index in 0..nr_entries {
        let mut entry = [0; ENTRY_BYTES];
        if file.read_at(&mut entry, table.saturating_add(index * entry_bytes)) < entry.len() {
            // The kernel will reject the file.
            return None;
        }
        match u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) {
            PT_INTERP => has_interpreter = true,
            PT_NOTE => is_go |= has_note_of_go(file, word(&entry, 8), word(&entry, 32)),
            _ => {}
        }
    }
    match (has_interpreter, is_go) {
        (false, _) => Some(Unserved::Static),
        (true, true) => Some(Unserved::Go),
        (true, false) => None,
    }
}

/// Returns true if a note segment has a Go note. A note has the lengths of name and contents, a
/// type, the name and the contents, padded to four bytes.
fn has_note_of_go(file: &impl ProgramFile, offset: u64, len: u64) -> bool {
    let mut notes = [0; 1024];
    let nr_read = file.read_at(&mut notes, offset);
    let mut rest = &notes[..nr_read.min(usize::try_from(len).unwrap_or(usize::MAX))];
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
