//! Requests for calls on a managed descriptor.
//!
//! ```text
//!   look up --> request --> Done     the result
//!                           Kernel   the real descriptor replaces the stand-in everywhere in this
//!                                    process, and the caller calls the kernel
//! ```
//!
//! **Ignored.** A descriptor that one thread closes during another thread's call on a copy. If the
//! kernel gets the file at that moment, the descriptor may stay open.

use crate::channel::{self, Answer, Parcel, ask};
use crate::errno::Errno;
use crate::process::{control, is_regular};
use crate::table::{self, Entry};
use crate::{lent, new_reports, next, process, room, self_read, small, small_reports};
use libc::{c_int, iovec};
use pagetide_run::wire::{Op, Reason, Reply, Request, Status};
use std::sync::OnceLock;

/// Number of no description, for a stand-in that could not be sent to the server.
const NO_DESCRIPTION: u64 = 0;

/// Returns the description of `fd`, if managed.
#[inline]
pub(crate) fn managed(fd: c_int) -> Option<u64> {
    if !process::is_on() {
        return None;
    }
    match table::entry(fd) {
        Entry::Managed(id) => Some(id),
        Entry::Kernel | Entry::Passing => None,
        Entry::New => manage_new(fd),
        Entry::Unknown => classify(fd),
    }
}

/// Returns the description of `fd`, if managed. Leaves a new file to the kernel.
pub(crate) fn managed_by_now(fd: c_int) -> Option<u64> {
    if table::entry(fd) == Entry::New { None } else { managed(fd) }
}

static GIVE_NEW: OnceLock<fn(c_int)> = OnceLock::new();

/// Sets the function that gives a new file to the server. Only the first one is kept.
pub(crate) fn set_give_new(give: fn(c_int)) {
    let _ = GIVE_NEW.set(give);
}

/// Gives a new file to the server. Returns the description, if managed now.
#[cold]
fn manage_new(fd: c_int) -> Option<u64> {
    if let Some(give) = GIVE_NEW.get() {
        give(fd);
    }
    match table::entry(fd) {
        Entry::Managed(id) => Some(id),
        _ => None,
    }
}

/// Returns the description of a descriptor from an unseen source (an exec, another process, or the
/// C library), if managed. Only a stand-in can be managed.
#[cold]
fn classify(fd: c_int) -> Option<u64> {
    let before = crate::errno::read();
    let found = match process::stat(fd) {
        Ok(stat) if is_regular(&stat) && process::is_stand_in(fd) => adopt(fd),
        Ok(_) => Entry::Kernel,
        Err(_) => Entry::Unknown,
    };
    crate::errno::set(before);
    match found {
        Entry::Managed(NO_DESCRIPTION) => return Some(NO_DESCRIPTION),
        Entry::Unknown => {}
        known => {
            table::set(fd, known);
        }
    }
    match found {
        Entry::Managed(id) => Some(id),
        _ => None,
    }
}

/// Asks the server for the description of a possible stand-in, an O_PATH descriptor of a regular
/// file. If the kernel has the file now, the real descriptor replaces `fd`.
fn adopt(fd: c_int) -> Entry {
    let files = &[fd];
    match ask(&Request::new(Op::Adopt, 0), Parcel { files, ..Parcel::default() }) {
        Ok(Answer { reply, .. }) if reply.status == Status::Done && reply.result > 0 => {
            Entry::Managed(reply.result as u64)
        }
        Ok(Answer { reply, files: [real, ..] }) if reply.status == Status::Kernel && real >= 0 => {
            put_over(fd, real);
            installed(reply.result as u64, real);
            Entry::Kernel
        }
        // Not a stand-in: the program's own O_PATH descriptor.
        Ok(Answer { reply, .. }) if reply.status == Status::Stranger => Entry::Kernel,
        _ => Entry::Managed(NO_DESCRIPTION),
    }
}

/// Puts the open file of `real` in the place of `fd`.
pub(crate) fn put_over(fd: c_int, real: c_int) {
    let is_kept = control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & 1 == 0);
    let flags = if is_kept { 0 } else { libc::O_CLOEXEC };
    // SAFETY: all arguments are numbers (S20).
    let put = || unsafe { next::dup3(real, fd, flags) };
    if put() < 0 && control(fd, libc::F_GETFD, 0).is_ok() {
        // The program has lowered the descriptor limit below the numbers of open descriptors.
        room::above(put);
    }
}

