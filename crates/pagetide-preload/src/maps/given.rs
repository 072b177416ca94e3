//! Bytes of mapped ranges in arguments of calls, because the kernel fails on absent pages.
//!
//! ```text
//!   write, send, fwrite ..   get copies: a call may be long, and the written bytes are counted
//!   read, recv, fread ..     fill memory of the library, which is then copied to the program's
//!   any other call           fails with EFAULT --> bring in its arguments' pages --> call again
//! ```
//!
//! **Ignored.** Arguments that are larger than the memory limit. Arguments of calls that the C
//! library makes by itself, as in printf.

use super::fault::{Access, serve_fault};
use super::place::copy_if_there;
use super::ranges::{is_any_written, overlaps};
use super::{PAGE_BYTES, find};
use crate::arguments::{CALL_BYTES_MAX, total_of};
use crate::pieces;
use crate::pieces::Piece;
use crate::scratch::Scratch;
use libc::{c_long, c_void, iovec, mmsghdr, msghdr};
use std::mem::MaybeUninit;

/// Bytes of a copy that a call gets at a time.
const COPIED_BYTES: usize = 256 << 10;
/// Maximum number of bytes to copy on the stack, which costs no mapping.
const FEW_BYTES: usize = 512;

/// Calls `give` with copies of the buffer, piece by piece, until a write is short. The kernel would
/// fail on absent pages. Returns `None` if no mapped range overlaps the buffer.
pub(crate) fn in_copies(
    buffer: *const c_void,
    len: usize,
    mut give: impl FnMut(*const c_void, usize, usize) -> isize,
) -> Option<isize> {
    let len = len.min(CALL_BYTES_MAX);
    if !overlaps(buffer as usize, len) {
        return None;
    }
    let mut few = [MaybeUninit::<u8>::uninit(); FEW_BYTES];
    let many = match len {
        ..=FEW_BYTES => None,
        _ => Some(Scratch::new(len.min(COPIED_BYTES)).ok()?),
    };
    let (copy, room) = match &many {
        None => (few.as_mut_ptr().cast::<u8>(), FEW_BYTES),
        Some(many) => (many.place(0), many.len()),
    };
    let mut done = 0;
    while done < len {
        let nr_bytes = (len - done).min(room);
        let from = buffer.wrapping_byte_add(done).cast::<u8>();
        // SAFETY: the program's memory, to be read by the call (S20), and memory of the library
        // (S22).
        unsafe { std::ptr::copy_nonoverlapping(from, copy, nr_bytes) };
        let taken = give(copy.cast_const().cast(), nr_bytes, done);
        if taken < 0 {
            return Some(if done > 0 { done as isize } else { taken });
        }
        done += taken as usize;
        if (taken as usize) < nr_bytes {
            break;
        }
    }
    Some(done as isize)
}

/// Calls `take` to fill memory of the library if a part may lie in a writable mapped range, and
/// copies the bytes to the parts. The kernel would lose bytes at absent pages. Returns `None` if no
/// part lies there.
pub(crate) fn in_own_memory(
    parts: &[iovec],
    take: impl FnOnce(*mut c_void, usize) -> isize,
) -> Option<isize> {
    if !pieces::is_any() {
        return None;
    }
    let total = total_of(parts).ok()?;
    let is_ours = |part: &iovec| is_any_written(part.iov_base as usize, part.iov_len);
    if !parts.iter().any(is_ours) {
        return None;
    }
    let own = Scratch::new(total).ok()?;
    let taken = take(own.place(0).cast(), total);
    let mut done = 0;
    for part in parts {
        let nr_bytes = part.iov_len.min((taken.max(0) as usize).saturating_sub(done));
        // SAFETY: the program's memory, to be filled by the call (S20), and memory of the library
        // (S22).
        unsafe { std::ptr::copy_nonoverlapping(own.place(done), part.iov_base.cast(), nr_bytes) };
        done += nr_bytes;
    }
    Some(taken)
}

/// Calls that only read the memory of their arguments.
const LOOKING: [&str; 8] =
    ["writev", "pwritev64", "pwritev64v2", "sendmsg", "sendmmsg", "execve", "execvpe", "execveat"];

/// Minimum and maximum bytes at an argument's address: a path, or a length in the next argument.
const POINTED_BYTES: (usize, usize) = (PAGE_BYTES, 1 << 20);
/// Maximum number of parts, messages and strings of a call.
const NR_PARTS_MAX: usize = 1024;

