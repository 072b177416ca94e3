//! This thread's write window: passes a write's bytes to the server without a packet.
//!
//! ```text
//!      guard | words | bytes | guard      one mapping per thread, of the server's file
//!
//!   copy the bytes --> post the request --> poll for the reply, then wait at the socket
//!                                 server sleeps? wake it by the socket
//! ```
//!
//! **Data and invariants.** A window is released with its socket. The server's words are
//! untrusted. A thread uses its window only with its socket, so a signal handler meanwhile uses
//! another socket.
//!
//! **Ignored.** Memory that ceases to exist between the check and the copy.
//!
//! Source: process_vm_readv(2).

use super::mapping::Mapping;
use super::{
    Answer, Parcel, Received, ask_for_window, lost, receive, send, socket_number, with_socket,
};
use crate::errno::Errno;
use crate::{memory, next, process};
use libc::{c_int, iovec};
use pagetide_run::wire::{Op, PAGE_BYTES, REPLY_FILES_MAX, REQUEST_BYTES, Reply, Request};
use pagetide_sys::Patience;
use pagetide_sys::window::{BY_SOCKET, BYTES_AT, REQUEST_WORDS, Words};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Bytes that a thread writes before it gets a window: most threads stop earlier. A write counts
/// at least [`WRITE_BYTES`].
const FEW_BYTES: usize = 1 << 20;
const WRITE_BYTES: usize = 64 << 10;
/// Longer parts are copied by the kernel, because the check of their memory costs more.
const SHORT_PART: usize = 64 << 10;

#[derive(Clone, Copy)]
struct Window {
    mapping: Mapping,
    /// Length of the bytes.
    len: usize,
    nr_posted: u64,
}

const NONE: Window = Window { mapping: Mapping::NONE, len: 0, nr_posted: 0 };

/// Set once the kernel has refused to copy from the process's own memory.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static WINDOW: Cell<Window> = const { Cell::new(NONE) };
    static NR_BYTES: Cell<usize> = const { Cell::new(0) };
    /// The socket of a refused request for a window.
    static REFUSED_BY: Cell<u32> = const { Cell::new(0) };
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience::NEW) };
}

impl Window {
    fn words(&self) -> Words<'_> {
        let page = self.mapping.start.cast_const().cast::<AtomicU64>();
        // SAFETY: the first page of this thread's window (S22).
        let page = unsafe { std::slice::from_raw_parts(page, PAGE_BYTES / 8) };
        Words::new(page).expect("a page has more words")
    }

    fn bytes(&self) -> *mut u8 {
        self.mapping.start.wrapping_add(BYTES_AT)
    }
}

/// Returns the maximum number of bytes of a write by the window, or 0 if this thread has none.
/// `nr_bytes` is the length of the write to come.
pub(crate) fn len(nr_bytes: usize) -> usize {
    let window = WINDOW.get();
    if window.mapping.is_in_use() {
        return window.len;
    }
    // The program may have closed the socket, and the server no longer polls the window.
    release();
    let nr_before = NR_BYTES.get();
    let nr_bytes = nr_before.saturating_add(nr_bytes.max(WRITE_BYTES));
    NR_BYTES.set(nr_bytes);
    if nr_bytes < FEW_BYTES || !super::enter() || REFUSED_BY.get() == socket_number() {
        return 0;
    }
    request_window().unwrap_or(0)
}

fn request_window() -> Option<usize> {
    REFUSED_BY.set(socket_number());
    let (file, len) = ask_for_window()?;
    let mapping = Mapping::new(file, BYTES_AT + len)?;
    REFUSED_BY.set(0);
    WINDOW.set(Window { mapping, len, nr_posted: 0 });
    Some(len)
}

/// Sends a write of the bytes of `source` by the window. Returns `None` if the window
/// cannot be used now.
///
/// # Errors
/// Fails with `EFAULT` if the memory is not the program's, or if that is unknown. Fails with `EIO`
/// if the server is gone.
pub(crate) fn ask(request: &Request, source: &[iovec]) -> Option<Result<Answer, Errno>> {
    let nr_bytes = source.iter().map(|part| part.iov_len).sum::<usize>();
    let by_window = |fd| {
        let mut window = WINDOW.get();
        if !window.mapping.is_in_use() || nr_bytes > window.len {
            return None;
        }
        if !copy_in(&window, source) {
            return Some(Err(Errno(libc::EFAULT)));
        }
        window.nr_posted += 1;
        WINDOW.set(window);
        exchange(fd, &window, request, nr_bytes as u64)
    };
    let answer = with_socket(by_window).flatten()?;
    Some(answer.map_err(lost))
}

