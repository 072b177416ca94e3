//! Faults of regions as signals: served by the thread that touched the page.
//!
//! **Problem.** To wake another thread, and to be woken by it, costs ten times what a fault costs
//! the kernel. A signal comes on the faulting thread itself; but a process has one handler for all
//! its SIGBUS, and may have its own.
//!
//! **Idea.** One handler, installed with the first region: it looks the address up, has what was
//! registered for it serve the fault, and returns, and the access is made again. What is none of
//! ours goes to the handler there was before, as if this one were not there.
//!
//! ```text
//!   touch --> SIGBUS --> an address of a region? --yes--> served? --yes--> the access once more
//!                              | no                          | no
//!                              +-----------------------------+--> the handler before ours,
//!                                                                 or the end of the process
//! ```
//!
//! **Data and invariants.** S31: the handler runs code of ours only where code of the user's has
//! touched an address of a region, or where the signal would have ended the process. So a lock of
//! ours is never held by the code that it interrupts, unless that has touched a region under it;
//! nothing here does. It runs on the thread's own stack: alternate ones are as small as 8 KiB. All
//! other signals wait meanwhile, but those that faults raise; a fault within a fault is served.
//!
//! **Ignored.** A handler that the process installs later, and that does not pass on what it does
//! not know. A thread that blocks SIGBUS: the kernel ends the process at its first fault.
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

/// Whether a fault was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Served {
    /// The access is to be made again.
    Yes,
    /// The page cannot be had: the process gets its signal.
    No,
}

type Serve = dyn Fn(Fault) -> Served + Send + Sync;

struct Registered {
    range: Range<usize>,
    serve: Arc<Serve>,
}

/// In order of creation; regions are few.
static REGISTERED: RwLock<Vec<Registered>> = RwLock::new(Vec::new());
/// What SIGBUS did before there was a region.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// The process that has the regions: a child has none.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Faults that this thread is serving, one within the other.
    static NR_SERVING: Cell<u32> = const { Cell::new(0) };
}

/// A region whose faults are served, until this is dropped.
#[must_use = "faults are served as long as this lives"]
#[derive(Debug)]
pub struct FaultRegistration {
    start: usize,
}

/// Whether this thread is in the middle of serving a fault, by a signal: what it does is done
/// wherever user code touched the page, and should not allocate.
pub fn is_serving_fault() -> bool {
    NR_SERVING.with(|nr| nr.get() > 0)
}

/// Has `serve` called for each fault of the region, which tells them as signals, on the thread that
/// touched the page, until what is returned is dropped. `serve` may not unwind.
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

/// Puts the handler in place, once.
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

/// What an instruction may raise: a process that blocks it ends.
const RAISED_BY_FAULTS: [libc::c_int; 7] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// The handler.
extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = io::Error::last_os_error().raw_os_error();
    // SAFETY: S31: the kernel hands over both, for the time of the call.
    let fault = unsafe { read_fault(info, context) };
    let served = fault.map_or(Served::No, serve);
    action::set_errno(errno.unwrap_or(0));
    if served == Served::No {
        // SAFETY: S31: handed on as it came.
        unsafe { pass_on(signal, info, context) };
    }
}

/// Has the fault served, if its address is a region's.
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
            // A child may have been forked while the list was being changed, for ever.
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

/// The fault that a signal tells of; `None` where a process has sent it, or the hardware is broken.
///
/// # Safety
/// Both are what the kernel has handed to the handler.
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

/// What the processor says of the access.
///
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

/// Does what SIGBUS did before: calls the handler there was, with the signals blocked that would
/// be, or lets the signal have its default effect.
///
/// # Safety
/// The arguments are what the kernel has handed to the handler.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().expect("S31: known before the handler is in place");
    // SAFETY: S31, by the caller's word: a signal that was sent does not come again by itself.
    let was_sent = unsafe { &*info }.si_code <= 0;
    match before.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access is made again, and ends the process.
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
            // SAFETY: S31: handed on as it came.
            unsafe { action::call(before, signal, info, context) };
        }
    }
}

#[cfg(test)]
mod tests;
