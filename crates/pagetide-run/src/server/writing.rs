//! Writes: positions, and calls of several packets.
//!
//! ```text
//!   first packet   takes the locks, finds the offset, writes the packet's bytes
//!   next packets   each writes the packet's bytes, and moves the position and the length
//!   last packet, another request, the socket's end    release the locks
//! ```
//!
//! A writer that is killed between two packets has written the first packet only, as in the kernel.
//! A write that extends the file holds the growth lock, so that two calls never append at the same
//! position.

use super::answer::{Answer, ONLY_KERNEL, Outcome, done};
use super::call_lock::HeldCallLock;
use super::changes::{Author, Contents};
use super::leased_file::LeasedFile;
use super::served_file::Description;
use super::windows::Source;
use crate::errno::Errno;
use crate::wire::{FILE_BYTES_MAX, Op, Reply, Request, Status, write as flag};
use pagetide::File;
use pagetide::seam::SharedPages;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A write call with packets still to come.
pub(super) struct LongWrite {
    description: Arc<Description>,
    /// Offset of the next packet, in bytes.
    next: u64,
    moves_position: bool,
    _call_lock: CallLocks,
}

/// Locks held until the last packet.
#[derive(Default)]
struct CallLocks {
    position: Option<HeldCallLock>,
    growth: Option<HeldCallLock>,
}

/// Offset of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The position, or the file's end with `O_APPEND`.
    Position,
    /// The file's end. The call moves the position.
    End,
    /// The file's end. The call does not move the position.
    EndAlone,
    /// This offset, or the file's end with `O_APPEND`.
    At(u64),
    /// This offset, even with `O_APPEND`.
    Exactly(u64),
}

impl Start {
    fn of(request: &Request) -> Result<Start, Errno> {
        let offset = || u64::try_from(request.offset).map_err(|_| Errno::INVAL);
        Ok(match request.op {
            Op::Write => Start::Position,
            Op::Append => Start::End,
            _ if request.flags & flag::AT_END != 0 => Start::EndAlone,
            // With `O_APPEND`, Linux appends whatever the offset.
            _ if request.flags & flag::CONTINUED == 0 => Start::At(offset()?),
            _ => Start::Exactly(offset()?),
        })
    }

    /// Returns true if the call writes at the file's end. `appends` stands for `O_APPEND`.
    fn appends(self, appends: bool) -> bool {
        match self {
            Start::Position | Start::At(_) => appends,
            Start::End | Start::EndAlone => true,
            Start::Exactly(_) => false,
        }
    }

    fn moves_position(self) -> bool {
        matches!(self, Start::Position | Start::End)
    }
}

enum Tried {
    Answered(Answer, u64),
    /// The file would grow, and the caller lacks the growth lock.
    NeedsGrowth,
}

/// Writes the first packet of a call. Returns a [`LongWrite`] if more follow.
pub(super) fn begin(
    description: &Arc<Description>,
    author: Author<'_>,
    request: &Request,
    source: Source<'_>,
) -> Result<(Answer, Option<LongWrite>), Errno> {
    description.must_write()?;
    let start = Start::of(request)?;
    let mut locks = CallLocks::default();
    if start.moves_position() {
        locks.position = Some(description.call_lock.take());
    }
    if description.grows.load(Relaxed) {
        locks.growth = Some(description.file.growth.take());
    }
    loop {
        match try_once(description, author, request, source, start, locks.growth.is_some())? {
            Tried::NeedsGrowth => {
                description.grows.store(true, Relaxed);
                locks.growth = Some(description.file.growth.take());
            }
            Tried::Answered(answer, next) => {
                let written = answer.reply.result as u64;
                let is_whole = answer.reply.status != Status::Done
                    || written < source.len() as u64
                    || written >= answer.reply.total;
                let moves_position = start.moves_position();
                let description = Arc::clone(description);
                let long = LongWrite { description, next, moves_position, _call_lock: locks };
                return Ok((answer, (!is_whole).then_some(long)));
            }
        }
    }
}

