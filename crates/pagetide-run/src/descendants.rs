//! All processes below the run, until the last one ends.
//!
//! ```text
//!   pagetide run -- sh -c 'server & exit 3'
//!
//!   sh      |--------| exit 3
//!   server     |-------------------------------| its files are served, and it gets signals
//!   run     |-------------------------------------| 3
//! ```
//!
//! Orphans become children of the run (`PR_SET_CHILD_SUBREAPER`), even in another session or group,
//! so the run ends when no child is left.
//!
//! Source: Linux prctl(2), proc(5) "/proc/pid/task/tid/children".

use pagetide_sys::signals;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::fs;
use std::io;
use std::sync::OnceLock;

pub(crate) fn adopt_orphans() -> io::Result<()> {
    let own = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

/// A child of this process outside the program, if any.
static LEFT_OUT: OnceLock<u32> = OnceLock::new();

/// Excludes child `pid` from the program's processes.
pub(crate) fn leave_out(pid: u32) {
    let _ = LEFT_OUT.set(pid);
}

pub(crate) fn has_none() -> bool {
    processes_below_us().is_empty()
}

pub(crate) enum Ended {
    Child(Pid, WaitStatus),
    Stopped(Pid, i32),
    All,
}

/// Waits for the next child to end or stop.
pub(crate) fn wait_for_next() -> io::Result<Ended> {
    loop {
        match wait(WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) => {
                let stopped = status.stopping_signal().map(|signal| Ended::Stopped(pid, signal));
                return Ok(stopped.unwrap_or(Ended::Child(pid, status)));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(Ended::All),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn processes_below_us() -> Vec<u32> {
    let mut found = Vec::new();
    let mut unseen = vec![std::process::id()];
    while let Some(parent) = unseen.pop() {
        let threads = fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            // The thread may have ended.
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|one| one.parse().ok());
            let children = children.filter(|child| LEFT_OUT.get() != Some(child));
            unseen.extend(children.inspect(|child: &u32| found.push(*child)));
        }
    }
    found
}

/// Returns a process's state letter as in ps(1), `None` if gone.
pub(crate) fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The preceding program name may contain any character.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Forwards `signal` to all descendants. SIGINT and SIGQUIT become SIGTERM, because shells start
/// background processes with both ignored.
pub(crate) fn pass_on(signal: i32) {
    let signal = match signal {
        SIGINT | SIGQUIT => SIGTERM,
        signal => signal,
    };
    processes_below_us().into_iter().for_each(|process| signals::send(process, signal));
}
