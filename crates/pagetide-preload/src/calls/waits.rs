//! Waiting for children: once a child is known to have ended, its writes must be done.
//!
//! A child can be killed while the server has its packet. Reads of the file wait for the packet,
//! but stat asks the kernel for the length, so the wait asks the server.
//!
//! **Ignored.** An end that is observed by other means: a signal, a pidfd that is polled, the end
//! of a pipe, and the C library's own waits in pclose and system. The length may then still grow.

use crate::channel;
use crate::process;
use crate::{errno, next};
use libc::{c_int, c_void, pid_t};
use pagetide_run::wire::Op;

fn note_end(status: c_int) {
    // A child that exited has completed its calls, except in other threads.
    let matters = libc::WIFSIGNALED(status) || libc::WIFEXITED(status) && process::has_entered();
    if matters && process::is_on() {
        errno::kept(|| {
            // A server that is gone changes nothing.
            let _ = channel::tell(Op::Settle);
            channel::close_if_idle();
        });
    }
}

/// Runs a wait that stores a status, even if the caller wants none.
fn wait_for(status: *mut c_int, wait: impl FnOnce(*mut c_int) -> pid_t) -> pid_t {
    let mut own = 0;
    let place = if status.is_null() { &raw mut own } else { status };
    let child = wait(place);
    if child > 0 {
        // SAFETY: the wait has stored the status there (S20).
        note_end(unsafe { *place });
    }
    child
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: our caller's place, or our own (S20).
    wait_for(status, |place| unsafe { next::wait(place) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: our caller's place, or our own (S20).
    wait_for(status, |place| unsafe { next::waitpid(child, place, options) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait3(status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t {
    // SAFETY: our caller's places, or our own (S20).
    wait_for(status, |place| unsafe { next::wait3(place, options, usage) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait4(
    child: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut c_void,
) -> pid_t {
    // SAFETY: our caller's places, or our own (S20).
    wait_for(status, |place| unsafe { next::wait4(child, place, options, usage) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitid(
    kind: libc::idtype_t,
    id: libc::id_t,
    about: *mut libc::siginfo_t,
    options: c_int,
) -> c_int {
    // SAFETY: zeros are a valid siginfo_t (S20).
    let mut own: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let place = if about.is_null() { &raw mut own } else { about };
    // SAFETY: our caller's place, or our own (S20).
    let result = unsafe { next::waitid(kind, id, place, options) };
    if result == 0 {
        // SAFETY: waitid has stored the value there (S20).
        match unsafe { (*place).si_code } {
            libc::CLD_EXITED => note_end(0),
            libc::CLD_KILLED | libc::CLD_DUMPED => note_end(libc::SIGKILL),
            _ => {}
        }
    }
    result
}
