//! Faults of regions as signals, served by the thread that touched the page.
//!
//! **Problem.** Waking another thread and being woken costs ten times the fault itself. A process
//! has only one handler for SIGBUS.
//!
//! **Idea.** One handler, installed with the first region, calls the server of the address's
//! region. Foreign faults go to the previous handler.
//!
//! ```text
//!   touch --> SIGBUS --> an address of a region? --yes--> served? --yes--> the access is repeated
//!                              | no                          | no
//!                              +-----------------------------+--> the previous handler,
//!                                                                 or the end of the process
//! ```
//!
//! **Data and invariants.** S31: library code runs only where user code touched a region, or where
//! the signal would have ended the process. The interrupted code holds no lock of the library,
//! which never touches a region under a lock. The handler uses the thread's own stack, because
//! alternate stacks may have only 8 KiB. Signals that faults cannot raise are blocked. A fault
//! within a fault is served.
//!
//! **Ignored.** A later handler that does not chain. A thread that blocks SIGBUS, which ends the
//! process at its first fault.
//!
//! Source: sigaction(2), signal-safety(7), ioctl_userfaultfd(2) `UFFD_FEATURE_SIGBUS`.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, TryLockError};

use crate::fault::region::RegionMemory;
use crate::fault::uffd::Fault;

mod action;

/// The outcome of serving a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Served {
    /// The access is to be repeated.
    Yes,
    /// The page is unavailable: the process gets its signal.
    No,
}

type Serve = dyn Fn(Fault) -> Served + Send + Sync;

struct Registered {
    range: Range<usize>,
    serve: Arc<Serve>,
}

static REGISTERED: RwLock<Vec<Registered>> = RwLock::new(Vec::new());
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// The process with the regions. A forked child has none.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The nesting depth of the faults that this thread is serving.
    static NR_SERVING: Cell<u32> = const { Cell::new(0) };
}

/// Serves a region's faults until dropped.
#[must_use = "faults are served as long as this lives"]
#[derive(Debug)]
pub struct FaultRegistration {
    start: usize,
}

/// Returns true if this thread is serving a fault in a signal handler, where it should not
/// allocate.
pub fn is_serving_fault() -> bool {
    NR_SERVING.with(|nr| nr.get() > 0)
}

/// Calls `serve` for each fault of the region, on the faulting thread, until the registration is
/// dropped. `serve` must not unwind.
pub fn serve_faults(memory: &RegionMemory, serve: Arc<Serve>) -> FaultRegistration {
    let start = memory.base().addr();
    let range = start..start + size_of_val(memory.user().cells());
    install();
    let mut all = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    all.push(Registered { range, serve });
    FaultRegistration { start }
}

impl Drop for FaultRegistration {
    fn drop(&mut self) {
        let mut all = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|one| one.range.start == self.start);
        let gone = at.map(|at| all.swap_remove(at));
        drop(all);
        drop(gone);
    }
}

fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        OWNER.store(std::process::id(), Relaxed);
        BEFORE.get_or_init(|| action::exchange(None));
        let mut masked = action::all_signals();
        RAISED_BY_FAULTS.into_iter().for_each(|fault| action::remove(&mut masked, fault));
        action::exchange(Some(&action::of(on_sigbus, masked)));
    });
}

/// Signals that an instruction may raise: blocking them would end the process.
const RAISED_BY_FAULTS: [libc::c_int; 7] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = io::Error::last_os_error().raw_os_error();
    // SAFETY: S31: the kernel provides both for the time of the call.
    let fault = unsafe { read_fault(info, context) };
    let served = fault.map_or(Served::No, serve);
    action::set_errno(errno.unwrap_or(0));
    if served == Served::No {
        // SAFETY: S31: passed on unchanged.
        unsafe { pass_on(signal, info, context) };
    }
}

fn serve(fault: Fault) -> Served {
    let Some(serve) = find(fault.address) else { return Served::No };
    NR_SERVING.with(|nr| nr.set(nr.get() + 1));
    let served = serve(fault);
    NR_SERVING.with(|nr| nr.set(nr.get() - 1));
    served
}

fn find(address: usize) -> Option<Arc<Serve>> {
    loop {
        let all = match REGISTERED.try_read() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(all)) => all.into_inner(),
            // Forked during a change of the list, which then never ends in the child.
            Err(TryLockError::WouldBlock) if std::process::id() != OWNER.load(Relaxed) => {
                return None;
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        let found = all.iter().find(|one| one.range.contains(&address));
        return found.map(|one| Arc::clone(&one.serve));
    }
}

/// Returns the fault of a signal. `None` if a process sent the signal, or the hardware is broken.
///
/// # Safety
/// Both are the handler's arguments from the kernel.
unsafe fn read_fault(info: *const libc::siginfo_t, context: *const libc::c_void) -> Option<Fault> {
    const BUS_ADRERR: libc::c_int = 2;
    // SAFETY: S31, by the caller's word.
    let info = unsafe { &*info };
    if info.si_code != BUS_ADRERR {
        return None;
    }
    // SAFETY: S31: a fault has an address.
    let address = unsafe { info.si_addr() }.addr();
    // SAFETY: S31, by the caller's word.
    Some(Fault::at(address, unsafe { is_write(context) }))
}

/// # Safety
/// As of [`read_fault`].
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(context: *const libc::c_void) -> Option<bool> {
    const WRITE: i64 = 1 << 1;
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: S31, by the caller's word.
    let error = unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] };
    Some(error & WRITE != 0)
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn is_write(_context: *const libc::c_void) -> Option<bool> {
    None
}

/// Chains to the previous action of SIGBUS: calls its handler with its signal mask, or applies the
/// default effect.
///
/// # Safety
/// The arguments are the handler's arguments from the kernel.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().expect("S31: known before the handler is in place");
    // SAFETY: S31, by the caller's word: a sent signal does not recur by itself.
    let was_sent = unsafe { &*info }.si_code <= 0;
    match before.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            action::reset();
            if was_sent {
                action::raise(signal);
            }
        }
        _ => {
            // SAFETY: S31, by the caller's word.
            let mut mask = unsafe { &*context.cast::<libc::ucontext_t>() }.uc_sigmask;
            action::add_all(&mut mask, &before.sa_mask);
            if before.sa_flags & libc::SA_NODEFER == 0 {
                action::add(&mut mask, signal);
            }
            action::block(&mask);
            // SAFETY: S31: passed on unchanged.
            unsafe { action::call(before, signal, info, context) };
        }
    }
}

#[cfg(test)]
mod tests;
