//! Whether a signal came to this process alone, or to its whole process group.
//!
//! **Problem.** A process that passes signals on to its child, in the same group, passes on what
//! the child has already: kill(2) of a group and of a process look the same to the receiver.
//! **Idea.** A second process in the group, which does nothing but have all signals blocked.
//! Asked after a signal came here, it looks whether the signal is pending there as well.
//!
//! ```text
//!   kill -INT -PGID   this process, sentinel, child    the child has it: not passed on
//!   kill -INT PID     this process                     passed on
//! ```
//!
//! **Data and invariants.** The kernel gives a signal to all members of a group in one call, before
//! it can be answered about. The sentinel runs no code but system calls after the fork, keeps no
//! descriptor but its socket, and ends with this process.
//!
//! Source: Linux man pages kill(2), sigtimedwait(2), prctl(2) `PR_SET_PDEATHSIG`.

use crate::machine::signals;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

/// A second member of this process's group.
#[derive(Debug)]
pub struct Sentinel {
    pid: libc::pid_t,
    socket: Mutex<UnixStream>,
}

impl Sentinel {
    /// Starts it. The caller is the process's only thread.
    ///
    /// # Errors
    /// What the system says of sockets and processes.
    pub fn start() -> io::Result<Sentinel> {
        let (near, far) = UnixStream::pair()?;
        let set = signals::all();
        let parent = std::process::id();
        // SAFETY: S30 (one thread): the child is a copy in which nothing was under way.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => watch(OwnedFd::from(far), &set, parent),
            pid => Ok(Sentinel { pid, socket: Mutex::new(near) }),
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Whether `signal`, which came here, came to the whole group; asked once for each.
    pub fn has(&self, signal: i32) -> bool {
        let mut socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut answer = [0];
        let asked = socket.write_all(&[signal as u8]).and_then(|()| socket.read_exact(&mut answer));
        asked.is_ok() && answer == [1]
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // SAFETY: S9 (numbers): a child of ours that was not waited for, or is gone.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: S9 (live values): no status is wanted.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// The sentinel's whole life.
fn watch(socket: OwnedFd, set: &libc::sigset_t, parent: u32) -> ! {
    // Refused only for a request that is none; the sentinel would then end by a signal.
    let _ = signals::block(set);
    // SAFETY: S9 (numbers).
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    // SAFETY: S9 (numbers): no arguments.
    let is_orphan = unsafe { libc::getppid() }.cast_unsigned() != parent;
    const KEPT: libc::c_int = 3;
    // SAFETY: S9 (numbers): this process's descriptors are its own.
    let moved = unsafe { libc::dup2(socket.as_raw_fd(), KEPT) };
    std::mem::forget(socket);
    // SAFETY: S9 (numbers): nothing of this process uses them.
    unsafe { libc::syscall(libc::SYS_close_range, KEPT + 1, u32::MAX, 0) };
    for standard in 0..KEPT {
        // SAFETY: S9 (numbers): as above.
        unsafe { libc::close(standard) };
    }
    if is_orphan || moved != KEPT {
        // SAFETY: S9 (numbers): nothing is flushed, and nothing was written.
        unsafe { libc::_exit(1) }
    }
    // SAFETY: S9 (numbers): the descriptor was made above, and is this value's.
    let mut socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(KEPT) });
    let mut asked = [0];
    while socket.read_exact(&mut asked).is_ok() {
        let is_pending = take_pending(i32::from(asked[0]));
        if socket.write_all(&[u8::from(is_pending)]).is_err() {
            break;
        }
    }
    // SAFETY: S9 (numbers): as above.
    unsafe { libc::_exit(0) }
}

/// Takes a signal that is pending; returns whether it was.
fn take_pending(signal: i32) -> bool {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let set = signals::set_of(&[signal]);
    // SAFETY: S9 (live values): a set and a time, and no information wanted.
    unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &at_once) == signal }
}
