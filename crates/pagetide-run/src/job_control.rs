//! Ctrl-Z: a run stops with its program, and not before.
//!
//! **Problem.** A signal that stops a job goes to the whole group. A server that stopped by it
//! would hold up a program that ignores it. **Idea.** The server catches the signal, waits for the
//! program to stop, and then stops itself, so that the shell sees the job stopped.
//!
//! ```text
//!   Ctrl-Z   the program stops      the server sees that, and stops
//!   Ctrl-Z   the program goes on    so does the server
//!   fg       the group is continued, or the server alone: it continues the program
//! ```
//!
//! A program that is stopped alone (`kill -STOP PID`) leaves the server running: a signal that
//! continues the program would not continue the server.
//!
//! Source: POSIX.1-2017 11.1.4 "Terminal access control"; sudo(8) "Signal handling".

use crate::launch;
use pagetide_sys::sentinel::Sentinel;
use pagetide_sys::signals;
use rustix::process::Pid;
use signal_hook::consts::{SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The longest time between two looks at a stopped program.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Returns true if `signal` stops a job, and is caught here.
pub(crate) fn stops(signal: i32) -> bool {
    [SIGTSTP, SIGTTIN].contains(&signal)
}

/// Stops this process until it is continued.
pub(crate) fn stop() {
    signals::send(std::process::id(), SIGSTOP);
}

/// `child` was stopped by `signal`: stops this process too, if the signal came to the whole job.
/// `came` is set once [one of these](stops) came here. The members of a group have a signal one
/// after the other, and on a busy machine much later: looks as long as the child is stopped.
pub(crate) fn follow(child: Pid, signal: i32, came: &AtomicBool, sentinel: Option<&Sentinel>) {
    if signal != SIGTTOU && !stops(signal) {
        return;
    }
    // The server ignores SIGTTOU, so that it can write to its terminal.
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
    // It was continued before the signal came here.
    came.store(false, Relaxed);
}

fn is_stopped(child: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.as_raw_pid()));
    // The name before the state is in brackets, and may have some.
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
}
