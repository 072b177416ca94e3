//! Writes: where they go, and calls of several packets.
//!
//! ```text
//!   first packet   takes the turns, finds the place, writes what it has
//!   next packets   write on, and move position and length with each
//!   last packet, another request, the socket's end    give the turns back
//! ```
//!
//! A writer that is killed between two packets has written the first and not the second, as in the
//! kernel. What makes a file longer has the file's growth to itself, so that two calls never append
//! at the same place.

use super::answer::{Answer, ONLY_KERNEL, Outcome, done};
use super::changes::{Author, Contents};
use super::opened::Opened;
use super::requests::OpenFile;
use super::turn::HeldTurn;
use crate::errno::Errno;
use crate::wire::{FILE_BYTES_MAX, Op, Reply, Request, Status, write as flag};
use pagetide::File;
use pagetide::seam::SharedPages;
use std::sync::Arc;

/// A call that has more packets to come.
pub(super) struct LongWrite {
    description: Arc<OpenFile>,
    /// Where the next packet goes.
    next: u64,
    moves_position: bool,
    _turns: Turns,
}

/// What the call has to itself.
#[derive(Default)]
struct Turns {
    position: Option<HeldTurn>,
    growth: Option<HeldTurn>,
}

/// Where a call begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At the position, or at the end where the status flags say so.
    Position,
    /// At the end of the file; the position goes along.
    End,
    /// At the end of the file; the position stays.
    EndAlone,
    /// There, or at the end where the status flags say so.
    At(u64),
    /// There.
    Exactly(u64),
}

impl Start {
    fn of(request: &Request) -> Result<Start, Errno> {
        let offset = || u64::try_from(request.offset).map_err(|_| Errno::INVAL);
        Ok(match request.op {
            Op::Write => Start::Position,
            Op::Append => Start::End,
            _ if request.flags & flag::AT_END != 0 => Start::EndAlone,
            // Linux appends where the status flags say so, whatever the offset.
            _ if request.flags & flag::CONTINUED == 0 => Start::At(offset()?),
            _ => Start::Exactly(offset()?),
        })
    }

    /// Whether it goes to the end, where the status flags say `appends`.
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

/// What one packet came to.
enum Tried {
    Answered(Answer, u64),
    /// The file would become longer, and another call may be making it longer.
    NeedsGrowth,
}

/// Begins a call, and ends it if it is one packet's.
pub(super) fn begin(
    description: &Arc<OpenFile>,
    author: Author<'_>,
    request: &Request,
    source: &[u8],
) -> Result<(Answer, Option<LongWrite>), Errno> {
    description.must_write()?;
    let start = Start::of(request)?;
    let mut turns = Turns::default();
    if start.moves_position() {
        turns.position = Some(description.turn.take());
    }
    loop {
        match try_once(description, author, request, source, start, turns.growth.is_some())? {
            Tried::NeedsGrowth => turns.growth = Some(description.file.growth.take()),
            Tried::Answered(answer, next) => {
                let written = answer.reply.result as u64;
                let is_whole = answer.reply.status != Status::Done
                    || written < source.len() as u64
                    || written >= answer.reply.total;
                let moves_position = start.moves_position();
                let description = Arc::clone(description);
                let long = LongWrite { description, next, moves_position, _turns: turns };
                return Ok((answer, (!is_whole).then_some(long)));
            }
        }
    }
}

fn try_once(
    description: &OpenFile,
    author: Author<'_>,
    request: &Request,
    source: &[u8],
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
    let mut write_at = |opened: &Opened, handle: &File, position: u64| {
        let wanted = request.total.max(source.len() as u64);
        if wanted == 0 {
            next = Some(position);
            return done(0);
        }
        let base = if appends { handle.len() } else { position };
        let total = allowed(handle, base, wanted, request.len)?;
        if !has_growth && base + total > handle.len() {
            return done(0);
        }
        let source = &source[..source.len().min(total as usize)];
        let nr_written = write_front(author, opened, handle, source, base)?;
        next = Some(base + nr_written as u64);
        durability.make(handle)?;
        // A short packet is the call's last.
        let total = if nr_written < source.len() { nr_written as u64 } else { total };
        Ok(Answer::of(Reply { offset: base, total, ..Reply::done(nr_written as i64) }))
    };
    let outcome = match start {
        Start::At(offset) | Start::Exactly(offset) => {
            description.share_apart(|opened, handle| write_at(opened, handle, offset))
        }
        Start::EndAlone => description.share_apart(|opened, handle| write_at(opened, handle, 0)),
        Start::Position | Start::End => description.share(|opened, inner, handle| {
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

/// Writes the front of `source`, as [`Opened::write`] does, unless its process has ended.
fn write_front(
    author: Author<'_>,
    opened: &Opened,
    handle: &File,
    source: &[u8],
    offset: u64,
) -> Result<usize, Errno> {
    let contents = Contents::written(handle, offset, source.len() as u64);
    let _change = author.begin(Some(contents))?;
    opened.write(handle, source, offset)
}

/// Whether something was written.
fn position_moves(outcome: &Outcome) -> bool {
    outcome.as_ref().is_ok_and(|answer| answer.reply.result > 0)
}

impl LongWrite {
    /// Whether `request` is the call's next packet.
    pub(super) fn is_next(&self, request: &Request) -> bool {
        request.op == Op::WriteAt
            && request.flags & flag::CONTINUED != 0
            && request.id == self.description.id
            && u64::try_from(request.offset) == Ok(self.next)
    }

    /// Writes the next packet.
    pub(super) fn go_on(
        &mut self,
        author: Author<'_>,
        request: &Request,
        source: &[u8],
    ) -> Outcome {
        let offset = self.next;
        let moves_position = self.moves_position;
        let mut nr_written = 0;
        let outcome = self.description.share(|opened, inner, handle| {
            if source.is_empty() {
                return done(0);
            }
            let len = allowed(handle, offset, source.len() as u64, request.len)? as usize;
            nr_written = write_front(author, opened, handle, &source[..len], offset)?;
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

/// Ends of writes up to here need not be asked about, bytes.
const LEN_UNASKED: u64 = 64 << 20;

/// Returns how many of `wanted` bytes at `base` may be written by a process that may not make a
/// file longer than `len_max`.
///
/// # Errors
/// EFBIG where that is none; [`ONLY_KERNEL`] near the longest file that the file system or this
/// server has.
fn allowed(handle: &File, base: u64, wanted: u64, len_max: u64) -> Result<u64, Errno> {
    let left = len_max.checked_sub(base).filter(|left| *left > 0).ok_or(Errno::FBIG)?;
    let allowed = wanted.min(left);
    let end = base.saturating_add(allowed);
    if end > LEN_UNASKED && end > handle.len_max().min(FILE_BYTES_MAX - 1) {
        return Err(ONLY_KERNEL);
    }
    Ok(allowed)
}
