//! A long write is not interrupted by a signal's handler: the kernel's is not, either.
//!
//! **Problem.** A write of several packets has its turn at the server. A handler that came between
//! two of them and wrote by the same description would wait for its own thread. **Idea.** Signals
//! wait until the write has ended, as they do in the kernel. One that kills ends it between two
//! packets, as there, too.
//!
//! **Ignored.** Signals that tell of an error of the thread itself, and the C library's own two:
//! these are not held up.
//!
//! Source: signal(7), sigprocmask(2), sigpending(2).

use crate::next;
use crate::process::address;
use libc::{c_int, c_long};

/// Signals, as bits; the first is signal 1.
pub(crate) type Set = u64;

const SIZE: usize = size_of::<Set>();
/// The C library cancels threads and changes their identity by these.
const OF_THE_C_LIBRARY: [c_int; 2] = [32, 33];
/// What the thread itself has done, at this moment.
const ERRORS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// Without a handler, these do not kill.
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

/// This thread's signals are held up until it is dropped.
pub(crate) struct HeldSignals {
    before: Set,
}

impl HeldSignals {
    pub(crate) fn new() -> HeldSignals {
        HeldSignals { before: set_mask(libc::SIG_BLOCK, HELD) }
    }

    /// Lets those through that kill the process.
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

/// Whether the process has no handler for the signal.
fn kills(signal: c_int) -> bool {
    // SAFETY: numbers and pointers, for which zeros are valid (S20).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; a live value (S20).
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_DFL
}

/// Changes this thread's mask; returns what it was.
pub(crate) fn set_mask(how: c_int, set: Set) -> Set {
    let mut before: Set = 0;
    let places = [how as usize, address(&set), address(&raw mut before), SIZE];
    call(libc::SYS_rt_sigprocmask, places);
    before
}

fn call(number: c_long, [a, b, c, d]: [usize; 4]) {
    // SAFETY: sets of our callers', which live through the call (S20).
    let _ = unsafe { next::system(number, [a, b, c, d, 0, 0]) };
}
