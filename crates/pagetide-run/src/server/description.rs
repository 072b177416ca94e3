//! An open file description: what all descriptors have that were made from one open.
//!
//! POSIX keeps position and status flags in it, shared by dup, fork and exec; so do we, here. The
//! program's descriptors are of a *stand-in*, of which we keep one too, to know it by.
//!
//! ```text
//!   open      a handle: requests are answered from the page cache
//!   settled   a real descriptor: the kernel has the file, and each process that asks gets it
//!   idle      every process we know of has closed it. One that has inherited it unseen (a child
//!             right after fork) asks, and it is open again, position and all
//! ```
//!
//! Lock order: a turn, the file's state, then `inner`. The position's lock is held while bytes
//! move, as the kernel does: two readers of one description never get the same bytes.

use super::answer::{Answer, Outcome, done};
use super::changes::Author;
use super::identity::{lock, path_of};
use super::opened::Opened;
use super::position::Position;
use super::served_file::{Hands, ServedFile};
use super::turn::Turn;
use crate::errno::{Errno, IntoErrno};
use crate::wire::{CHUNK_BYTES, FILE_BYTES_MAX, Reply, Request, lend};
use pagetide::seam::SharedPages;
use pagetide::{Advice, File};
use pagetide_sys::lease::LeaseKind;
use pagetide_sys::shared::Positions;
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

const O_ACCMODE: u64 = 0o3;
const O_APPEND: u64 = 0o2000;
const O_DSYNC: u64 = 0o10000;
const O_SYNC: u64 = 0o4010000;
/// What Linux adds to each open on 64-bit machines.
const O_LARGEFILE: u64 = 0o100000;
/// Flags of open(2) that are about the opening, and not of the description.
const O_OPENING: u64 = 0o100 | 0o200 | 0o400 | 0o1000 | 0o2000000;

/// One open file description.
pub(super) struct Description {
    pub(super) id: u64,
    pub(super) file: Arc<ServedFile>,
    pub(super) stand_in: OwnedFd,
    pub(super) access: Access,
    /// Of calls at the position.
    pub(super) turn: Arc<Turn>,
    pub(super) inner: Mutex<Inner>,
}

/// What a description may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Access {
    /// As open(2)'s flags say.
    pub(super) fn of(flags: u64) -> Access {
        let mode = flags & O_ACCMODE;
        Access { read: mode == 0 || mode == 2, write: mode == 1 || mode == 2 }
    }
}

/// What the kernel's calls are made on, once it has the file.
pub(super) enum Real {
    /// It has not.
    None,
    /// For each process that still has a stand-in.
    Here(Arc<std::fs::File>),
    /// Every process that had a stand-in has it instead. We keep none: it would keep the locks of a
    /// process that is gone, and a program that was written from being executed.
    Given,
    /// There is none.
    Failed(Errno),
}

/// What changes.
pub(super) struct Inner {
    pub(super) handle: Option<File>,
    pub(super) real: Real,
    /// Descriptors that are known, in all processes. A hint: see the module.
    pub(super) nr_known: u64,
    /// It is counted among the file's open descriptions.
    pub(super) is_open: bool,
    pub(super) position: Position,
    /// The status flags, access mode included.
    flags: u64,
}

/// What each write waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    None,
    Contents,
    All,
}

impl Durability {
    pub(super) fn make(self, handle: &File) -> Result<(), Errno> {
        match self {
            Durability::None => Ok(()),
            Durability::Contents => handle.sync_data().errno(),
            Durability::All => handle.sync_all().errno(),
        }
    }
}

impl Inner {
    /// The kernel has the file.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self.real, Real::None)
    }

    /// Every process has its real descriptor.
    pub(super) fn is_given(&self) -> bool {
        matches!(self.real, Real::Given)
    }

    pub(super) fn appends(&self) -> bool {
        self.flags & O_APPEND != 0
    }

    pub(super) fn durability(&self) -> Durability {
        match self.flags {
            flags if flags & O_SYNC == O_SYNC => Durability::All,
            flags if flags & O_DSYNC != 0 => Durability::Contents,
            _ => Durability::None,
        }
    }
}

