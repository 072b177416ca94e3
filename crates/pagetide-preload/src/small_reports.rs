//! Reports of the small files that this process brings into the kernel's page cache.
//!
//! ```text
//!   a file was opened, and not cached; a new file is closed --> add --> the batch
//!   a file has another folder --------------------------> moved --> the batch, sent
//!   the batch is full; before an open by the server; at the end  --> sent, no reply
//!   each pass::SMALL_WINDOW bytes                                --> sent, and the reply awaited
//! ```
//!
//! A file is named by its path, because a descriptor on its way to the server would keep the file
//! open. At most [`BATCH_BYTES`] of files are not reported yet.
//!
//! **Data and invariants.** The batch is bytes of atomics, used by the thread that has stored the
//! process's number in `OWNER`. Other threads and signal handlers meanwhile send each report alone.
//! A child finds its parent's number there, and starts with an empty batch.
//!
//! Source: proc(5), "/proc/pid/fd".

use crate::channel::{self, Parcel};
use crate::{errno, next, own, process};
use libc::{c_int, iovec};
use pagetide_run::storage::Storage;
use pagetide_run::wire::{Op, PATH_BYTES_MAX, Request, SMALL_FILE_BYTES, SmallFile, pass};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

const ROOM: usize = 4096;
/// Bytes of the files in a batch that is full.
const BATCH_BYTES: u64 = 128 << 10;

static BATCH: [AtomicU8; ROOM] = [const { AtomicU8::new(0) }; ROOM];
static LEN: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the files in the batch.
static NR_BYTES: AtomicU64 = AtomicU64::new(0);
/// Number of the process whose thread uses the batch now, or 0.
static OWNER: AtomicU64 = AtomicU64::new(0);
/// Number of the process that has filled the batch.
static FILLED_BY: AtomicU64 = AtomicU64::new(0);
/// Bytes reported since the last reply.
static NR_BYTES_REPORTED: AtomicU64 = AtomicU64::new(0);
/// Number of consecutive files that the server has not found by their paths.
static NR_NOT_FOUND: AtomicU64 = AtomicU64::new(0);
/// The number after which this process's paths count as another root folder's. One file may have
/// been removed meanwhile.
const NOT_FOUND_MAX: u64 = 3;

/// Reports `nr_bytes` of the open file of `fd`, which were read, or with `is_written` written.
/// Returns false if the server cannot follow the file's path.
#[cold]
pub(crate) fn add(fd: c_int, stat: &libc::stat, nr_bytes: u64, is_written: bool) -> bool {
    match storage_of(fd, stat.st_dev) {
        // Nothing can be dropped.
        Storage::Memory if is_written => return true,
        // The server must not wait for a program or another machine.
        Storage::Other => return false,
        Storage::Memory | Storage::Local => {}
    }
    if NR_NOT_FOUND.load(Relaxed) >= NOT_FOUND_MAX {
        return false;
    }
    errno::kept(|| {
        let mut record = [0; SMALL_FILE_BYTES + PATH_BYTES_MAX];
        let (head, path) = record.split_at_mut(SMALL_FILE_BYTES);
        let Some(path_len) = read_path(fd, path) else { return false };
        let (device, inode) = (stat.st_dev, stat.st_ino);
        let file = SmallFile { device, inode, nr_bytes, is_written, path_len };
        head.copy_from_slice(&file.encode());
        add_record(&record[..SMALL_FILE_BYTES + path_len], nr_bytes)
    })
}

/// Reports the new path of the open file of `fd`, at once: the server looks for the file there.
pub(crate) fn moved(fd: c_int, stat: &libc::stat) {
    add(fd, stat, 0, true);
    flush();
}

/// Sends the batch, before a request whose answer depends on it.
pub(crate) fn flush() {
    if LEN.load(Relaxed) > 0
        && let Some(batch) = Batch::take()
    {
        batch.send(false);
    }
}

