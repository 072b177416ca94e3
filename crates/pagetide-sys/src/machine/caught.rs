//! Catches the signals of a process that must survive them, as records in a pipe.
//!
//! **Problem.** A server must not die by a signal to its process group. **Idea.** One handler for
//! all signals writes the number into a pipe.
//!
//! ```text
//!   kill(2), timers, limits --> handler --> pipe --> CaughtSignals::next
//!   a fault of this process --> handler --> the previous action: the process ends
//!   a child before its exec --> handler --> the action that the process started with
//! ```
//!
//! Fault signals such as SIGSEGV are ordinary if sent by another process.
//!
//! **Data and invariants.** The handler makes only system calls, and preserves errno. Signals are
//! lost after 32,768 unread ones.
//!
//! Source: Linux man pages sigaction(2), signal(7), signal-safety(7).

use crate::machine::{inherited, signals};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// Unless sent by another process.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// Signals without effect here, and SIGTTOU, which would stop the process on terminal output.
const NOT_CAUGHT: [i32; 5] =
    [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGPIPE, libc::SIGTTOU];

/// The catching process. A forked child has another id.
static OWNER: AtomicI32 = AtomicI32::new(0);
static PIPE: AtomicI32 = AtomicI32::new(-1);
static BEFORE: OnceLock<Vec<(i32, libc::sigaction)>> = OnceLock::new();

/// A received signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The signal's number.
    pub signal: i32,
    /// True if from the kernel: a terminal, a timer or a limit.
    pub is_from_kernel: bool,
}

/// Catches the signals of this process until dropped, except SIGKILL, SIGSTOP, signals without
/// effect, and the process's own faults.
#[derive(Debug)]
pub struct CaughtSignals {
    reader: OwnedFd,
    _writer: OwnedFd,
}

impl CaughtSignals {
    /// Starts catching. A process can have only one value at a time.
    ///
    /// # Errors
    /// Fails if the system refuses a pipe.
    pub fn catch() -> io::Result<CaughtSignals> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        OWNER.store(std::process::id().cast_signed(), SeqCst);
        PIPE.store(writer.as_raw_fd(), SeqCst);
        BEFORE.get_or_init(|| FAULTS.map(|signal| (signal, signals::action_of(signal))).into());
        for signal in caught() {
            set_action(signal, &handling());
        }
        // With SIGCHLD ignored, the kernel would reap children before the process waits.
        signals::set_default(libc::SIGCHLD);
        signals::ignore(libc::SIGTTOU);
        Ok(CaughtSignals { reader, _writer: writer })
    }

    /// Waits for the next signal. Returns `None` after [`end_waiting`].
    pub fn next(&self) -> Option<Arrival> {
        let mut record = [0; 2];
        loop {
            match rustix::io::read(&self.reader, &mut record) {
                Ok(2) => break,
                Err(rustix::io::Errno::INTR) => {}
                _ => return None,
            }
        }
        let [signal, is_from_kernel] = record;
        (signal != 0)
            .then(|| Arrival { signal: signal.into(), is_from_kernel: is_from_kernel != 0 })
    }
}

impl Drop for CaughtSignals {
    fn drop(&mut self) {
        caught().for_each(signals::set_default);
        signals::set_default(libc::SIGTTOU);
        PIPE.store(-1, SeqCst);
    }
}

/// Makes [`CaughtSignals::next`] return `None`.
pub fn end_waiting() {
    write_record(PIPE.load(SeqCst), [0, 0]);
}

fn caught() -> impl Iterator<Item = i32> {
    let is_left = |signal: &i32| {
        NOT_CAUGHT.contains(signal) || [libc::SIGKILL, libc::SIGSTOP].contains(signal)
    };
    (1..=libc::SIGRTMAX()).filter(move |signal| !is_left(signal))
}

fn handling() -> libc::sigaction {
    let mut action = signals::default_action();
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) = handle;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

/// Fails silently for the C library's two reserved signals.
fn set_action(signal: i32, action: &libc::sigaction) {
    // SAFETY: S48: a handler with the required prototype, or the previous action.
    unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
}

fn write_record(pipe: RawFd, record: [u8; 2]) {
    // SAFETY: S48: two live bytes. The kernel refuses an invalid descriptor.
    unsafe { libc::write(pipe, record.as_ptr().cast(), record.len()) };
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: S48: the errno location belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: S48: as above.
    let before = unsafe { errno.read() };
    // SAFETY: S48: the kernel's siginfo lives until the handler returns.
    let code = unsafe { (*info).si_code };
    // SAFETY: S9 (numbers): no arguments.
    let own = unsafe { libc::getpid() };
    if own != OWNER.load(SeqCst) {
        // Acts like the child's program. The signal is blocked until this handler returns.
        inherited::restore(signal);
        signals::raise(signal);
    } else if FAULTS.contains(&signal) && (code > 0 || sender_of(info) == own) {
        let all = BEFORE.get().into_iter().flatten();
        if let Some((_, action)) = all.into_iter().find(|(of, _)| *of == signal) {
            set_action(signal, action);
        }
        // Returning repeats a faulting instruction, but not a system call.
        if [libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP].contains(&signal) {
            signals::raise(signal);
        }
    } else {
        write_record(PIPE.load(SeqCst), [signal as u8, u8::from(code > 0)]);
    }
    // SAFETY: S48: as above.
    unsafe { errno.write(before) };
}

/// Returns the sender, if the signal's code names one.
fn sender_of(info: *mut libc::siginfo_t) -> libc::pid_t {
    // SAFETY: S48: the kernel's siginfo lives until the handler returns.
    let info = unsafe { *info };
    // SAFETY: S48: a siginfo is as long as its longest variant, and any bytes are a number.
    unsafe { info.si_pid() }
}
