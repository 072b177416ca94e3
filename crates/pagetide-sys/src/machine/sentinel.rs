//! Detects if a signal was sent to this process only, or to its process group.
//!
//! **Problem.** A signal to the group must not be forwarded to a child that already has it.
//! **Idea.** A second process in the group keeps all signals blocked, and reports if a signal is
//! pending there too.
//!
//! ```text
//!   kill -INT -PGID   this process, sentinel, child    the child has it: not forwarded
//!   kill -INT PID     this process                     forwarded
//! ```
//!
//! **Data and invariants.** The kernel signals all members of a group in one call, so the sentinel
//! has the signal before it is asked. After the fork, the sentinel only makes system calls, keeps
//! only its socket open, and ends with this process.
//!
//! Source: Linux man pages kill(2), sigtimedwait(2), prctl(2) `PR_SET_PDEATHSIG`.

use crate::machine::signals;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

/// A helper process in this process's group.
#[derive(Debug)]
pub struct Sentinel {
    pid: libc::pid_t,
    socket: Mutex<UnixStream>,
}

impl Sentinel {
    /// Starts the sentinel. The caller must be the process's only thread.
    ///
    /// # Errors
    /// Fails if the system refuses a socket or a process.
    pub fn start() -> io::Result<Sentinel> {
        let (near, far) = UnixStream::pair()?;
        let set = signals::all();
        let parent = std::process::id();
        // SAFETY: S30 (one thread): the child is a copy without any operation in progress.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => watch(OwnedFd::from(far), &set, parent),
            pid => Ok(Sentinel { pid, socket: Mutex::new(near) }),
        }
    }

    /// Returns the sentinel's process id.
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Returns true if `signal`, which has arrived here, was sent to the whole group. Call it once
    /// per signal.
    pub fn has(&self, signal: i32) -> bool {
        let mut socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut answer = [0];
        let asked = socket.write_all(&[signal as u8]).and_then(|()| socket.read_exact(&mut answer));
        asked.is_ok() && answer == [1]
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // SAFETY: S9 (numbers): this process's child, not waited for yet, or gone.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: S9 (live values): no status is requested.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn watch(socket: OwnedFd, set: &libc::sigset_t, parent: u32) -> ! {
    // Fails only for an invalid request, and the sentinel would then end by a signal.
    let _ = signals::block(set);
    // SAFETY: S9 (numbers).
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    // SAFETY: S9 (numbers): no arguments.
    let is_orphan = unsafe { libc::getppid() }.cast_unsigned() != parent;
    const KEPT: libc::c_int = 3;
    // SAFETY: S9 (numbers): this process's descriptors are its own.
    let moved = unsafe { libc::dup2(socket.as_raw_fd(), KEPT) };
    std::mem::forget(socket);
    // SAFETY: S9 (numbers): no code of this process uses these descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, KEPT + 1, u32::MAX, 0) };
    for standard in 0..KEPT {
        // SAFETY: S9 (numbers): as above.
        unsafe { libc::close(standard) };
    }
    if is_orphan || moved != KEPT {
        // SAFETY: S9 (numbers): nothing was written, so there is nothing to flush.
        unsafe { libc::_exit(1) }
    }
    // SAFETY: S9 (numbers): the descriptor was made above, and belongs to this value.
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

fn take_pending(signal: i32) -> bool {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let set = signals::set_of(&[signal]);
    // SAFETY: S9 (live values): a set and a time. No information is requested.
    unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &at_once) == signal }
}