impl Description {
    pub(super) fn new(
        id: u64,
        file: Arc<ServedFile>,
        stand_in: OwnedFd,
        handle: File,
        flags: u64,
    ) -> Description {
        let inner = Inner {
            handle: Some(handle),
            real: Real::None,
            nr_known: 0,
            is_open: true,
            position: Position::Own(0),
            flags: flags & u64::from(u32::MAX) & !O_OPENING | O_LARGEFILE,
        };
        Description {
            id,
            file,
            stand_in,
            access: Access::of(flags),
            turn: Arc::default(),
            inner: Mutex::new(inner),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// The kernel has the file: makes the descriptor its calls are made on, at the right position,
    /// with the right flags. Where the file cannot be opened any more, `instead` serves, if it may
    /// do the same.
    pub(super) fn settle(&self, instead: Option<&Arc<std::fs::File>>) {
        let mut inner = self.inner();
        if !inner.is_open || inner.is_settled() {
            return;
        }
        inner.handle = None;
        let flags = OFlags::from_bits_retain(inner.flags as u32);
        // The link that opens the file must be followed.
        let flags = (flags - OFlags::NOFOLLOW) | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = rustix::fs::open(path_of(&self.stand_in), flags, Mode::empty());
        let opened = opened.map(|real| Arc::new(real.into()));
        let real = opened.or_else(|errno| {
            let same = instead.filter(|real| self.may_as(real)).ok_or(errno)?;
            rustix::fs::fcntl_setfl(&**same, flags - OFlags::CLOEXEC).map(|()| Arc::clone(same))
        });
        let position = inner.position.close();
        let real =
            real.and_then(|real| rustix::fs::seek(&*real, SeekFrom::Start(position)).map(|_| real));
        inner.real = real.map_or_else(Real::Failed, Real::Here);
    }

    /// Whether `real` has this description's access mode, no more and no less.
    fn may_as(&self, real: &std::fs::File) -> bool {
        let mode = rustix::fs::fcntl_getfl(real).map(|flags| u64::from(flags.bits()));
        mode.is_ok_and(|mode| Access::of(mode) == self.access)
    }

    /// The handle is given up for a moment; returns whether there was one.
    pub(super) fn take_handle(&self) -> bool {
        self.inner().handle.take().is_some()
    }

    pub(super) fn give_handle(&self, handle: File) {
        self.inner().handle = Some(handle);
    }

    /// That the kernel has the file, with the descriptor to go on by.
    pub(super) fn kernel_answer(&self) -> Outcome {
        match &self.inner().real {
            Real::Here(real) => Ok(Answer::kernel(Some(Arc::clone(real)))),
            Real::Given => Ok(Answer::kernel(None)),
            Real::Failed(errno) => Err(*errno),
            Real::None => Err(Errno::IO),
        }
    }

    /// Runs a request that any number may run at once, with the description to itself, and its
    /// position to change.
    pub(super) fn share(
        &self,
        author: Author<'_>,
        request: impl FnOnce(&Opened, &mut MutexGuard<'_, Inner>, &File) -> Outcome,
    ) -> Outcome {
        let _change = author.begin()?;
        let state = self.file.state.read().expect("no holder panics");
        let mut inner = self.inner();
        match (&state.hands, inner.handle.clone()) {
            (Hands::Ours(opened), Some(handle)) => request(opened, &mut inner, &handle),
            _ => {
                drop(inner);
                self.kernel_answer()
            }
        }
    }

    /// As [`Description::share`], without the position: others move it meanwhile.
    pub(super) fn share_apart(&self, request: impl FnOnce(&Opened, &File) -> Outcome) -> Outcome {
        let state = self.file.state.read().expect("no holder panics");
        let handle = self.inner().handle.clone();
        match (&state.hands, handle) {
            (Hands::Ours(opened), Some(handle)) => request(opened, &handle),
            _ => self.kernel_answer(),
        }
    }

    /// Runs a request that must have the file to itself.
    fn alone(
        &self,
        author: Author<'_>,
        request: impl FnOnce(&Opened, &File) -> Outcome,
    ) -> Outcome {
        let _turn = self.file.growth.take();
        let _change = author.begin()?;
        let state = self.file.state.write().expect("no holder panics");
        let handle = self.inner().handle.clone();
        match (&state.hands, handle) {
            (Hands::Ours(opened), Some(handle)) => request(opened, &handle),
            _ => self.kernel_answer(),
        }
    }

    pub(super) fn read(&self, author: Author<'_>, request: &Request, target: &mut [u8]) -> Outcome {
        self.must_read()?;
        let _turn = self.turn.take();
        self.share(author, |_, inner, handle| {
            let wanted = request.total.max(request.len);
            let (base, most) = inner.position.advance(wanted, handle.len());
            let len = request.len.min(target.len() as u64).min(most) as usize;
            let read = handle.read_at(&mut target[..len], base).errno();
            let nr_read = *read.as_ref().unwrap_or(&0);
            let total = if nr_read < len { nr_read as u64 } else { most };
            if total < most {
                // They were not read; if others have gone on meanwhile, they never are.
                inner.position.replace(base + most, base + total);
            }
            let result = read? as i64;
            let reply = Reply { offset: base, total, tag: tag_of(handle), ..Reply::done(result) };
            Ok(Answer { nr_out: nr_read, ..Answer::of(reply) })
        })
    }

    /// Moves the position over what the other side goes on to read there by itself.
    pub(super) fn reserve(
        &self,
        author: Author<'_>,
        total: u64,
        positions: &Arc<Positions>,
    ) -> Outcome {
        self.must_read()?;
        let _turn = self.turn.take();
        self.share(author, |_, inner, handle| {
            let (offset, total) = inner.position.advance(total, handle.len());
            // The next call moves it there by itself: see `position`.
            let place = if self.access.write { 0 } else { inner.position.share(positions) };
            let reply = Reply { offset, total, tag: tag_of(handle), place, ..Reply::done(0) };
            Ok(Answer::of(reply))
        })
    }

    pub(super) fn read_at(&self, request: &Request, target: &mut [u8]) -> Outcome {
        self.must_read()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            let len = request.len.min(target.len() as u64) as usize;
            let nr_read = handle.read_at(&mut target[..len], offset).errno()?;
            let reply = Reply { tag: tag_of(handle), ..Reply::done(nr_read as i64) };
            Ok(Answer { nr_out: nr_read, ..Answer::of(reply) })
        })
    }

    pub(super) fn bring_in(&self, request: &Request) -> Outcome {
        self.must_read()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            let len = request.len.min(CHUNK_BYTES as u64);
            let nr_bytes = handle.bring_in(offset, len).errno()?;
            Ok(Answer::of(Reply { tag: tag_of(handle), ..Reply::done(nr_bytes as i64) }))
        })
    }

    pub(super) fn seek(&self, author: Author<'_>, request: &Request) -> Outcome {
        let _turn = self.turn.take();
        self.share(author, |opened, inner, handle| {
            let len = handle.len() as i64;
            let found = match request.flags {
                3 => Some(opened.find(handle, SeekFrom::Data(request.offset as u64))?),
                4 => Some(opened.find(handle, SeekFrom::Hole(request.offset as u64))?),
                _ => None,
            };
            let target = |before: u64| match request.flags {
                0 => Some(request.offset),
                1 => (before as i64).checked_add(request.offset),
                2 => len.checked_add(request.offset),
                _ => found,
            };
            let is_position = |at: i64| u64::try_from(at).ok().filter(|at| *at < FILE_BYTES_MAX);
            let moved = inner.position.update(|before| target(before).and_then(is_position));
            done(moved.ok_or(Errno::INVAL)?)
        })
    }

    pub(super) fn set_len(&self, author: Author<'_>, len: u64) -> Outcome {
        if !self.access.write {
            return Err(Errno::INVAL);
        }
        self.alone(author, |opened, handle| opened.set_len(handle, len).and_then(|()| done(0)))
    }

    pub(super) fn allocate(&self, author: Author<'_>, request: &Request) -> Outcome {
        self.must_write()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let mode = u32::try_from(request.flags).map_err(|_| Errno::INVAL)?;
        self.alone(author, |opened, handle| {
            opened.change_blocks(handle, mode, offset, request.len)?;
            done(0)
        })
    }

    pub(super) fn sync(&self, with_metadata: bool) -> Outcome {
        self.share_apart(|_, handle| {
            let durability = if with_metadata { Durability::All } else { Durability::Contents };
            durability.make(handle)?;
            done(0)
        })
    }

    pub(super) fn flush(&self) -> Outcome {
        self.share_apart(|opened, _| opened.flush().and_then(|()| done(0)))
    }

    pub(super) fn advise(&self, request: &Request) -> Outcome {
        let advice = match request.flags {
            0 => Advice::Normal,
            1 => Advice::Random,
            2 => Advice::Sequential,
            3 => Advice::WillNeed,
            4 => Advice::DontNeed,
            5 => Advice::NoReuse,
            _ => return Err(Errno::INVAL),
        };
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            // Advice is no promise; what could not be written is the next sync's to tell.
            let _ = handle.advise(advice, offset, request.len);
            done(0)
        })
    }

    /// The descriptor of ours, for a description that may do all that it can.
    pub(super) fn lend(&self) -> Outcome {
        self.share_apart(|opened, _| {
            let covers = match opened.kind {
                LeaseKind::Read => self.access.read,
                LeaseKind::Write => self.access.read && self.access.write,
            };
            if !covers {
                return done(0);
            }
            let flags = rustix::fs::fcntl_getfl(&*opened.real)?;
            let direct = if flags.contains(OFlags::DIRECT) { lend::DIRECT } else { 0 };
            let reply = Reply::done(lend::LENT | direct);
            Ok(Answer { files: vec![Arc::clone(&opened.real)], ..Answer::of(reply) })
        })
    }

    /// The status flags are kept here: the real descriptor gets them when there is one.
    pub(super) fn set_flags(&self, author: Author<'_>, flags: u64) -> Outcome {
        const CHANGEABLE: u64 = 0o2000 | 0o4000 | 0o20000 | 0o40000 | 0o1000000;
        self.share(author, |_, inner, _| {
            inner.flags = inner.flags & !CHANGEABLE | flags & CHANGEABLE;
            done(0)
        })
    }

    pub(super) fn flags(&self) -> Outcome {
        self.share_apart(|_, _| done(self.inner().flags))
    }

    pub(super) fn must_read(&self) -> Result<(), Errno> {
        if self.access.read { Ok(()) } else { Err(Errno::BADF) }
    }

    pub(super) fn must_write(&self) -> Result<(), Errno> {
        if self.access.write { Ok(()) } else { Err(Errno::BADF) }
    }
}

/// What the other side finds the file's pages by.
fn tag_of(handle: &File) -> u32 {
    handle.tag().unwrap_or(0)
}