/// Adds a record to the batch. Returns false if the server does not find the file.
fn add_record(record: &[u8], nr_bytes: u64) -> bool {
    let waits = NR_BYTES_REPORTED.fetch_add(nr_bytes, Relaxed) + nr_bytes >= pass::SMALL_WINDOW;
    if waits {
        NR_BYTES_REPORTED.store(0, Relaxed);
    }
    let Some(batch) = Batch::take() else {
        return send(record.as_ptr(), record.len(), waits);
    };
    if LEN.load(Relaxed) + record.len() > ROOM {
        batch.send(false);
    }
    let len = LEN.load(Relaxed);
    BATCH[len..].iter().zip(record).for_each(|(slot, byte)| slot.store(*byte, Relaxed));
    LEN.store(len + record.len(), Relaxed);
    let all = NR_BYTES.fetch_add(nr_bytes, Relaxed) + nr_bytes;
    !waits && all < BATCH_BYTES || batch.send(waits)
}

/// The right to use the batch.
struct Batch;

impl Batch {
    /// Returns `None` if another thread uses the batch, or a thread that this handler interrupts.
    fn take() -> Option<Batch> {
        let number = own::number();
        let owner = OWNER.load(Relaxed);
        if owner == number || OWNER.compare_exchange(owner, number, AcqRel, Relaxed).is_err() {
            return None;
        }
        if FILLED_BY.swap(number, Relaxed) != number {
            LEN.store(0, Relaxed);
            NR_BYTES.store(0, Relaxed);
        }
        Some(Batch)
    }

    /// Sends the batch as [`send`] does, and empties it.
    fn send(&self, waits: bool) -> bool {
        NR_BYTES.store(0, Relaxed);
        send(BATCH.as_ptr().cast(), LEN.swap(0, Relaxed), waits)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        OWNER.store(0, Release);
    }
}

/// Sends records. With `waits`, returns false if the server does not find the last file.
fn send(records: *const u8, len: usize, waits: bool) -> bool {
    let source = &[iovec { iov_base: records.cast_mut().cast(), iov_len: len }];
    let request = Request { total: waits.into(), ..Request::new(Op::Remember, 0) };
    let parcel = Parcel { source, ..Parcel::default() };
    if !waits {
        channel::tell_only(&request, parcel);
        channel::close_if_idle();
        return true;
    }
    let asked = channel::ask(&request, parcel);
    channel::close_if_idle();
    let is_found = asked.is_ok_and(|answer| answer.reply.result == 0);
    if is_found {
        NR_NOT_FOUND.store(0, Relaxed);
    } else {
        NR_NOT_FOUND.fetch_add(1, Relaxed);
    }
    is_found
}

/// Returns the storage of a file on this device. Remembers the answer for the last device.
fn storage_of(fd: c_int, device: u64) -> Storage {
    const KNOWN: u64 = 4;
    static LAST: AtomicU64 = AtomicU64::new(0);
    let word = device << 3 | KNOWN;
    let last = LAST.load(Relaxed);
    if last & !3 == word {
        return [Storage::Memory, Storage::Local, Storage::Other][(last as usize & 3).min(2)];
    }
    let mut found = std::mem::MaybeUninit::<libc::statfs64>::uninit();
    let arguments = [fd as usize, found.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: room for one answer (S20).
    if unsafe { next::system(libc::SYS_fstatfs, arguments) }.is_err() {
        return Storage::Other;
    }
    // SAFETY: the call has filled it (S20).
    let storage = Storage::of_kind(unsafe { found.assume_init() }.f_type as u64);
    LAST.store(word | storage as u64, Relaxed);
    storage
}

/// Reads the path of an open file. Returns its length, or `None` for a file without a name.
fn read_path(fd: c_int, path: &mut [u8]) -> Option<usize> {
    let link = process::path_of(fd);
    let (from, to) = (process::address(link.as_ptr()), path.as_mut_ptr() as usize);
    let arguments = [libc::AT_FDCWD as usize, from, to, path.len(), 0, 0];
    // SAFETY: a string, and room for a path, that live through the call (S20).
    let len = unsafe { next::system(libc::SYS_readlinkat, arguments) }.ok()?;
    let is_whole = len < path.len() && path[0] == b'/' && !path[..len].ends_with(b" (deleted)");
    is_whole.then_some(len)
}
