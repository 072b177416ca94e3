//! Program files of the command that starts a run.

use super::{Owner, ProgramFile, inspect};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

impl ProgramFile for File {
    fn open(path: &CStr) -> Option<File> {
        File::open(OsStr::from_bytes(path.to_bytes())).ok()
    }

    fn mode_and_owner(&self) -> Option<(u32, Owner)> {
        let metadata = self.metadata().ok()?;
        Some((metadata.mode(), Owner { user: metadata.uid(), group: metadata.gid() }))
    }

    fn read_at(&self, target: &mut [u8], offset: u64) -> usize {
        FileExt::read_at(self, target, offset).unwrap_or(0)
    }
}

fn is_elf(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF")
}

/// Returns true if a just opened file is a program or library, which is about to be mapped.
pub(crate) fn is_program(descriptor: &OwnedFd, path: &Path) -> bool {
    // A look costs the kernel a page, and most files need none.
    let is_named = path.to_str().is_some_and(|path| path.contains(".so"));
    let may_run = rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_mode & 0o111 != 0);
    if !is_named && !may_run {
        return false;
    }
    let Ok(file) = File::open(format!("/proc/self/fd/{}", descriptor.as_raw_fd())) else {
        return true;
    };
    let mut head = [0; 4];
    FileExt::read_at(&file, &mut head, 0).is_ok_and(|_| is_elf(&head))
}

pub(crate) fn sentence(file: &File, path: &Path) -> Option<String> {
    let why = inspect(file, ourselves())?.reason();
    let path = path.display();
    Some(format!("pagetide: {path} {why}: its file I/O goes to the kernel"))
}

fn ourselves() -> Owner {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    Owner { user: user.as_raw(), group: group.as_raw() }
}

/// Returns the path of `command` as a shell would find it.
pub fn find(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 || command.is_absolute() {
        return command.exists().then(|| command.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::super::{PT_INTERP, Unserved};
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn inspect(file: &File) -> Option<Unserved> {
        super::inspect(file, ourselves())
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

    /// A dynamic Go program: an interpreter, and its note behind another.
    fn go() -> Vec<u8> {
        let mut bytes = elf(3);
        let notes = [&[4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0][..], b"GNU\0abcd"].concat();
        let note_of_go = [&[4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0][..], b"Go\0\0wxyz"].concat();
        bytes[56] = 2;
        let mut entry = [0; 56];
        entry[0] = 4;
        entry[8] = (64 + 2 * 56) as u8;
        entry[32] = (notes.len() + note_of_go.len()) as u8;
        [&bytes[..], &entry, &notes, &note_of_go].concat()
    }

    #[test]
    fn a_dynamic_program_of_gos_is_told_by_its_note() {
        assert_eq!(inspect(&file_of(&go())), Some(Unserved::Go));
        let mut short = go();
        short.truncate(64 + 2 * 56 + 20);
        assert_eq!(inspect(&file_of(&short)), None);
    }

    #[test]
    fn a_program_with_another_users_rights_is_one_for_others_only() {
        let file = file_of(&elf(3));
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
        assert_eq!(inspect(&file), None);
        let other = Owner { user: ourselves().user + 1, ..ourselves() };
        assert_eq!(super::inspect(&file, other), Some(Unserved::SetId));
    }

    #[test]
    fn a_script_of_itself_is_left_to_the_kernel() {
        let mut script = tempfile::NamedTempFile::new().unwrap();
        writeln!(script.as_file().try_clone().unwrap(), "#!{}", script.path().display()).unwrap();
        script.flush().unwrap();
        assert_eq!(inspect(script.as_file()), None);
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
