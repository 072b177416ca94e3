//! An open file description: what all descriptors have that were made from one open.
//!
//! POSIX keeps position and status flags in it, shared by dup, fork and exec; so do we, here.
//!
//! ```text
//!   handle  Some(file)   somebody is known to have it open
//!           None         not yet: `pending` is what to open, when bytes are first wanted. Many
//!                        files are opened only to be mapped, or asked for their size
//!                        forgotten: everybody we know of has closed it. Whoever inherited it
//!                        unseen (a child right after fork) adopts it again, position and all
//! ```
//!
//! Lock order: the file's owner, then `inner`. The position's lock is held while bytes move, as
//! the kernel does: two readers of one description never get the same bytes.
//!
//! A call longer than one packet reserves its whole range with its first packet, so that what
//! others do meanwhile comes before it or after it.

use super::errno::{Errno, IntoErrno};
use super::position::Position;
use super::served_file::{FileKey, Opened, Owner, ServedFile, allowed, lock};
use pagetide::{Advice, File, PageCache};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::shared::Positions;
use pagetide_sys::tray::Tray;
use pagetide_sys::wire::{CHUNK_BYTES, Offer, Reply, Request, Status, TAG, write as flag};
use rustix::fs::SeekFrom;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

const O_ACCMODE: u64 = 0o3;
const O_APPEND: u64 = 0o2000;
const O_DSYNC: u64 = 0o10000;
/// As the C library has it for the machine we are.
const O_DIRECT: u64 = rustix::fs::OFlags::DIRECT.bits() as u64;
const O_SYNC: u64 = 0o4010000;

/// One open file description.
pub(super) struct Description {
    pub(super) id: u64,
    pub(super) key: FileKey,
    pub(super) file: Arc<ServedFile>,
    read: bool,
    pub(super) write: bool,
    pub(super) inner: Mutex<Inner>,
}

/// What changes.
pub(super) struct Inner {
    pub(super) handle: Option<File>,
    pub(super) pending: Option<OwnedFd>,
    /// Descriptors that are known, in all processes. A hint: see the module.
    pub(super) nr_known: u64,
    pub(super) position: Position,
    /// The kernel has the position, with the file.
    pub(super) is_settled: bool,
    /// The program has asked for O_DIRECT. If not, its library may have: see `settle`.
    pub(super) wants_direct: bool,
    append: bool,
    durability: Durability,
}

/// What each write waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    None,
    Contents,
    All,
}

impl Durability {
    fn of(flags: u64) -> Durability {
        match flags {
            _ if flags & O_SYNC == O_SYNC => Durability::All,
            _ if flags & O_DSYNC != 0 => Durability::Contents,
            _ => Durability::None,
        }
    }
}

/// Where a write begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At the position, or at the end where the status flags say so.
    Position,
    /// At the end of the file, where the position goes along.
    End,
    /// At the end of the file; the position stays.
    EndAlone,
}

/// What the other side finds the file's pages by.
fn tag_of(handle: &File) -> u32 {
    handle.tag().unwrap_or(0)
}

/// Whether open(2)'s `flags` give write access.
pub(super) fn is_write(flags: u64) -> bool {
    flags & O_ACCMODE != 0
}

/// A bound on one answer: the reply, and how many bytes of the buffer go with it.
pub(super) type Answer = Result<(Reply, usize), Errno>;

fn done(result: u64) -> Answer {
    Ok((Reply::done(result as i64), 0))
}

