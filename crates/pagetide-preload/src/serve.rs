//! A managed descriptor's calls, as requests.
//!
//! ```text
//!   look up --> request --> Done     the result
//!                           Kernel   the real descriptor takes the stand-in's place, wherever this
//!                                    process has it, and the caller calls the kernel
//! ```
//!
//! **Ignored.** A descriptor that one thread closes while another has a call on a copy of it, in
//! the moment in which its file becomes the kernel's: it may stay open.

use crate::channel::{self, Answer, Parcel, ask};
use crate::errno::Errno;
use crate::process::{control, is_regular};
use crate::table::{self, Entry};
use crate::{lent, next, process, self_read};
use libc::{c_int, iovec};
use pagetide_run::wire::{Op, Reason, Reply, Request, Status};

/// The description of a stand-in that cannot be asked about; the server knows none of this number.
const NO_DESCRIPTION: u64 = 0;

/// The description behind `fd`, if it is managed.
#[inline]
pub(crate) fn managed(fd: c_int) -> Option<u64> {
    if !process::is_on() {
        return None;
    }
    match table::entry(fd) {
        Entry::Managed(id) => Some(id),
        Entry::Kernel | Entry::Passing => None,
        Entry::Unknown => classify(fd),
    }
}

/// Looks at a descriptor that came from somewhere unseen: by exec, from another process, from
/// within the C library. Only a stand-in can be managed.
#[cold]
fn classify(fd: c_int) -> Option<u64> {
    let before = crate::errno::read();
    let found = match process::stat(fd) {
        Ok(stat) if is_regular(&stat) && is_stand_in(fd) => adopt(fd),
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

/// Whether a descriptor names a file and can do no more.
pub(crate) fn is_stand_in(fd: c_int) -> bool {
    control(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_PATH as usize != 0)
}

/// Asks what an O_PATH descriptor of a regular file is; if the file is the kernel's by now, it is
/// replaced.
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
        // The program's own.
        Ok(Answer { reply, .. }) if reply.status == Status::Stranger => Entry::Kernel,
        _ => Entry::Managed(NO_DESCRIPTION),
    }
}

/// Puts what `real` has open in the place of `fd`.
pub(crate) fn put_over(fd: c_int, real: c_int) {
    let is_kept = control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & 1 == 0);
    let flags = if is_kept { 0 } else { libc::O_CLOEXEC };
    // SAFETY: numbers (S20).
    unsafe { next::dup3(real, fd, flags) };
}

/// Puts the real descriptor of description `id` in the place of each of its stand-ins here.
fn install(id: u64, real: c_int) {
    for fd in table::numbers_of(id) {
        // Another thread may have done so before.
        if is_stand_in(fd) {
            put_over(fd, real);
        }
        table::give_to_kernel(fd, id);
    }
    installed(id, real);
}

/// The stand-ins of description `id` are gone: the server need not keep the real one any more.
fn installed(id: u64, real: c_int) {
    lent::retire(id, real);
    // A server that is gone keeps nothing.
    let _ = ask(&Request::new(Op::Installed, id), Parcel::default());
}

/// Sends a request for a managed descriptor. `None`: the kernel has the file now, and the program
/// the real descriptor.
pub(crate) fn request(
    one: &Request,
    source: &[iovec],
    target: &[iovec],
) -> Result<Option<Reply>, Errno> {
    let Answer { reply, files } = ask(one, Parcel { source, target, ..Parcel::default() })?;
    match reply.status {
        Status::Done if reply.result >= 0 => Ok(Some(reply)),
        Status::Kernel if files[0] >= 0 => {
            install(one.id, files[0]);
            Ok(None)
        }
        // Another thread has put the real one in its place.
        Status::Kernel if reply.result >= 0 => Ok(None),
        _ if reply.result < 0 => Err(Errno(-reply.result as c_int)),
        _ => Err(Errno(libc::EIO)),
    }
}

/// A request without data.
pub(crate) fn plain(one: Request) -> Result<Option<Reply>, Errno> {
    request(&one, &[], &[])
}

/// Has the kernel take the file over, now and for good, so that it can be used past us.
pub(crate) fn hand_over(id: u64, reason: Reason) -> Result<(), Errno> {
    plain(Request { flags: reason as u64, ..Request::new(Op::HandOver, id) }).map(|_| ())
}

/// Hands the file over, if `fd` is managed.
pub(crate) fn hand_over_managed(fd: c_int, reason: Reason) -> Result<(), Errno> {
    managed(fd).map_or(Ok(()), |id| hand_over(id, reason))
}

/// The flags it was opened with, or was given since, for a program that asks.
pub(crate) fn status_flags(fd: c_int) -> Result<c_int, Errno> {
    /// Which the kernel adds to each open file of a 64-bit program.
    const O_LARGEFILE: c_int = if cfg!(target_arch = "x86_64") { 0o100_000 } else { 0o400_000 };
    let asked = managed(fd).map(|id| plain(Request::new(Op::GetFlags, id)));
    if let Some(Some(reply)) = asked.transpose()? {
        return Ok(reply.result as c_int | O_LARGEFILE);
    }
    control(fd, libc::F_GETFL, 0).map(|flags| flags as c_int)
}

/// A descriptor that is about to be closed, or to mean something else: not known from here on.
/// Returns what has to be told of it.
pub(crate) fn forget(fd: c_int) -> Result<(), Errno> {
    if table::entry(fd) == Entry::Unknown && lent::has_kept() {
        // The program before an exec may have locked its file.
        managed(fd);
    }
    let known = table::set(fd, Entry::Unknown);
    if known == Entry::Passing {
        // SAFETY: numbers (S20).
        unsafe { next::posix_fadvise64(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    // A child that has asked for nothing has nothing to give back.
    if known == Entry::Unknown || !process::has_entered() {
        return Ok(());
    }
    let Entry::Managed(id) = known else {
        lent::real_closes(fd);
        return Ok(());
    };
    lent::stand_in_closes(fd, id);
    // While the server knows the description.
    let source = &[self_read::tell_before_asking()];
    let close = Request { offset: fd.into(), ..Request::new(Op::Close, id) };
    let reply = ask(&close, Parcel { source, ..Parcel::default() })?.reply;
    channel::close_if_idle();
    if reply.result < 0 { Err(Errno(-reply.result as c_int)) } else { Ok(()) }
}

/// `copy` is a new descriptor for what `fd` has open.
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
    if let Entry::Managed(id) = known
        && process::has_entered()
    {
        // A count that is wrong costs opening the file again.
        let _ = ask(&Request::new(Op::Dup, id), Parcel::default());
    }
}

/// Tells the server that nothing more will come, so that what was open is closed before our parent
/// is told that we have ended. So many bytes of what is mapped are our own.
pub(crate) fn say_goodbye(own_bytes: u64) {
    if process::has_entered() {
        self_read::finish();
        // What fails here, fails the server's check that we are alive as well.
        let leave = Request { len: own_bytes, ..Request::new(Op::Leave, 0) };
        let _ = ask(&leave, Parcel::default());
    }
}
