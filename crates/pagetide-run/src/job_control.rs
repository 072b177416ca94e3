//! Ctrl-Z: a run stops with its program, and not before.
//!
//! **Problem.** A stop signal goes to the whole group, and a stopped server would block a program
//! that ignores the signal. **Idea.** The server catches the signal, waits for the program to stop,
//! then stops itself.
//!
//! ```text
//!   Ctrl-Z   the program stops      the server notices, and stops
//!   Ctrl-Z   the program goes on    the server goes on
//!   fg       continues the group, or the server alone, which then continues the program
//! ```
//!
//! If only the program is stopped (`kill -STOP PID`), the server keeps running, because SIGCONT to
//! the program would not continue the server.
//!
//! Sources: POSIX.1-2017 11.1.4 "Terminal access control", sudo(8) "Signal handling".

use crate::descendants::state_of;
use crate::launch;
use pagetide_sys::sentinel::Sentinel;
use pagetide_sys::signals;
use rustix::process::Pid;
use signal_hook::consts::{SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Returns true if `signal` stops a job and is caught by this process.
pub(crate) fn stops(signal: i32) -> bool {
    [SIGTSTP, SIGTTIN].contains(&signal)
}

pub(crate) fn stop() {
    signals::send(std::process::id(), SIGSTOP);
}

/// Handles a stop of `child` by `signal`: stops this process too, if the signal went to the whole
/// job. `came` is set when this process catches [such a signal](stops). The check repeats while the
/// child is stopped, because group delivery may be slow on a busy machine.
pub(crate) fn follow(child: Pid, signal: i32, came: &AtomicBool, sentinel: Option<&Sentinel>) {
    if signal != SIGTTOU && !stops(signal) {
        return;
    }
    // The server ignores SIGTTOU, so that terminal writes succeed.
    let is_job = || match signal {
        SIGTTOU => launch::is_in_our_group(child) && launch::came_to_all(signal, sentinel),
        _ => came.swap(false, Relaxed),
    };
    let mut pause = Duration::from_millis(1);
    while is_stopped(child) {
        if is_job() {
            stop();
            if is_stopped(child) {
                signals::send(child.as_raw_pid().cast_unsigned(), SIGCONT);
            }
            return;
        }
        std::thread::sleep(pause);
        pause = PAUSE_MAX.min(pause * 2);
    }
    // The child continued before this process caught the signal.
    came.store(false, Relaxed);
}

fn is_stopped(child: Pid) -> bool {
    state_of(child.as_raw_pid()) == Some('T')
}