/// Posts a request and waits for the reply. Returns `None` if the request had no effect, and has to
/// be sent by the socket.
fn exchange(
    fd: c_int,
    window: &Window,
    request: &Request,
    nr_bytes: u64,
) -> Option<Result<Answer, Errno>> {
    let (words, number) = (window.words(), window.nr_posted);
    let is_asleep = words.post(number, words_of(&request.encode()), nr_bytes);
    let wake = || send(fd, &Request::new(Op::Wake, 0).encode(), Parcel::default());
    if is_asleep && wake().is_err() && words.withdraw(number) {
        return None;
    }
    let mut patience = PATIENCE.get();
    let look = || words.answer_to(number).map(Some);
    let replied = patience.wait(look, || words.announce_client_sleep(number));
    PATIENCE.set(patience);
    if let Some(reply) = replied.filter(|reply| reply[0] != BY_SOCKET) {
        let reply = Reply::decode(reply.map(u64::to_le_bytes).as_flattened());
        let files = [-1; REPLY_FILES_MAX];
        return Some(reply.map(|reply| Answer { reply, files }).ok_or(Errno(libc::EIO)));
    }
    match receive(fd, &[]) {
        Ok(Received::Whole(answer)) => Some(Ok(answer)),
        // The kernel has the file, and nothing was written.
        Ok(Received::WithoutFiles(_)) => None,
        Err(_) if words.withdraw(number) => None,
        // The server may have written the bytes.
        Err(_) => Some(Err(Errno(libc::EIO))),
    }
}

fn words_of(bytes: &[u8; REQUEST_BYTES]) -> [u64; REQUEST_WORDS] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|word| u64::from_le_bytes(words[word]))
}

/// Copies the parts into the window, one after another. Returns false if memory is missing.
fn copy_in(window: &Window, source: &[iovec]) -> bool {
    let mut target = window.bytes();
    source.iter().all(|part| {
        let to = target;
        target = to.wrapping_add(part.iov_len);
        match part.iov_len {
            0 => true,
            1..=SHORT_PART => copy_checked(part, to),
            _ => copy_by_kernel(part, to).unwrap_or_else(|| copy_checked(part, to)),
        }
    })
}

fn copy_checked(part: &iovec, to: *mut u8) -> bool {
    if !memory::is_there(part.iov_base as usize, part.iov_len, false) {
        return false;
    }
    let from = part.iov_base.cast_const().cast::<u8>();
    // SAFETY: memory that the program gave to be read, and that the kernel has confirmed (S20), to
    // a checked range of this thread's window (S22).
    unsafe { std::ptr::copy_nonoverlapping(from, to, part.iov_len) };
    true
}

/// Returns false if any of the memory is missing, and `None` if the kernel refuses such copies, as
/// filters of containers may.
fn copy_by_kernel(part: &iovec, to: *mut u8) -> Option<bool> {
    if IS_REFUSED.load(Relaxed) {
        return None;
    }
    // SAFETY: getpid has no arguments (S20).
    let pid = unsafe { libc::getpid() } as usize;
    let target = iovec { iov_base: to.cast(), iov_len: part.iov_len };
    let arguments = [pid, process::address(&target), 1, process::address(part), 1, 0];
    // SAFETY: the kernel reads the program's part (S20) into a checked range of this thread's
    // window (S22).
    match unsafe { next::system(libc::SYS_process_vm_readv, arguments) } {
        Ok(nr_bytes) => Some(nr_bytes == part.iov_len),
        Err(Errno(libc::EFAULT)) => Some(false),
        Err(_) => {
            IS_REFUSED.store(true, Relaxed);
            None
        }
    }
}

/// Unmaps this thread's window.
pub(super) fn release() {
    WINDOW.replace(NONE).mapping.release();
}