/// Brings in the pages of a call's arguments after the call has failed with EFAULT. Returns true if
/// a mapped range overlaps them.
pub(crate) fn bring_in(call: &str, arguments: &[usize]) -> bool {
    let access = if LOOKING.contains(&call) { Access::Load } else { Access::Store };
    bring_in_for(access, call, arguments)
}

fn bring_in_for(access: Access, call: &str, arguments: &[usize]) -> bool {
    let touch = |start, len| touch(start, len, access);
    let lens = arguments.iter().skip(1).chain([&0]);
    let pointed = arguments.iter().zip(lens);
    let is_any = any_of(
        pointed.map(|(&start, &len)| touch(start, len.clamp(POINTED_BYTES.0, POINTED_BYTES.1))),
    );
    let is_part = match (call, arguments) {
        ("writev" | "pwritev64" | "pwritev64v2", &[_, parts, nr, ..]) => touch_parts(parts, nr),
        ("sendmsg", &[_, message, ..]) => touch_message(message),
        ("sendmmsg", &[_, messages, nr, ..]) => {
            let all = (0..nr.min(NR_PARTS_MAX)).map(|nth| messages + nth * size_of::<mmsghdr>());
            any_of(all.map(touch_message))
        }
        ("execve" | "execvpe" | "fexecve", &[_, one, other, ..])
        | ("execveat", &[_, _, one, other, ..]) => touch_strings(one) | touch_strings(other),
        ("syscall", &[number, ref rest @ ..]) => match number as c_long {
            libc::SYS_writev => bring_in("writev", rest),
            libc::SYS_sendmsg => bring_in("sendmsg", rest),
            libc::SYS_execve => bring_in("execve", rest),
            _ => false,
        },
        _ => false,
    };
    is_any || is_part
}

/// Brings in the pages of mapped ranges within a range of addresses. Returns true if there are any.
fn touch(start: usize, len: usize, access: Access) -> bool {
    let end = start.saturating_add(len);
    let (mut at, mut is_any) = (start, false);
    while let Some(piece) = pieces::find(at, end).filter(|_| at < end) {
        at = at.max(piece.start);
        while at < piece.end().min(end) {
            let readable = find(at).filter(|now| now.protection & libc::PROT_READ != 0);
            let serve = |now: Piece| {
                let is_store = access == Access::Store
                    && now.is_written
                    && now.protection & libc::PROT_WRITE != 0;
                serve_fault(at, &now, if is_store { access } else { Access::Load })
            };
            if !readable.is_some_and(serve) {
                return is_any;
            }
            is_any = true;
            at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
        }
    }
    is_any
}

fn touch_parts(parts: usize, nr: usize) -> bool {
    any_of((0..nr.min(NR_PARTS_MAX)).map(|nth| {
        let part = peek::<iovec>(parts + nth * size_of::<iovec>());
        part.is_some_and(|part| touch(part.iov_base as usize, part.iov_len, Access::Load))
    }))
}

/// Returns true if any item is true. Evaluates all items.
fn any_of(touched: impl Iterator<Item = bool>) -> bool {
    touched.filter(|is_any| *is_any).count() > 0
}

fn touch_message(message: usize) -> bool {
    let Some(one) = peek::<msghdr>(message) else { return false };
    touch(one.msg_name as usize, one.msg_namelen as usize, Access::Load)
        | touch(one.msg_control as usize, one.msg_controllen, Access::Load)
        | touch(one.msg_iov as usize, one.msg_iovlen * size_of::<iovec>(), Access::Load)
        | touch_parts(one.msg_iov as usize, one.msg_iovlen)
}

fn touch_strings(strings: usize) -> bool {
    let all = (0..NR_PARTS_MAX).map_while(|nth| peek::<usize>(strings + nth * size_of::<usize>()));
    any_of(all.take_while(|one| *one != 0).map(|one| touch(one, POINTED_BYTES.0, Access::Load)))
}

/// Reads a value at an address of the program. Returns `None` if there is no memory.
fn peek<T: Copy>(address: usize) -> Option<T> {
    let mut found = MaybeUninit::<T>::uninit();
    // SAFETY: room for as many bytes (S20).
    let read = unsafe { copy_if_there(address, found.as_mut_ptr() as usize, size_of::<T>()) };
    // SAFETY: all bytes were written, and any bytes are a value: numbers and addresses (S20).
    read.is_ok().then(|| unsafe { found.assume_init() })
}
