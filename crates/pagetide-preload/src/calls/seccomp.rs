//! A process that is about to be filtered: from here on it is under no run.
//!
//! A filter of system calls (seccomp) is made for the calls that a program makes. It knows nothing
//! of a socket to a server, and kills what it does not know. So before the filter is installed, all
//! files of the process are handed over, for all its threads, and the library makes no call of its
//! own any more. What the process executes is under no run, either.
//!
//! ```text
//!   prctl(PR_SET_SECCOMP), syscall(SYS_seccomp) --> every stand-in, known or not --> the kernel's
//!                                                   every piece of a mapped file --> the kernel's
//!                                                   handlers of signals          --> the program's
//! ```
//!
//! **Ignored.** A filter that is installed without the C library. Requests of other threads that
//! are under way as a filter for all threads is installed.
//!
//! Source: seccomp(2), prctl(2) `PR_SET_SECCOMP`.

use crate::arguments::load;
use crate::errno;
use crate::{channel, maps, own, process, room, serve, table, view};
use libc::{c_int, c_long, c_ulong, sock_fprog};
use pagetide_run::wire::Reason;

/// As the kernel numbers modes.
const STRICT: c_ulong = 1;
const FILTER: c_ulong = 2;
/// As seccomp(2) numbers its operations.
const SET_STRICT: usize = 0;
const SET_FILTER: usize = 1;
/// Longer filters are refused.
const FILTER_LEN_MAX: u16 = 4096;

/// Whether this can be a filter. Programs ask what the kernel can do by none, or a bad one.
fn is_filter(at: usize) -> bool {
    // SAFETY: our caller's filter, or no memory at all (S20).
    let given = unsafe { load(at as *const sock_fprog) };
    given.is_ok_and(|one| (1..=FILTER_LEN_MAX).contains(&one.len) && !one.filter.is_null())
}

fn leave_run() {
    if !process::is_on() {
        return;
    }
    let before = errno::read();
    // Those that it has inherited, and not looked at, are among them.
    let end = (table::LEN as u64).min(process::nr_descriptors_max()) as c_int;
    let known = table::managed().map(|(fd, _)| fd).filter(|fd| *fd >= end);
    for fd in (0..end).chain(known) {
        if !own::has(fd) && process::control(fd, libc::F_GETFD, 0).is_ok() {
            // What cannot be handed over has been said.
            let _ = serve::hand_over_managed(fd, Reason::Filtered);
        }
    }
    maps::hand_over_all();
    serve::say_goodbye(maps::count_own_pages());
    maps::signals::uninstall();
    view::give_up();
    table::forget_passing();
    channel::leave();
    process::leave_run();
    room::leave_run();
    super::spawn::forget_run();
    errno::set(before);
}

/// Before prctl(2).
pub(super) fn before_prctl(option: c_int, mode: c_ulong, filter: c_ulong) {
    let is_meant = process::is_on()
        && option == libc::PR_SET_SECCOMP
        && (mode == STRICT || mode == FILTER && is_filter(filter as usize));
    if is_meant {
        leave_run();
    }
}

/// Before a system call by its number.
pub(super) fn before_number(number: c_long, [a, b, c, ..]: [usize; 6]) {
    match number {
        libc::SYS_prctl => before_prctl(a as c_int, b as c_ulong, c as c_ulong),
        libc::SYS_seccomp if a == SET_STRICT && (b, c) == (0, 0) => leave_run(),
        libc::SYS_seccomp if a == SET_FILTER && process::is_on() && is_filter(c) => leave_run(),
        _ => {}
    }
}

taken_over! {
    // Arguments that were not given are not looked at.
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
        before_prctl(option, a, b);
        None
    }
}
