//! This process's part in a run, from its environment.
//!
//! ```text
//!   PAGETIDE_RUN=21:1:pagetide-4711-af03   wire::VERSION, flags, server's name
//!   wiped page   this process's number and other state; zero in each child, however it was made
//! ```
//!
//! A child inherits only stand-ins, and finds the server by name when it needs to.
//!
//! Ignored: children that share memory but not descriptors (vfork is replaced by fork, but clone
//! with such flags is not).

use crate::errno::Errno;
use crate::next;
use libc::{c_char, c_int, c_void};
use pagetide_run::wire;
use std::ffi::CStr;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

const NOT_ASKED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// The process has left the run, and so do the programs that it executes.
const LEFT: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(NOT_ASKED);
static PAGE: AtomicPtr<Wiped> = AtomicPtr::new(std::ptr::null_mut());
static FLAGS: AtomicU64 = AtomicU64::new(0);

static PRELOAD_VALUE: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
static PRELOAD_LEN: AtomicUsize = AtomicUsize::new(0);
static RUN_VALUE: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];
static RUN_LEN: AtomicUsize = AtomicUsize::new(0);

/// Not inherited by children.
struct Wiped {
    process: AtomicU64,
    view_state: AtomicU8,
}

/// Returns true if this process is in a run. Cheap after the first call.
#[inline]
pub(crate) fn is_on() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => true,
        NOT_ASKED => find_out(),
        _ => false,
    }
}

#[cold]
fn find_out() -> bool {
    let value = variable(c"PAGETIDE_RUN");
    let Some(run) = value.and_then(|value| Run::parse(value.to_bytes())) else {
        if value.is_some() {
            complain("pagetide: PAGETIDE_RUN is not for this library; files are the kernel's\n");
        }
        STATE.store(OFF, Ordering::Release);
        return false;
    };
    let is_kept = keep(c"LD_PRELOAD", &PRELOAD_VALUE, &PRELOAD_LEN)
        && keep(c"PAGETIDE_RUN", &RUN_VALUE, &RUN_LEN);
    let page = if is_kept { wiped_page() } else { std::ptr::null_mut() };
    if page.is_null() {
        complain("pagetide: no memory; this program's files are the kernel's\n");
        STATE.store(OFF, Ordering::Release);
        return false;
    }
    FLAGS.store(run.flags, Ordering::Relaxed);
    // If two threads race here, one page is leaked.
    PAGE.store(page, Ordering::Release);
    STATE.store(ON, Ordering::Release);
    true
}

struct Run {
    flags: u64,
    name: Range<usize>,
}

impl Run {
    fn parse(value: &[u8]) -> Option<Run> {
        let text = std::str::from_utf8(value).ok()?;
        let (version, rest) = text.split_once(':')?;
        let (flags, name) = rest.split_once(':')?;
        let start = version.len() + flags.len() + 2;
        let is_ours = version.parse() == Ok(wire::VERSION) && !name.is_empty();
        is_ours.then_some(Run { flags: flags.parse().ok()?, name: start..start + name.len() })
    }
}

pub(crate) fn server_name() -> &'static [u8] {
    let (_, value) = own_variables();
    Run::parse(value).map_or(&[], |run| &value[run.name])
}

pub(crate) fn has_flag(flag: u64) -> bool {
    FLAGS.load(Ordering::Relaxed) & flag != 0
}

pub(crate) fn leave_run() {
    STATE.store(LEFT, Ordering::Release);
}

pub(crate) fn has_left_run() -> bool {
    STATE.load(Ordering::Acquire) == LEFT
}

/// Returns the original values of `LD_PRELOAD` and `PAGETIDE_RUN`.
pub(crate) fn own_variables() -> (&'static [u8], &'static [u8]) {
    let (preload, run) = (PRELOAD_LEN.load(Ordering::Acquire), RUN_LEN.load(Ordering::Acquire));
    (kept(&PRELOAD_VALUE, preload), kept(&RUN_VALUE, run))
}

