//! This process under a run: whether there is one, and what its environment says of it.
//!
//! ```text
//!   PAGETIDE_RUN=10:1:pagetide-4711-af03:536870912   version, flags, the server's name, the limit
//!   wiped page   our number, and more that no child has; zero again in each, however it was made
//! ```
//!
//! Nothing is inherited but stand-ins: a child finds the server by its name, once it has something
//! to ask.
//!
//! Ignored: children that share our memory but not our descriptors (vfork is replaced by fork;
//! clone with such flags is not).

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
/// It was on: what it executes is told of no run.
const LEFT: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(NOT_ASKED);
static PAGE: AtomicPtr<Wiped> = AtomicPtr::new(std::ptr::null_mut());
static FLAGS: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);

static PRELOAD_VALUE: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
static PRELOAD_LEN: AtomicUsize = AtomicUsize::new(0);
static RUN_VALUE: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];
static RUN_LEN: AtomicUsize = AtomicUsize::new(0);

/// What a child begins without.
struct Wiped {
    process: AtomicU64,
    /// What `view` knows of its mappings.
    view_state: AtomicU8,
}

/// Whether this process is under a run. Cheap after the first time.
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
    LIMIT.store(run.limit, Ordering::Relaxed);
    // Two threads may both be here: one page is lost, nothing else.
    PAGE.store(page, Ordering::Release);
    STATE.store(ON, Ordering::Release);
    true
}

/// What [`wire::VARIABLE`] says.
struct Run {
    flags: u64,
    name: Range<usize>,
    limit: u64,
}

impl Run {
    fn parse(value: &[u8]) -> Option<Run> {
        let text = std::str::from_utf8(value).ok()?;
        let (version, rest) = text.split_once(':')?;
        let (flags, rest) = rest.split_once(':')?;
        let (name, limit) = rest.rsplit_once(':')?;
        let start = version.len() + flags.len() + 2;
        let is_ours = version.parse() == Ok(wire::VERSION) && !name.is_empty();
        is_ours.then_some(Run {
            flags: flags.parse().ok()?,
            name: start..start + name.len(),
            limit: limit.parse().ok()?,
        })
    }
}

/// The name of the server's socket.
pub(crate) fn server_name() -> &'static [u8] {
    let (_, value) = own_variables();
    Run::parse(value).map_or(&[], |run| &value[run.name])
}

/// Whether the run was given this flag, one of [`wire::variable`].
pub(crate) fn has_flag(flag: u64) -> bool {
    FLAGS.load(Ordering::Relaxed) & flag != 0
}

/// The run's limit, in bytes.
pub(crate) fn limit() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}

/// This process, and what it executes, is under no run from here on.
pub(crate) fn leave_run() {
    STATE.store(LEFT, Ordering::Release);
}

/// Whether it once was under one.
pub(crate) fn has_left_run() -> bool {
    STATE.load(Ordering::Acquire) == LEFT
}

/// The values of `LD_PRELOAD` and `PAGETIDE_RUN` that this process found.
pub(crate) fn own_variables() -> (&'static [u8], &'static [u8]) {
    let (preload, run) = (PRELOAD_LEN.load(Ordering::Acquire), RUN_LEN.load(Ordering::Acquire));
    (kept(&PRELOAD_VALUE, preload), kept(&RUN_VALUE, run))
}

fn kept(bytes: &'static [AtomicU8], len: usize) -> &'static [u8] {
    // SAFETY: an AtomicU8 is a byte in memory; these are written before we are on, and not again
    // but with the same bytes (S22).
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), len) }
}

/// Keeps a variable's value: the program may remove it.
fn keep(name: &CStr, bytes: &[AtomicU8], len: &AtomicUsize) -> bool {
    let Some(value) = variable(name).map(CStr::to_bytes) else { return false };
    if value.len() > bytes.len() {
        return false;
    }
    bytes.iter().zip(value).for_each(|(slot, byte)| slot.store(*byte, Ordering::Relaxed));
    len.store(value.len(), Ordering::Release);
    true
}

/// Whether this process has asked for anything yet.
pub(crate) fn has_entered() -> bool {
    is_on() && number_word().load(Ordering::Acquire) != 0
}

/// This process's number; 0 until [`own::number`](crate::own::number) has made one up.
#[inline]
pub(crate) fn number_word() -> &'static AtomicU64 {
    &wiped().process
}

/// What `view` knows; 0 in a new child.
#[inline]
pub(crate) fn view_state() -> &'static AtomicU8 {
    &wiped().view_state
}

#[inline]
fn wiped() -> &'static Wiped {
    // SAFETY: `find_out` has stored the page before we are on; it is never unmapped, zeros are a
    // valid `Wiped`, and it is only reached through atomics (S22).
    unsafe { &*PAGE.load(Ordering::Acquire) }
}

fn wiped_page() -> *mut Wiped {
    const BYTES: usize = 4096;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, BYTES, access, kind, usize::MAX, 0];
    // SAFETY: a new mapping, where the kernel likes it (S22).
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

/// One sentence on standard error.
pub(crate) fn complain(sentence: &str) {
    let arguments = [2, sentence.as_ptr() as usize, sentence.len(), 0, 0, 0];
    // SAFETY: the bytes of a live str (S20).
    let _ = unsafe { next::system(libc::SYS_write, arguments) };
}

/// The value of an environment variable.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a string; the C library reads its environment (S20).
    let value: *mut c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment, read before the program has begun to change it, or by a
    // thread that may read it as well as any other (S20).
    Some(unsafe { CStr::from_ptr(value) })
}

/// fstat(2).
pub(crate) fn stat(fd: c_int) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for one stat (S20).
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return Err(crate::errno::read());
    }
    // SAFETY: fstat has filled it (S20).
    Ok(unsafe { stat.assume_init() })
}

/// Whether it is a regular file.
pub(crate) fn is_regular(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// fcntl(2), past ourselves.
pub(crate) fn control(fd: c_int, command: c_int, argument: usize) -> Result<usize, Errno> {
    // SAFETY: numbers only (S20).
    unsafe { next::system(libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]) }
}

/// Returns true if a descriptor names a file and can do no more.
pub(crate) fn is_stand_in(fd: c_int) -> bool {
    control(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_PATH as usize != 0)
}

/// Returns this process's limit on a resource, as the kernel has it.
pub(crate) fn limit_on(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let arguments = [0, resource as usize, 0, address(&raw mut limit), 0, 0];
    // SAFETY: a live value; a call that fails changes nothing (S20).
    unsafe { next::system(libc::SYS_prlimit64, arguments) }.ok().map(|_| limit)
}

/// Returns this process's limit on descriptors, as the kernel has it.
pub(crate) fn descriptor_limit() -> libc::rlimit {
    limit_on(libc::RLIMIT_NOFILE).unwrap_or(libc::rlimit { rlim_cur: 0, rlim_max: 0 })
}

/// Descriptors have smaller numbers than this.
pub(crate) fn nr_descriptors_max() -> u64 {
    descriptor_limit().rlim_cur
}

/// `/proc/self/fd/` and the number, ended with a zero: what a descriptor has open, by a path.
pub(crate) fn path_of(fd: c_int) -> [u8; 32] {
    let mut path = [0; 32];
    // Thirty-one bytes are enough for any number.
    let _ = write!(&mut path[..], "/proc/self/fd/{fd}");
    path
}

/// A pointer as a system call takes it.
pub(crate) fn address<T>(value: *const T) -> usize {
    value.cast::<c_void>() as usize
}
