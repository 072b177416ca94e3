//! Asks the server to manage a file, and replaces the descriptor of a new file by a stand-in.

use crate::channel::{self, Parcel, ask};
use crate::errno::Errno;
use crate::process::{control, path_of};
use crate::table::{self, Entry};
use crate::{alone, lent, own, process, room, serve, small_reports};
use libc::c_int;
use pagetide_run::wire::{Op, Reason, Request, Status, open};

/// Flags of open(2) that make or cut a file.
const MAKING: c_int = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;

/// The server's decision at an open.
pub(crate) enum Opened {
    /// The server manages the file.
    Managed(u64),
    /// The kernel serves the file.
    Kernel,
    /// The kernel serves the file, which the open truncates to nothing.
    New,
}

/// Asks the server to manage the first of `files`, a stand-in.
pub(crate) fn ask_to_manage(flags: c_int, more: u64, files: &[c_int]) -> Opened {
    // The server drops the pages of small files that it is to manage.
    small_reports::flush();
    let request = Request { flags: u64::from(flags as u32) | more, ..Request::new(Op::Open, 0) };
    let asked = ask(&request, Parcel { files, ..Parcel::default() });
    let reply = asked.map(|answer| (answer.reply.status, answer.reply.result));
    if let Ok((Status::Done, id @ 0..)) = reply {
        alone::note_opened(id as u64);
        return Opened::Managed(id as u64);
    }
    channel::close_if_idle();
    match reply {
        Ok((Status::Kernel, open::IS_NEW)) => Opened::New,
        _ => Opened::Kernel,
    }
}

/// Manages a new file that is open at `fd` for reading and writing, for a call with `flags`. The
/// open file gets this position.
pub(crate) fn manage_new(fd: c_int, flags: c_int, position: i64) {
    let before = crate::errno::read();
    let stand_in = if table::can_manage(fd) { name(fd) } else { -1 };
    let managed = match stand_in {
        0.. => ask_to_manage(flags, open::CREATED, &[stand_in, fd]),
        _ => Opened::Kernel,
    };
    match managed {
        Opened::Managed(id) if lent::replace_new(fd, stand_in, flags & libc::O_CLOEXEC) => {
            table::set(fd, Entry::Managed(id));
            if position > 0 {
                let seek = Request { offset: position, ..Request::new(Op::Seek, id) };
                // A server that is gone serves no write either.
                let _ = serve::plain(seek);
            }
        }
        // The kernel keeps the file, because the close of the descriptor would drop locks.
        Opened::Managed(id) => {
            let _ = serve::hand_over(id, Reason::Locked);
            let _ = control(fd, libc::F_SETFL, flags as usize);
            table::set(fd, Entry::Kernel);
        }
        Opened::Kernel | Opened::New => {
            restore_access(fd, flags);
            let _ = process::move_to(fd, position, libc::SEEK_SET);
            table::set(fd, Entry::Kernel);
        }
    }
    if stand_in >= 0 {
        own::close(stand_in);
    }
    crate::errno::set(before);
}

fn name(fd: c_int) -> c_int {
    open_own(fd, libc::O_PATH | libc::O_CLOEXEC).unwrap_or(-1)
}

/// Restores the requested access mode. On failure, the wider access stays.
fn restore_access(fd: c_int, flags: c_int) {
    if flags & libc::O_ACCMODE == libc::O_RDWR {
        return;
    }
    let kept = flags & libc::O_CLOEXEC;
    let flags = flags & !(MAKING | libc::O_TMPFILE) | libc::O_CLOEXEC;
    if let Ok(again) = open_own(fd, flags) {
        lent::replace_new(fd, again, kept);
        lent::dispose(again);
    }
}

fn open_own(fd: c_int, flags: c_int) -> Result<c_int, Errno> {
    room::open(libc::AT_FDCWD, path_of(fd).as_ptr().cast(), flags)
}