/// Replaces each stand-in of description `id` in this process by the real descriptor.
fn install(id: u64, real: c_int) {
    for fd in table::numbers_of(id) {
        // Another thread may have replaced the stand-in before.
        if process::is_stand_in(fd) {
            put_over(fd, real);
        }
        table::give_to_kernel(fd, id);
    }
    installed(id, real);
}

/// Tells the server that description `id` has no stand-in left here. The server may then close the
/// real descriptor.
fn installed(id: u64, real: c_int) {
    lent::retire(id, real);
    // A server that is gone keeps nothing.
    let _ = ask(&Request::new(Op::Installed, id), Parcel::default());
}

/// Sends a request for a managed descriptor. Returns `None` if the kernel has the file now, and the
/// program the real descriptor.
pub(crate) fn request(
    one: &Request,
    source: &[iovec],
    target: &[iovec],
) -> Result<Option<Reply>, Errno> {
    let answer = exchange(one, Parcel { source, target, ..Parcel::default() })?;
    Ok(answer.map(|answer| answer.reply))
}

/// Sends a write with the bytes of `source` by this thread's window. Returns `None` if the window
/// cannot be used.
pub(crate) fn write(one: &Request, source: &[iovec]) -> Option<Result<Option<Reply>, Errno>> {
    let answered = answered(one, channel::window::ask(one, source)?);
    Some(answered.map(|answer| answer.map(|answer| answer.reply)))
}

/// Sends a request as [`request`] does. Returns the reply with its descriptors.
pub(crate) fn exchange(one: &Request, parcel: Parcel<'_>) -> Result<Option<Answer>, Errno> {
    answered(one, ask(one, parcel))
}

fn answered(one: &Request, answer: Result<Answer, Errno>) -> Result<Option<Answer>, Errno> {
    if answer.is_err() && process::has_left_run() {
        return Ok(None);
    }
    let Answer { reply, files } = answer?;
    match reply.status {
        Status::Done if reply.result >= 0 => Ok(Some(Answer { reply, files })),
        Status::Kernel if files[0] >= 0 => {
            install(one.id, files[0]);
            Ok(None)
        }
        // Another thread has replaced the stand-in, and the server may have ended the description.
        Status::Kernel if reply.result >= 0 => Ok(None),
        _ if reply.result < 0 => Err(Errno(-reply.result as c_int)),
        _ => Err(Errno(libc::EIO)),
    }
}

/// Sends a request without data.
pub(crate) fn plain(one: Request) -> Result<Option<Reply>, Errno> {
    request(&one, &[], &[])
}

/// Hands the file over to the kernel for good, for use without the server.
pub(crate) fn hand_over(id: u64, reason: Reason) -> Result<(), Errno> {
    plain(Request { flags: reason as u64, ..Request::new(Op::HandOver, id) }).map(|_| ())
}

/// Hands the file over, if managed. The server then watches the file, and also a new file that the
/// kernel has already.
pub(crate) fn hand_over_managed(fd: c_int, reason: Reason) -> Result<(), Errno> {
    match managed(fd) {
        Some(id) => hand_over(id, reason),
        None => {
            new_reports::watch(fd, reason);
            Ok(())
        }
    }
}

/// Returns the status flags of a descriptor.
pub(crate) fn status_flags(fd: c_int) -> Result<c_int, Errno> {
    /// The kernel adds this flag to each open file of a 64-bit program.
    const O_LARGEFILE: c_int = if cfg!(target_arch = "x86_64") { 0o100_000 } else { 0o400_000 };
    let asked = managed_by_now(fd).map(|id| plain(Request::new(Op::GetFlags, id)));
    if let Some(Some(reply)) = asked.transpose()? {
        return Ok(reply.result as c_int | O_LARGEFILE);
    }
    control(fd, libc::F_GETFL, 0).map(|flags| flags as c_int)
}

