//! The storage behind a file, by the kind of its file system in statfs(2).

/// The kind of tmpfs.
pub const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
const HUGETLBFS: u64 = 0x9584_58f6;
const EXT: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683e;
const F2FS: u64 = 0xf2f5_2010;
const OVERLAY: u64 = 0x794c_7630;
const ZFS: u64 = 0x2fc1_2fc1;
const BCACHEFS: u64 = 0xca45_1a4e;

/// The storage of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// The pages in memory are the only storage.
    Memory = 0,
    /// A disk of this machine.
    Local = 1,
    /// Another machine, or a program of this one.
    Other = 2,
}

impl Storage {
    /// Returns the storage of a kind of file system.
    pub const fn of_kind(kind: u64) -> Storage {
        match kind {
            TMPFS | RAMFS | HUGETLBFS => Storage::Memory,
            EXT | XFS | BTRFS | F2FS | OVERLAY | ZFS | BCACHEFS => Storage::Local,
            _ => Storage::Other,
        }
    }
}
