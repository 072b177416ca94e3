//! The signals that this process inherited as ignored or blocked.
//!
//! Rust's runtime ignores SIGPIPE before `main`, so a constructor reads the state first. Programs
//! started from here get the inherited state back, as from a shell.
//!
//! Source: Linux man pages execve(2) "Effect on process attributes", signal(7).

use crate::machine::signals;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bit `n - 1` stands for signal `n`.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Bit `n - 1` stands for signal `n`.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

// S49: the section holds functions without arguments, called once before `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static CONSTRUCTOR: extern "C" fn() = look;

const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

extern "C" fn look() {
    let blocked = signals::blocked();
    for signal in SIGNALS {
        if signals::is_ignored(signal) {
            IGNORED.fetch_or(bit(signal), Relaxed);
        }
        if signals::has(&blocked, signal) {
            BLOCKED.fetch_or(bit(signal), Relaxed);
        }
    }
}

/// Returns true if the process was started with `signal` ignored.
pub fn is_ignored(signal: i32) -> bool {
    SIGNALS.contains(&signal) && IGNORED.load(Relaxed) & bit(signal) != 0
}

pub(crate) fn restore(signal: i32) {
    if is_ignored(signal) { signals::ignore(signal) } else { signals::set_default(signal) }
}

/// Starts a program with the inherited signal state. A signal to the process group during the start
/// reaches the program as well.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let restore_all = || {
        SIGNALS.for_each(restore);
        let blocked = SIGNALS.filter(|signal| BLOCKED.load(Relaxed) & bit(*signal) != 0);
        signals::set_blocked(&blocked.fold(signals::set_of(&[]), signals::with));
        Ok(())
    };
    // SAFETY: S49: the closure makes system calls only.
    unsafe { command.pre_exec(restore_all) };
    let before = signals::blocked();
    signals::set_blocked(&signals::all());
    let child = command.spawn();
    signals::set_blocked(&before);
    child
}
