//! Defers signals during a long write, as the kernel does.
//!
//! **Problem.** A write of several packets holds the description's call lock at the server, and a
//! signal handler that wrote to the description would wait for its own thread. **Idea.** Signals
//! are blocked until the write has ended, except a signal that kills, between two packets.
//!
//! **Ignored.** Errors of the thread itself, and the C library's two signals.
//!
//! Source: signal(7), sigprocmask(2), sigpending(2).

use crate::next;
use crate::process::address;
use libc::{c_int, c_long};

/// A set of signals. Bit 0 is signal 1.
pub(crate) type Set = u64;

const SIZE: usize = size_of::<Set>();
/// Used by the C library to cancel threads and to change their identity.
const OF_THE_C_LIBRARY: [c_int; 2] = [32, 33];
/// Errors of the thread itself.
const ERRORS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// Signals that do not kill by default.
const HARMLESS: [c_int; 7] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

const fn set_of(signals: &[c_int]) -> Set {
    let (mut set, mut at) = (0, 0);
    while at < signals.len() {
        set |= 1 << (signals[at] - 1);
        at += 1;
    }
    set
}

const HELD: Set = !set_of(&OF_THE_C_LIBRARY) & !set_of(&ERRORS);

/// Blocks this thread's signals until dropped.
pub(crate) struct HeldSignals {
    before: Set,
}

impl HeldSignals {
    pub(crate) fn new() -> HeldSignals {
        HeldSignals { before: set_mask(libc::SIG_BLOCK, HELD) }
    }

    pub(crate) fn let_killers_through(&self) {
        let mut pending: Set = 0;
        call(libc::SYS_rt_sigpending, [address(&raw mut pending), SIZE, 0, 0]);
        let held = pending & !self.before & HELD & !set_of(&HARMLESS);
        for signal in (1..=64).filter(|signal| held & set_of(&[*signal]) != 0) {
            if kills(signal) {
                set_mask(libc::SIG_UNBLOCK, set_of(&[signal]));
            }
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, self.before);
    }
}

fn kills(signal: c_int) -> bool {
    // SAFETY: numbers and pointers, with zeros as valid values (S20).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a query with a live value (S20).
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_DFL
}

/// Returns the previous mask.
pub(crate) fn set_mask(how: c_int, set: Set) -> Set {
    let mut before: Set = 0;
    let places = [how as usize, address(&set), address(&raw mut before), SIZE];
    call(libc::SYS_rt_sigprocmask, places);
    before
}

fn call(number: c_long, [a, b, c, d]: [usize; 4]) {
    // SAFETY: the callers' sets, which live through the call (S20).
    let _ = unsafe { next::system(number, [a, b, c, d, 0, 0]) };
}