/// Prepares an exec, which closes stand-ins in the kernel. If the last stand-in of a description
/// closes so, the server keeps the real descriptor, with locks, until the next search of the
/// processes. The real descriptor therefore replaces the stand-in, for the exec to close.
///
/// A stand-in of a managed file is given back, so that a file can be executed right after a write.
/// If the exec fails, the next call on the stand-in opens the description again.
pub(crate) fn prepare_exec() {
    let is_closed = |fd| {
        let flags = control(fd, libc::F_GETFD, 0);
        flags.is_ok_and(|flags| flags & libc::FD_CLOEXEC as usize != 0)
    };
    // A child without requests has no stand-in to give back.
    let has_entered = process::has_entered();
    for (fd, id) in table::managed().filter(|(fd, _)| is_closed(*fd)) {
        // The close of a stand-in drops no locks that the kernel has by another descriptor. The
        // close of a real descriptor does.
        let takes = match lent::may_be_locked_by_program(fd) {
            true => Request { flags: Reason::Locked as u64, ..Request::new(Op::HandOver, id) },
            false => Request::new(Op::TakeReal, id),
        };
        let nr_reals = match plain(takes) {
            Ok(Some(reply)) => reply.result,
            // The real descriptor has replaced the stand-in.
            Ok(None) => continue,
            // A server that is gone keeps nothing.
            Err(_) => return,
        };
        if has_entered {
            let source = &[self_read::tell_before_asking()];
            let close = Request { offset: -1, ..Request::new(Op::Close, id) };
            // An exec has no way to report failed writes.
            let _ = ask(&close, Parcel { source, ..Parcel::default() });
        } else if nr_reals == 0 {
            // The server keeps no real descriptor at all.
            return;
        }
    }
}

/// Removes a descriptor from the table and tells the server, before the number is closed or reused.
///
/// A child sends this even as its first request. Another process may have locked the description
/// since the fork, and the child's stand-in may be the last one.
///
/// # Errors
/// Fails with the error of the description's close.
pub(crate) fn forget(fd: c_int) -> Result<(), Errno> {
    if table::entry(fd) == Entry::Unknown && process::is_on() && process::is_stand_in(fd) {
        classify(fd);
    }
    match table::entry(fd) {
        Entry::Kernel | Entry::New => new_reports::close(fd),
        _ => {}
    }
    let known = table::set(fd, Entry::Unknown);
    if known == Entry::Passing {
        small::drop_pages(fd);
    }
    let id = match known {
        Entry::Managed(id) => id,
        Entry::Unknown | Entry::Kernel | Entry::Passing | Entry::New => {
            // A child without requests keeps no descriptor.
            if process::has_entered() {
                lent::real_closes(fd);
            }
            return Ok(());
        }
    };
    lent::stand_in_closes(fd, id);
    // Sent before the close, while the server still knows the description.
    let source = &[self_read::tell_before_asking()];
    let close = Request { offset: fd.into(), ..Request::new(Op::Close, id) };
    let reply = ask(&close, Parcel { source, ..Parcel::default() })?.reply;
    channel::close_if_idle();
    if reply.result < 0 { Err(Errno(-reply.result as c_int)) } else { Ok(()) }
}

/// Records that `copy` is a new descriptor of the open file of `fd`.
pub(crate) fn duplicated(fd: c_int, copy: c_int) {
    if let Entry::Managed(id) = table::entry(fd)
        && !table::can_manage(copy)
        && hand_over(id, Reason::Standard).is_ok()
    {
        put_over(copy, fd);
    }
    let known = match table::entry(fd) {
        Entry::Passing => Entry::Kernel,
        known => known,
    };
    table::set(copy, known);
    new_reports::duplicated(fd, copy);
    if let Entry::Managed(id) = known
        && process::has_entered()
    {
        // If the server's count is wrong, the server opens the file again.
        let _ = ask(&Request::new(Op::Dup, id), Parcel::default());
    }
}

/// Announces that the process makes no more requests. The server then closes the process's files
/// before the parent sees the end. `own_bytes` is the size of the process's private pages.
pub(crate) fn say_goodbye(own_bytes: u64) {
    if process::is_on() {
        table::numbers().for_each(new_reports::close);
        small_reports::flush();
    }
    let has_stand_in = || process::is_on() && table::managed().next().is_some();
    if process::has_entered() || has_stand_in() {
        self_read::finish();
        // If this fails, the server sees the socket close.
        let leave = Request { len: own_bytes, ..Request::new(Op::Leave, 0) };
        let _ = ask(&leave, Parcel::default());
    }
}
