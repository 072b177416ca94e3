//! Programs that cannot be served, told from their files.
//!
//! ```text
//!   ELF with an interpreter   the dynamic linker runs, and loads our library
//!   ELF without one           static: its system calls are its own
//!   set-user-id, set-group-id the dynamic linker refuses libraries it is told of
//!   #!                        the interpreter it names is asked instead
//! ```
//!
//! Ignored: file capabilities, which have the dynamic linker refuse as set-user-id has. A static
//! program that is position independent has no interpreter either, and is found.
//!
//! Source: elf(5), execve(2), ld.so(8).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Scripts may be interpreted by scripts, so often.
const SCRIPTS_MAX: usize = 4;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const PT_INTERP: u32 = 3;

/// Why a program cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unserved {
    /// It has no dynamic linker.
    Static,
    /// It runs with the rights of its owner.
    SetId,
}

impl Unserved {
    /// As the end of a sentence about the program.
    fn reason(self) -> &'static str {
        match self {
            Unserved::Static => "is linked statically",
            Unserved::SetId => "runs with another user's rights",
        }
    }
}

/// Why the program in `file` cannot be served, if so. A file that cannot be read, or is something
/// else, is left to the kernel to judge.
pub(crate) fn inspect(file: &File) -> Option<Unserved> {
    inspect_deeply(file, SCRIPTS_MAX).ok().flatten()
}

fn inspect_deeply(file: &File, scripts_left: usize) -> io::Result<Option<Unserved>> {
    let metadata = file.metadata()?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let gains_user = metadata.mode() & SET_USER_ID != 0 && metadata.uid() != user.as_raw();
    let gains_group = metadata.mode() & SET_GROUP_ID != 0 && metadata.gid() != group.as_raw();
    if gains_user || gains_group {
        return Ok(Some(Unserved::SetId));
    }
    let mut head = [0; 256];
    let len = file.read_at(&mut head, 0)?;
    let head = &head[..len];
    if head.starts_with(b"#!") && scripts_left > 0 {
        return match interpreter_of(head) {
            Some(path) => inspect_deeply(&File::open(path)?, scripts_left - 1),
            None => Ok(None),
        };
    }
    Ok((is_elf64(head) && !has_interpreter(file, head)?).then_some(Unserved::Static))
}

fn interpreter_of(head: &[u8]) -> Option<PathBuf> {
    let line = head[2..].split(|byte| *byte == b'\n').next()?;
    let text = std::str::from_utf8(line).ok()?;
    text.split_whitespace().next().map(PathBuf::from)
}

/// 64-bit, little-endian, and long enough for the fields that are read.
fn is_elf64(head: &[u8]) -> bool {
    head.len() >= 64 && head.starts_with(b"\x7fELF\x02\x01")
}

fn has_interpreter(file: &File, head: &[u8]) -> io::Result<bool> {
    let table = u64::from_le_bytes(head[32..40].try_into().expect("eight bytes"));
    let entry_bytes = u16::from_le_bytes([head[54], head[55]]);
    let nr_entries = u16::from_le_bytes([head[56], head[57]]);
    for entry in 0..u64::from(nr_entries) {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, table.saturating_add(entry * u64::from(entry_bytes)))?;
        if u32::from_le_bytes(kind) == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `head`, the first bytes of a file, are those of a program or library.
fn is_elf(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF")
}

/// Whether a file that was just opened is a program or a library: those are mapped as soon as they
/// are of use.
pub(crate) fn is_program(descriptor: &OwnedFd, path: &Path) -> bool {
    // Looking costs the kernel a page; most files need not be looked into.
    let is_named = path.to_str().is_some_and(|path| path.contains(".so"));
    let may_run = rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_mode & 0o111 != 0);
    if !is_named && !may_run {
        return false;
    }
    let Ok(file) = File::open(format!("/proc/self/fd/{}", descriptor.as_raw_fd())) else {
        return true;
    };
    let mut head = [0; 4];
    file.read_at(&mut head, 0).is_ok_and(|_| is_elf(&head))
}

/// That a program cannot be served, as a sentence.
pub(crate) fn describe(unserved: Unserved, path: &Path) -> String {
    let (path, why) = (path.display(), unserved.reason());
    format!("pagetide: {path} {why}: its file I/O goes to the kernel")
}

/// Where a shell would find `command`.
pub(crate) fn find(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 || command.is_absolute() {
        return Some(command.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// An ELF head with one program header of `kind`.
    fn elf(kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes
    }

    #[test]
    fn a_program_without_interpreter_is_static() {
        assert_eq!(inspect(&file_of(&elf(1))), Some(Unserved::Static));
        assert_eq!(inspect(&file_of(&elf(PT_INTERP))), None);
    }

    #[test]
    fn scripts_are_their_interpreters() {
        let mut program = tempfile::NamedTempFile::new().unwrap();
        program.write_all(&elf(1)).unwrap();
        let script = format!("#! {} -x\necho", program.path().display());
        assert_eq!(inspect(&file_of(script.as_bytes())), Some(Unserved::Static));
        assert_eq!(inspect(&file_of(b"just text")), None);
        assert_eq!(inspect(&file_of(b"")), None);
    }

    #[test]
    fn this_test_is_dynamic_or_static_as_its_file_says() {
        let own = File::open("/proc/self/exe").unwrap();
        let is_dynamic = std::fs::read("/proc/self/maps").unwrap().windows(3).any(|w| w == b"ld-");
        assert_eq!(inspect(&own).is_none(), is_dynamic);
    }
}