fn kept(bytes: &'static [AtomicU8], len: usize) -> &'static [u8] {
    // SAFETY: an AtomicU8 is a byte in memory. These are written before the state is ON, and later
    // only with the same bytes (S22).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), len) }
}

fn keep(name: &CStr, bytes: &[AtomicU8], len: &AtomicUsize) -> bool {
    let Some(value) = variable(name).map(CStr::to_bytes) else { return false };
    if value.len() > bytes.len() {
        return false;
    }
    bytes.iter().zip(value).for_each(|(slot, byte)| slot.store(*byte, Ordering::Relaxed));
    len.store(value.len(), Ordering::Release);
    true
}

pub(crate) fn has_entered() -> bool {
    is_on() && number_word().load(Ordering::Acquire) != 0
}

/// Returns this process's number, 0 before [`own::number`](crate::own::number) has chosen one.
#[inline]
pub(crate) fn number_word() -> &'static AtomicU64 {
    &wiped().process
}

/// Returns the state of `view`, 0 in a new child.
#[inline]
pub(crate) fn view_state() -> &'static AtomicU8 {
    &wiped().view_state
}

#[inline]
fn wiped() -> &'static Wiped {
    // SAFETY: `find_out` has stored the page before the state is ON. The page is never unmapped,
    // zeros are a valid `Wiped`, and all accesses are atomic (S22).
    unsafe { &*PAGE.load(Ordering::Acquire) }
}

fn wiped_page() -> *mut Wiped {
    const BYTES: usize = 4096;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, BYTES, access, kind, usize::MAX, 0];
    // SAFETY: a new mapping at the kernel's choice (S22).
    let Ok(page) = (unsafe { next::system(libc::SYS_mmap, arguments) }) else {
        return std::ptr::null_mut();
    };
    let arguments = [page, BYTES, libc::MADV_WIPEONFORK as usize, 0, 0, 0];
    // SAFETY: the mapping just made (S22).
    match unsafe { next::system(libc::SYS_madvise, arguments) } {
        Ok(_) => page as *mut Wiped,
        Err(_) => std::ptr::null_mut(),
    }
}

pub(crate) fn complain(sentence: &str) {
    let arguments = [2, sentence.as_ptr() as usize, sentence.len(), 0, 0, 0];
    // SAFETY: the bytes of a live str (S20).
    let _ = unsafe { next::system(libc::SYS_write, arguments) };
}

pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a string. The C library reads its environment (S20).
    let value: *mut c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment, read before the program changes it, or by a thread that
    // may read it like any other (S20).
    Some(unsafe { CStr::from_ptr(value) })
}

pub(crate) fn stat(fd: c_int) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for one stat (S20).
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(crate::errno::read());
    }
    // SAFETY: fstat has filled it (S20).
    Ok(unsafe { stat.assume_init() })
}

pub(crate) fn is_regular(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// fcntl(2), without interposition.
pub(crate) fn control(fd: c_int, command: c_int, argument: usize) -> Result<usize, Errno> {
    // SAFETY: numbers only (S20).
    unsafe { next::system(libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]) }
}

/// lseek(2), without interposition.
pub(crate) fn move_to(fd: c_int, offset: i64, whence: c_int) -> Result<i64, Errno> {
    let arguments = [fd as usize, offset as usize, whence as usize, 0, 0, 0];
    // SAFETY: numbers only (S20).
    unsafe { next::system(libc::SYS_lseek, arguments) }.map(|position| position as i64)
}

/// Returns true if a descriptor only names a file.
pub(crate) fn is_stand_in(fd: c_int) -> bool {
    control(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_PATH as usize != 0)
}

pub(crate) fn limit_on(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let arguments = [0, resource as usize, 0, address(&raw mut limit), 0, 0];
    // SAFETY: a live value. A call that fails changes nothing (S20).
    unsafe { next::system(libc::SYS_prlimit64, arguments) }.ok().map(|_| limit)
}

pub(crate) fn descriptor_limit() -> libc::rlimit {
    limit_on(libc::RLIMIT_NOFILE).unwrap_or(libc::rlimit { rlim_cur: 0, rlim_max: 0 })
}

/// Exclusive.
pub(crate) fn nr_descriptors_max() -> u64 {
    descriptor_limit().rlim_cur
}

/// Zero-terminated.
pub(crate) fn path_of(fd: c_int) -> [u8; 32] {
    let mut path = [0; 32];
    let _ = write!(&mut path[..], "/proc/self/fd/{fd}");
    path
}

pub(crate) fn address<T>(value: *const T) -> usize {
    value.cast::<c_void>() as usize
}
