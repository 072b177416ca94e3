//! Converts C's arguments to Rust's.
//!
//! The caller vouches for pointers, as the header requires (S34). Null, UTF-8, lengths that no
//! memory has, and sizes of structures are checked.

use crate::door::Failure;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A structure of integers and pointers that starts with its size, and grows at its end.
///
/// # Safety
/// `repr(C)`, the first field a `usize`, any bytes a valid value, and no padding.
pub(crate) unsafe trait Growing: Copy {
    /// The size when first published. A smaller one is a mistake.
    const FIRST_BYTES: usize;
}

/// Returns a pointer's target, and refuses null.
#[inline]
pub(crate) fn given<T>(pointer: Option<T>, name: &'static str) -> Result<T, Failure> {
    match pointer {
        Some(pointer) => Ok(pointer),
        None => Err(is_null(name)),
    }
}

#[cold]
fn is_null(name: &'static str) -> Failure {
    Failure::invalid(format!("{name} is NULL"))
}

/// Returns text, and refuses null.
///
/// # Safety
/// As the header requires for text.
pub(crate) unsafe fn text<'a>(
    pointer: *const c_char,
    name: &'static str,
) -> Result<&'a str, Failure> {
    // SAFETY: S34: both functions have the same contract.
    let text = unsafe { text_or_none(pointer, name) }?;
    given(text, name)
}

/// Returns text, or `None` for null.
///
/// # Safety
/// As the header requires for text.
pub(crate) unsafe fn text_or_none<'a>(
    pointer: *const c_char,
    name: &'static str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: S34: not null, so it is text for the time of the call.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|error| Failure::invalid(format!("{name} is no UTF-8: {error}")))
}

/// Returns a path of any bytes, or `None` for null.
///
/// # Safety
/// As the header requires for text.
pub(crate) unsafe fn path_or_none<'a>(pointer: *const c_char) -> Option<&'a Path> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: S34: not null, so it is text for the time of the call.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)))
}

/// Returns a list of texts that ends with a null. A null list is empty.
///
/// # Safety
/// As the header requires for text, for each text.
pub(crate) unsafe fn texts<'a>(
    mut pointer: *const *const c_char,
    name: &'static str,
) -> Result<Vec<&'a str>, Failure> {
    let mut all = Vec::new();
    while !pointer.is_null() {
        // SAFETY: S34: the list continues up to a null, which was not seen yet.
        let one = unsafe { *pointer };
        // SAFETY: S34: both functions have the same contract.
        let Some(text) = (unsafe { text_or_none(one, name) })? else { break };
        all.push(text);
        // SAFETY: S34: a null follows this text.
        pointer = unsafe { pointer.add(1) };
    }
    Ok(all)
}

/// Duplicates a descriptor of the caller.
pub(crate) fn duplicate(descriptor: c_int) -> Result<File, Failure> {
    // SAFETY: S34 (numbers): a bad descriptor is an error.
    let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    if own < 0 {
        return Err(Failure::from(io::Error::last_os_error()));
    }
    // SAFETY: S34: the descriptor is new, and only this function knows it.
    Ok(unsafe { File::from_raw_fd(own) })
}

/// Returns bytes to read.
///
/// # Safety
/// `len` bytes are there, and unchanged, for the time of the call.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check_buffer(pointer, len)?;
    // SAFETY: S34: not null, not longer than memory, and the caller's for the call.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

/// Returns memory to write, which need not be initialised.
///
/// # Safety
/// As for [`bytes_mut`].
pub(crate) unsafe fn memory_mut<'a>(
    pointer: *mut c_void,
    len: usize,
) -> Result<&'a mut [MaybeUninit<u8>], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_buffer(pointer, len)?;
    // SAFETY: S34: not null, not longer than memory, and the caller's for the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) })
}

/// Returns bytes to write.
///
/// # Safety
/// `len` bytes are there for the time of the call, and no other code accesses them.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut c_void,
    len: usize,
) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_buffer(pointer, len)?;
    // SAFETY: S34: not null, not longer than memory, and the caller's for the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) })
}

fn check_buffer(pointer: *const c_void, len: usize) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("the buffer of {len} bytes is NULL")));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid(format!("no buffer has {len} bytes")));
    }
    Ok(())
}

/// Copies a structure of options of the caller's size. Missing fields are zero.
///
/// # Safety
/// The stated number of bytes is there for the time of the call.
pub(crate) unsafe fn options<T: Growing>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: S34: both functions have the same contract.
    let theirs = unsafe { check_size(pointer) }?;
    let ours = size_of::<T>();
    // SAFETY: S34: bytes past the known ones, up to the caller's size.
    let beyond = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), theirs) };
    if let Some(at) = beyond.iter().skip(ours).position(|byte| *byte != 0) {
        let said = format!(
            "the options of {theirs} bytes have something set at byte {}, of which this library, \
             which knows {ours}, knows nothing: use a newer one, or leave it zero",
            ours + at
        );
        return Err(Failure::new(libc::E2BIG, said));
    }
    let mut known = MaybeUninit::<T>::zeroed();
    // SAFETY: S34: no more than either has, and the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            pointer.cast::<u8>(),
            known.as_mut_ptr().cast::<u8>(),
            theirs.min(ours),
        );
    }
    // SAFETY: S34: any bytes are a valid value.
    Ok(unsafe { known.assume_init() })
}

/// Writes as much of a structure as the caller knows, and zeros after the known fields. Keeps the
/// caller's size.
///
/// # Safety
/// The stated number of bytes is there for the time of the call, exclusively for this function.
pub(crate) unsafe fn put_sized<T: Growing>(pointer: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: S34: both functions have the same contract.
    let theirs = unsafe { check_size(pointer) }?;
    // SAFETY: S34: the caller's bytes, exclusively here, possibly uninitialised.
    let target =
        unsafe { std::slice::from_raw_parts_mut(pointer.cast::<MaybeUninit<u8>>(), theirs) };
    let ours = (&raw const value).cast::<MaybeUninit<u8>>();
    // SAFETY: S34: a value has as many bytes as its type, without padding.
    let known = unsafe { std::slice::from_raw_parts(ours, size_of::<T>()) };
    let target = &mut target[size_of::<usize>()..];
    let known = &known[size_of::<usize>()..];
    let nr = known.len().min(target.len());
    target[..nr].copy_from_slice(&known[..nr]);
    target[nr..].fill(MaybeUninit::new(0));
    Ok(())
}

/// Returns the structure's stated size, if valid.
///
/// # Safety
/// Null, or a structure with a readable size.
unsafe fn check_size<T: Growing>(pointer: *const T) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid("the structure is NULL"));
    }
    // SAFETY: S34: the structure begins with its size.
    let size = unsafe { *pointer.cast::<usize>() };
    // More than a page is uninitialised memory.
    if size < T::FIRST_BYTES || size > 4096 {
        return Err(Failure::invalid(format!(
            "the structure's size is {size}: set it to sizeof, {} here",
            size_of::<T>()
        )));
    }
    Ok(size)
}
