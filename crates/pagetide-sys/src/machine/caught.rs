//! Signals of a process that has to outlive them, as records in a pipe.
//!
//! **Problem.** A process that serves others must not end by a signal that is meant for them: any
//! signal but two may be sent to the whole group. **Idea.** One handler for all signals writes the
//! number into a pipe, and a thread reads the pipe.
//!
//! ```text
//!   kill(2), timers, limits --> handler --> pipe --> CaughtSignals::next
//!   a fault of this process --> handler --> what was there before: the process ends
//!   a child before its exec --> handler --> what the process began with
//! ```
//!
//! SIGSEGV and its like are caught as well: sent by another process, they are signals as any other.
//!
//! **Data and invariants.** The handler makes system calls only, and keeps errno. A full pipe loses
//! signals, after 32,768 that nobody has read.
//!
//! Source: Linux man pages sigaction(2), signal(7), signal-safety(7).

use crate::machine::{inherited, signals};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// Signals of a fault, of an instruction or a system call, unless another process sends them.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// Signals that do nothing by default, or stop a process that has to write to its terminal.
const NOT_CAUGHT: [i32; 5] =
    [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGPIPE, libc::SIGTTOU];

/// The process that catches; in its forked child the handler finds another number.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The end of the pipe that the handler writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// What faults did before.
static BEFORE: OnceLock<Vec<(i32, libc::sigaction)>> = OnceLock::new();

/// A signal that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its number.
    pub signal: i32,
    /// True for a signal of the kernel's: of a terminal, a timer or a limit.
    pub is_from_kernel: bool,
}

/// All signals of this process, but SIGKILL, SIGSTOP and its own faults. Dropped, they do what they
/// do by default.
#[derive(Debug)]
pub struct CaughtSignals {
    reader: OwnedFd,
    _writer: OwnedFd,
}

impl CaughtSignals {
    /// Catches them from here on. One at a time in a process.
    ///
    /// # Errors
    /// What the system says of pipes.
    pub fn catch() -> io::Result<CaughtSignals> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        OWNER.store(std::process::id().cast_signed(), SeqCst);
        PIPE.store(writer.as_raw_fd(), SeqCst);
        BEFORE.get_or_init(|| FAULTS.map(|signal| (signal, action_of(signal))).into());
        for signal in caught() {
            set_action(signal, &handling());
        }
        // Else children would be gone before they are waited for.
        signals::set_default(libc::SIGCHLD);
        signals::ignore(libc::SIGTTOU);
        Ok(CaughtSignals { reader, _writer: writer })
    }

    /// Waits for the next signal; returns `None` after [`end_waiting`].
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

/// Has [`CaughtSignals::next`] return `None`.
pub fn end_waiting() {
    write_record(PIPE.load(SeqCst), [0, 0]);
}

fn caught() -> impl Iterator<Item = i32> {
    let is_left = |signal: &i32| {
        NOT_CAUGHT.contains(signal) || [libc::SIGKILL, libc::SIGSTOP].contains(signal)
    };
    (1..=libc::SIGRTMAX()).filter(move |signal| !is_left(signal))
}

fn empty_action() -> libc::sigaction {
    // SAFETY: S48: all zeros is a value of the type.
    unsafe { std::mem::zeroed() }
}

/// The action that calls the handler; system calls that it interrupts go on.
fn handling() -> libc::sigaction {
    let mut action = empty_action();
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) = handle;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

fn action_of(signal: i32) -> libc::sigaction {
    let mut action = empty_action();
    // SAFETY: S48: a live value; a number that is no signal is refused.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action
}

/// Refused for the two signals of the C library's own.
fn set_action(signal: i32, action: &libc::sigaction) {
    // SAFETY: S48: a handler of its prototype, or the action that was there before.
    unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
}

fn write_record(pipe: RawFd, record: [u8; 2]) {
    // SAFETY: S48: two live bytes; a number that is no descriptor is refused.
    unsafe { libc::write(pipe, record.as_ptr().cast(), record.len()) };
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: S48: the place is this thread's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: S48: as above.
    let before = unsafe { errno.read() };
    // SAFETY: S48: the kernel's siginfo lives until the handler returns.
    let code = unsafe { (*info).si_code };
    // SAFETY: S9 (numbers): no arguments.
    let own = unsafe { libc::getpid() };
    if own != OWNER.load(SeqCst) {
        // The program to be executed does this: the signal is blocked until this returns.
        inherited::restore(signal);
        signals::raise(signal);
    } else if FAULTS.contains(&signal) && (code > 0 || sender_of(info) == own) {
        let all = BEFORE.get().into_iter().flatten();
        if let Some((_, action)) = all.into_iter().find(|(of, _)| *of == signal) {
            set_action(signal, action);
        }
        // The instruction at fault is repeated; for a system call there is none.
        if [libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP].contains(&signal) {
            signals::raise(signal);
        }
    } else {
        write_record(PIPE.load(SeqCst), [signal as u8, u8::from(code > 0)]);
    }
    // SAFETY: S48: as above.
    unsafe { errno.write(before) };
}

/// The process that sent a signal, where its code says that one did.
fn sender_of(info: *mut libc::siginfo_t) -> libc::pid_t {
    // SAFETY: S48: the kernel's siginfo lives until the handler returns.
    let info = unsafe { *info };
    // SAFETY: S48: a siginfo is as long as its longest variant; any bytes are a number.
    unsafe { info.si_pid() }
}