impl Description {
    pub(super) fn new(id: u64, key: FileKey, file: Arc<ServedFile>, flags: u64) -> Description {
        Description {
            id,
            key,
            file,
            read: flags & O_ACCMODE != 1,
            write: is_write(flags),
            inner: Mutex::new(Inner {
                handle: None,
                pending: None,
                nr_known: 0,
                position: Position::Own(0),
                is_settled: false,
                wants_direct: flags & O_DIRECT != 0,
                append: flags & O_APPEND != 0,
                durability: Durability::of(flags),
            }),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Opens what is to be opened, before the first request that needs it.
    pub(super) fn open_pending(&self, cache: &PageCache) -> Result<(), Errno> {
        if self.inner().pending.is_none() {
            return Ok(());
        }
        let mut owner = self.file.owner.write().expect("no holder panics");
        let mut inner = self.inner();
        if let Some(descriptor) = inner.pending.take()
            && !matches!(*owner, Owner::Kernel)
        {
            inner.handle = Some(self.file.open(&mut owner, cache, &descriptor, self.write)?);
        }
        Ok(())
    }

    /// Runs a request that any number may run at once.
    pub(super) fn share(
        &self,
        request: impl FnOnce(&Opened, &mut MutexGuard<'_, Inner>, &File) -> Answer,
    ) -> Answer {
        let owner = self.file.owner.read().expect("no holder panics");
        let mut inner = self.inner();
        match &*owner {
            Owner::Kernel => Ok((Reply::status(inner.kernel_status()), 0)),
            Owner::Nobody => Ok((Reply::status(Status::Forgotten), 0)),
            Owner::PageCache(opened) => match inner.handle.clone() {
                Some(handle) => request(opened, &mut inner, &handle),
                None => Ok((Reply::status(Status::Forgotten), 0)),
            },
        }
    }

    /// As [`Description::share`], without the position: others move it meanwhile.
    fn share_apart(&self, request: impl FnOnce(&Opened, &File) -> Answer) -> Answer {
        let owner = self.file.owner.read().expect("no holder panics");
        let inner = self.inner();
        let handle = inner.handle.clone();
        let status = inner.kernel_status();
        drop(inner);
        match (&*owner, handle) {
            (Owner::PageCache(opened), Some(handle)) => request(opened, &handle),
            (Owner::Kernel, _) => Ok((Reply::status(status), 0)),
            _ => Ok((Reply::status(Status::Forgotten), 0)),
        }
    }

    /// Runs a request that must have the file to itself.
    fn alone(&self, request: impl FnOnce(&Opened, &File) -> Answer) -> Answer {
        let owner = self.file.owner.write().expect("no holder panics");
        let inner = self.inner();
        match (&*owner, &inner.handle) {
            (Owner::PageCache(opened), Some(handle)) => request(opened, handle),
            (Owner::Kernel, _) => Ok((Reply::status(inner.kernel_status()), 0)),
            _ => Ok((Reply::status(Status::Forgotten), 0)),
        }
    }

    pub(super) fn read(&self, request: &Request, target: &mut [u8]) -> Answer {
        self.must_read()?;
        self.share(|_, inner, handle| {
            let wanted = request.total.max(request.len);
            let (base, most) = inner.position.advance(wanted, handle.len());
            let len = request.len.min(target.len() as u64).min(most) as usize;
            let read = handle.read_at(&mut target[..len], base).errno();
            let nr_read = *read.as_ref().unwrap_or(&0);
            let total = if nr_read < len { nr_read as u64 } else { most };
            if total < most {
                // Nobody has read them; if others have gone on meanwhile, nobody will.
                inner.position.replace(base + most, base + total);
            }
            let result = read? as i64;
            let reply = Reply { offset: base, total, tag: tag_of(handle), ..Reply::done(result) };
            Ok((reply, nr_read))
        })
    }

    /// Moves the position over what the other side goes on to read there by itself.
    pub(super) fn reserve(&self, total: u64, positions: &Arc<Positions>) -> Answer {
        self.must_read()?;
        self.share(|_, inner, handle| {
            let (offset, total) = inner.position.advance(total, handle.len());
            // The next one moves it there by itself: see `position`.
            let place = if self.write { 0 } else { inner.position.share(positions) };
            Ok((Reply { offset, total, tag: tag_of(handle), place, ..Reply::done(0) }, 0))
        })
    }

    pub(super) fn read_at(&self, request: &Request, target: &mut [u8]) -> Answer {
        self.must_read()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            let len = request.len.min(target.len() as u64) as usize;
            let nr_read = handle.read_at(&mut target[..len], offset).errno()?;
            Ok((Reply { tag: tag_of(handle), ..Reply::done(nr_read as i64) }, nr_read))
        })
    }

    pub(super) fn bring_in(&self, request: &Request) -> Answer {
        self.must_read()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        self.share_apart(|_, handle| {
            let len = request.len.min(CHUNK_BYTES as u64);
            let nr_bytes = handle.bring_in(offset, len).errno()?;
            Ok((Reply { tag: tag_of(handle), ..Reply::done(nr_bytes as i64) }, 0))
        })
    }

    /// Takes in pages that the other side has read by itself, each with its number in the tray;
    /// what cannot be had is not missed.
    pub(super) fn admit(&self, tray: &Tray, offers: &[(Offer, u64)]) {
        let _ = self.share_apart(|_, handle| {
            // Their cache misses pass side by side, and while bytes are copied.
            offers.iter().for_each(|(offer, _)| handle.fetch_absent(offer.index));
            let mut page = [0; PAGE_BYTES];
            for (offer, nr) in offers {
                tray.take(*nr, &mut page);
                match offer {
                    _ if !offer.is_whole(&page) => false,
                    Offer { is_around: true, .. } => {
                        handle.admit_around(offer.index, offer.writes, &page)
                    }
                    _ => handle.admit(offer.index, offer.writes, &page),
                };
            }
            tray.tell_around(handle.nr_around());
            done(0)
        });
    }

    pub(super) fn write(&self, request: &Request, source: &[u8], start: Start) -> Answer {
        self.must_write()?;
        self.share(|opened, inner, handle| {
            let wanted = request.total.max(source.len() as u64);
            if wanted == 0 {
                return done(0);
            }
            let (base, total) = if start == Start::Position && !inner.append {
                let base = inner.position.get();
                (base, allowed(base, wanted, request.len)?)
            } else {
                self.file.reserve(opened, wanted, request.len)?
            };
            let answer = self.write_there(opened, handle, source, base, total)?;
            inner.make_durable(handle)?;
            if start != Start::EndAlone {
                inner.position.set(base + total);
            }
            Ok(answer)
        })
    }

    /// Writes the front of `total` bytes.
    fn write_there(
        &self,
        opened: &Opened,
        handle: &File,
        source: &[u8],
        base: u64,
        total: u64,
    ) -> Answer {
        self.file.grow(opened, base + total)?;
        let len = source.len().min(usize::try_from(total).unwrap_or(usize::MAX));
        let nr_written = handle.write_at(&source[..len], base).errno()?;
        self.file.touch(opened, base);
        Ok((Reply { offset: base, total, ..Reply::done(nr_written as i64) }, 0))
    }

    pub(super) fn write_at(&self, request: &Request, source: &[u8]) -> Answer {
        self.must_write()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let durability = {
            let inner = self.inner();
            // Linux appends where the status flags say so, whatever the offset.
            let appends = inner.append && request.flags & flag::CONTINUED == 0;
            if appends || request.flags & flag::AT_END != 0 {
                drop(inner);
                return self.write(request, source, Start::EndAlone);
            }
            inner.durability
        };
        self.share_apart(|opened, handle| {
            let wanted = request.total.max(source.len() as u64);
            if wanted == 0 {
                return done(0);
            }
            let total = allowed(offset, wanted, request.len)?;
            let answer = self.write_there(opened, handle, source, offset, total)?;
            durability.make(handle)?;
            Ok(answer)
        })
    }

    pub(super) fn seek(&self, request: &Request) -> Answer {
        self.share(|opened, inner, handle| {
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
            let is_position = |at: i64| u64::try_from(at).ok().filter(|at| *at < TAG);
            let moved = inner.position.update(|before| target(before).and_then(is_position));
            done(moved.ok_or(Errno::INVAL)?)
        })
    }

    pub(super) fn set_len(&self, len: u64) -> Answer {
        if !self.write {
            return Err(Errno::INVAL);
        }
        self.alone(|_, handle| self.file.set_len(handle, len).and_then(|()| done(0)))
    }

    pub(super) fn allocate(&self, request: &Request) -> Answer {
        self.must_write()?;
        let offset = u64::try_from(request.offset).map_err(|_| Errno::INVAL)?;
        let mode = u32::try_from(request.flags).map_err(|_| Errno::INVAL)?;
        self.alone(|opened, handle| {
            self.file.allocate(opened, handle, mode, offset, request.len)?;
            done(0)
        })
    }

    pub(super) fn sync(&self, with_metadata: bool) -> Answer {
        self.share_apart(|_, handle| {
            if with_metadata {
                handle.sync_all().errno()?
            } else {
                handle.sync_data().errno()?
            }
            done(0)
        })
    }

    pub(super) fn flush(&self) -> Answer {
        self.share_apart(|_, handle| {
            self.file.forget_touch();
            handle.flush().errno().and_then(|()| done(0))
        })
    }

    pub(super) fn advise(&self, request: &Request) -> Answer {
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

    pub(super) fn set_flags(&self, flags: u64) -> Answer {
        let mut inner = self.inner();
        inner.append = flags & O_APPEND != 0;
        inner.wants_direct = flags & O_DIRECT != 0;
        done(0)
    }

    fn must_read(&self) -> Result<(), Errno> {
        if self.read { Ok(()) } else { Err(Errno::BADF) }
    }

    fn must_write(&self) -> Result<(), Errno> {
        if self.write { Ok(()) } else { Err(Errno::BADF) }
    }
}

impl Inner {
    fn kernel_status(&self) -> Status {
        if self.is_settled { Status::Kernel } else { Status::Unsettled }
    }

    fn make_durable(&self, handle: &File) -> Result<(), Errno> {
        self.durability.make(handle)
    }
}

impl Durability {
    fn make(self, handle: &File) -> Result<(), Errno> {
        match self {
            Durability::None => Ok(()),
            Durability::Contents => handle.sync_data().errno(),
            Durability::All => handle.sync_all().errno(),
        }
    }
}
