//! All processes below the run, and the end of the last of them.
//!
//! ```text
//!   pagetide run -- sh -c 'server & exit 3'
//!
//!   sh      |--------| exit 3
//!   server     |-------------------------------| its files are served, signals reach it
//!   run     |-------------------------------------| 3
//! ```
//!
//! A process whose parent has ended is the run's child (`PR_SET_CHILD_SUBREAPER`), wherever it has
//! gone: so the run ends when it has no child any more.
//!
//! Source: Linux prctl(2), proc(5) "/proc/pid/task/tid/children".

use pagetide_sys::signals;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::fs;
use std::io;
use std::sync::OnceLock;

/// Has all orphans below this process be its children.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    let own = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(own))?)
}

/// A child of ours that is no program's, if there is one.
static LEFT_OUT: OnceLock<u32> = OnceLock::new();

/// Child `pid` is none of the program's processes.
pub(crate) fn leave_out(pid: u32) {
    let _ = LEFT_OUT.set(pid);
}

/// Whether no process is left below this one.
pub(crate) fn has_none() -> bool {
    processes_below_us().is_empty()
}

/// What a wait came to.
pub(crate) enum Ended {
    /// A child has ended.
    Child(Pid, WaitStatus),
    /// A child was stopped by this signal.
    Stopped(Pid, i32),
    /// There is none any more.
    All,
}

/// Waits for the next child to end or to be stopped.
///
/// # Errors
/// What the system says.
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

/// The numbers of all processes below this one.
pub(crate) fn processes_below_us() -> Vec<u32> {
    let mut found = Vec::new();
    let mut unseen = vec![std::process::id()];
    while let Some(parent) = unseen.pop() {
        let threads = fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            // It may have ended meanwhile.
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|one| one.parse().ok());
            let children = children.filter(|child| LEFT_OUT.get() != Some(child));
            unseen.extend(children.inspect(|child: &u32| found.push(*child)));
        }
    }
    found
}

/// Passes `signal` on to all of them. What a terminal sends to a group may not reach them, and
/// shells have them ignore it: it asks them to end, in other words.
pub(crate) fn pass_on(signal: i32) {
    let signal = match signal {
        SIGINT | SIGQUIT => SIGTERM,
        signal => signal,
    };
    processes_below_us().into_iter().for_each(|process| signals::send(process, signal));
}
