//! Leaves the run before a filter of system calls is installed.
//!
//! A program writes its filter (seccomp) for its own calls. The filter may kill the process at any
//! other call, such as one on a socket to a server. So before the filter is installed, the library
//! hands over all files of the process, for all its threads, and makes no call of its own any more.
//! Programs that the process executes are under no run, either.
//!
//! ```text
//!   prctl(PR_SET_SECCOMP), syscall(SYS_seccomp) --> every stand-in, known or not --> the kernel's
//!                                                   every piece of a mapped file --> the kernel's
//!                                                   handlers of signals          --> the program's
//! ```
//!
//! **Ignored.** A filter that is installed without the C library. Other threads' requests in
//! flight, while a filter for all threads is installed.
//!
//! Source: seccomp(2), prctl(2) `PR_SET_SECCOMP`.

use crate::arguments::load;
use crate::errno;
use crate::{channel, maps, process, table};
use libc::{c_int, c_long, c_ulong, sock_fprog};
use pagetide_run::wire::Reason;

/// Modes, as the kernel numbers them.
const STRICT: c_ulong = 1;
const FILTER: c_ulong = 2;
/// Operations, as seccomp(2) numbers them.
const SET_STRICT: usize = 0;
const SET_FILTER: usize = 1;
/// Maximum length of a filter in instructions.
const FILTER_LEN_MAX: u16 = 4096;

/// Returns true if this can be a filter. Programs probe the kernel with no filter, or a bad one.
fn is_filter(at: usize) -> bool {
    // SAFETY: the caller's filter, or an address without memory (S20).
    let given = unsafe { load(at as *const sock_fprog) };
    given.is_ok_and(|one| (1..=FILTER_LEN_MAX).contains(&one.len) && !one.filter.is_null())
}

fn leave_run() {
    if !process::is_on() {
        return;
    }
    errno::kept(|| {
        super::identity::leave_run(Reason::Filtered);
        // Sockets of other threads, which may wait for replies, stay open.
        maps::signals::uninstall();
        table::forget_passing();
        channel::leave();
        super::spawn::forget_run();
    });
}

/// Leaves the run if prctl(2) is about to install a filter.
pub(super) fn before_prctl(option: c_int, mode: c_ulong, filter: c_ulong) {
    let is_meant = process::is_on()
        && option == libc::PR_SET_SECCOMP
        && (mode == STRICT || mode == FILTER && is_filter(filter as usize));
    if is_meant {
        leave_run();
    }
}

/// Leaves the run if a system call by number is about to install a filter.
pub(super) fn before_number(number: c_long, [a, b, c, ..]: [usize; 6]) {
    match number {
        libc::SYS_prctl => before_prctl(a as c_int, b as c_ulong, c as c_ulong),
        libc::SYS_seccomp if a == SET_STRICT && (b, c) == (0, 0) => leave_run(),
        libc::SYS_seccomp if a == SET_FILTER && process::is_on() && is_filter(c) => leave_run(),
        _ => {}
    }
}

taken_over! {
    // Arguments that were not given are not used.
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
        before_prctl(option, a, b);
        None
    }
}