fn try_once(
    description: &Description,
    author: Author<'_>,
    request: &Request,
    source: Source<'_>,
    start: Start,
    has_growth: bool,
) -> Result<Tried, Errno> {
    let (appends, durability) = {
        let inner = description.inner();
        (start.appends(inner.appends()), inner.durability())
    };
    if appends && request.flags & flag::NO_APPEND != 0 {
        return Err(Errno::BADF);
    }
    let mut next = None;
    let mut write_at = |opened: &LeasedFile, handle: &File, position: u64| {
        let wanted = request.total.max(source.len() as u64);
        if wanted == 0 {
            next = Some(position);
            return done(0);
        }
        let base = if appends { handle.len() } else { position };
        let total = allowed(handle, base, wanted, request.len)?;
        let grows = base + total > handle.len();
        if grows && !has_growth {
            return done(0);
        }
        if has_growth && !grows {
            description.grows.store(false, Relaxed);
        }
        let source = source.front(total);
        let nr_written = write_front(author, opened, handle, source, base)?;
        next = Some(base + nr_written as u64);
        durability.make(handle)?;
        // A short packet is the last one.
        let total = if nr_written < source.len() { nr_written as u64 } else { total };
        Ok(Answer::of(Reply { offset: base, total, ..Reply::done(nr_written as i64) }))
    };
    let outcome = match start {
        Start::At(offset) | Start::Exactly(offset) => {
            description.share_apart(|opened, handle| write_at(opened, handle, offset))
        }
        Start::EndAlone => description.share_apart(|opened, handle| write_at(opened, handle, 0)),
        Start::Position | Start::End => description.share(|opened, inner, handle| {
            if request.total > source.len() as u64 {
                inner.position.hold();
            }
            let position = inner.position.get();
            let outcome = write_at(opened, handle, position);
            if let (Ok(answer), true) = (&outcome, position_moves(&outcome)) {
                inner.position.set(answer.reply.offset + answer.reply.result as u64);
            }
            outcome
        }),
    }?;
    let is_answered = next.is_some() || outcome.reply.status != Status::Done;
    Ok(if is_answered { Tried::Answered(outcome, next.unwrap_or(0)) } else { Tried::NeedsGrowth })
}

/// Writes a prefix of `source` as [`LeasedFile::write`] does. Fails if the writing process has
/// ended.
fn write_front(
    author: Author<'_>,
    opened: &LeasedFile,
    handle: &File,
    source: Source<'_>,
    offset: u64,
) -> Result<usize, Errno> {
    let contents = Contents::written(handle, offset, source.len() as u64);
    let _change = author.begin(Some(contents))?;
    opened.write(handle, source, offset)
}

fn position_moves(outcome: &Outcome) -> bool {
    outcome.as_ref().is_ok_and(|answer| answer.reply.result > 0)
}

impl LongWrite {
    /// Returns true if `request` is the next packet of the call.
    pub(super) fn is_next(&self, request: &Request) -> bool {
        request.op == Op::WriteAt
            && request.flags & flag::CONTINUED != 0
            && request.id == self.description.id
            && u64::try_from(request.offset) == Ok(self.next)
    }

    pub(super) fn go_on(
        &mut self,
        author: Author<'_>,
        request: &Request,
        source: Source<'_>,
    ) -> Outcome {
        let offset = self.next;
        let moves_position = self.moves_position;
        let mut nr_written = 0;
        let outcome = self.description.share(|opened, inner, handle| {
            if source.len() == 0 {
                return done(0);
            }
            let len = allowed(handle, offset, source.len() as u64, request.len)?;
            nr_written = write_front(author, opened, handle, source.front(len), offset)?;
            if moves_position {
                inner.position.set(offset + nr_written as u64);
            }
            inner.durability().make(handle)?;
            done(nr_written as u64)
        });
        self.next += nr_written as u64;
        outcome
    }
}

/// Returns how many of `wanted` bytes at `base` a process may write with the file size limit
/// `len_max`.
///
/// # Errors
/// Fails with `EFBIG` if no byte may be written, and with [`ONLY_KERNEL`] if the write ends past
/// the longest file of the file system or this server.
fn allowed(handle: &File, base: u64, wanted: u64, len_max: u64) -> Result<u64, Errno> {
    let left = len_max.checked_sub(base).filter(|left| *left > 0).ok_or(Errno::FBIG)?;
    let allowed = wanted.min(left);
    let end = base.saturating_add(allowed);
    if end >= FILE_BYTES_MAX || !handle.allows_len(end) {
        return Err(ONLY_KERNEL);
    }
    Ok(allowed)
}
