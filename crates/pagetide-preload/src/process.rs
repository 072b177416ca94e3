//! This process under a run: whether there is one, its number, and the descriptors that are ours.
//!
//! ```text
//!   PAGETIDE_RUN=1:900:4711   version, doorbell, the doorbell's inode (a number can be reused)
//!   wiped page                our number; zero again in every child, however it was made
//!   own descriptors           doorbell and sockets: the program can neither see nor close them
//! ```
//!
//! A child closes the sockets it inherits when it first has something to ask, or by executing.
//!
//! Ignored: children that share our memory but not our descriptors (vfork is replaced by fork;
//! clone with such flags is not).

use crate::errno::Errno;
use crate::next;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

const NOT_ASKED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NOT_ASKED);
static DOORBELL: AtomicI32 = AtomicI32::new(-1);
/// Sockets of all threads: half our number, half the descriptor plus one; 0 is free.
static OWN: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];
/// No entry of `OWN` was ever used from here on.
static OWN_END: AtomicUsize = AtomicUsize::new(0);
static PAGE: AtomicPtr<Wiped> = AtomicPtr::new(std::ptr::null_mut());

static PRELOAD_VALUE: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
static PRELOAD_LEN: AtomicUsize = AtomicUsize::new(0);
static RUN_VALUE: [AtomicU8; 128] = [const { AtomicU8::new(0) }; 128];
static RUN_LEN: AtomicUsize = AtomicUsize::new(0);

/// What a child begins without.
struct Wiped {
    process: AtomicU64,
}

/// Whether this process is under a run. Cheap after the first time.
#[inline]
pub(crate) fn is_on() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => true,
        OFF => false,
        _ => find_out(),
    }
}

#[cold]
fn find_out() -> bool {
    let found =
        variable(c"PAGETIDE_RUN").and_then(parse).filter(|(fd, inode)| is_socket(*fd, *inode));
    let Some((doorbell, _)) = found else {
        if variable(c"PAGETIDE_RUN").is_some() {
            complain(
                "pagetide: this program has lost its page cache; its files are the kernel's\n",
            );
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
    // Two threads may both be here: one page is lost, nothing else.
    PAGE.store(page, Ordering::Release);
    DOORBELL.store(doorbell, Ordering::Release);
    STATE.store(ON, Ordering::Release);
    true
}

/// The doorbell, if there is a run.
pub(crate) fn doorbell() -> c_int {
    DOORBELL.load(Ordering::Acquire)
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

/// This process's number, made up the first time it is asked for.
pub(crate) fn number() -> u64 {
    let page = wiped();
    let known = page.process.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let mut random = 0_u64;
    let arguments = [std::ptr::from_mut(&mut random) as usize, 8, 0, 0, 0, 0];
    // SAFETY: getrandom writes eight bytes to a live u64 (S20).
    let made = unsafe { next::system(libc::SYS_getrandom, arguments) };
    if made != Ok(8) {
        // SAFETY: getpid has no arguments (S20).
        random = u64::from(unsafe { libc::getpid() } as u32) << 32 | 1;
    }
    match page.process.compare_exchange(0, random | 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            close_inherited(random | 1);
            random | 1
        }
        Err(other) => other,
    }
}

/// Whether this process has asked for anything yet.
pub(crate) fn has_entered() -> bool {
    is_on() && wiped().process.load(Ordering::Acquire) != 0
}

/// Tells the server that nothing more will come, so that what was open is closed before anybody
/// hears that we have ended.
pub(crate) fn say_goodbye() {
    if has_entered() {
        crate::self_read::finish();
        // What fails here, fails the server's check that we are alive as well.
        let _ = crate::channel::tell(pagetide_sys::wire::Op::Leave);
    }
}

fn wiped() -> &'static Wiped {
    // SAFETY: `find_out` has stored the page before anybody is told that we are on; it is never
    // unmapped, zeros are a valid `Wiped`, and it is only reached through atomics (S22).
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

/// Takes note of a descriptor of ours. Where the list is full, the program can close it: then it is
/// opened again.
pub(crate) fn add_own(fd: c_int) {
    let word = own_word(number(), fd);
    for (index, slot) in OWN.iter().enumerate() {
        if slot.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            OWN_END.fetch_max(index + 1, Ordering::AcqRel);
            return;
        }
    }
}

/// A descriptor of ours was closed.
pub(crate) fn remove_own(fd: c_int) {
    let word = own_word(number(), fd);
    for slot in &OWN {
        if slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Whether `fd` is not the program's to close.
pub(crate) fn is_own(fd: c_int) -> bool {
    is_on() && (fd == doorbell() || own().any(|own| own == fd))
}

/// The sockets of ours, in no order.
pub(crate) fn own() -> impl Iterator<Item = c_int> {
    let end = OWN_END.load(Ordering::Acquire);
    let words = OWN[..end].iter().map(|slot| slot.load(Ordering::Relaxed));
    words.filter(|word| *word != 0).map(descriptor_of)
}

fn own_word(process: u64, fd: c_int) -> u64 {
    process << 32 | u64::from((fd + 1) as u32)
}

fn descriptor_of(word: u64) -> c_int {
    word as u32 as c_int - 1
}

/// Closes what the process before the fork had.
fn close_inherited(process: u64) {
    for slot in &OWN {
        let word = slot.load(Ordering::Acquire);
        let is_inherited = word != 0 && word >> 32 != process & u64::from(u32::MAX);
        if is_inherited
            && slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            let fd = descriptor_of(word);
            // SAFETY: a descriptor of ours, by the list (S22).
            let _ = unsafe { next::system(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
        }
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

fn parse(value: &CStr) -> Option<(c_int, u64)> {
    let mut fields = value.to_str().ok()?.split(':');
    let version: u32 = fields.next()?.parse().ok()?;
    let fd = fields.next()?.parse().ok()?;
    let inode = fields.next()?.parse().ok()?;
    (version == pagetide_sys::wire::VERSION).then_some((fd, inode))
}

fn is_socket(fd: c_int, inode: u64) -> bool {
    stat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFSOCK && stat.st_ino == inode)
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

/// A pointer as a system call takes it.
pub(crate) fn address<T>(value: *const T) -> usize {
    value.cast::<c_void>() as usize
}
