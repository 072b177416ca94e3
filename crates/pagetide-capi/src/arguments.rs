//! C's arguments as Rust's: what no type can check.
//!
//! Each takes the caller's word, as the header asks for it (S34), for what a pointer points to, and
//! checks the rest: null, UTF-8, lengths that no memory has, sizes of structures.

use crate::door::Failure;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A structure that starts with its size, is all integers and pointers, and grows at its end.
///
/// # Safety
/// `repr(C)`, its first field a `usize`, any bytes a value of it, and no padding.
pub(crate) unsafe trait Growing: Copy {
    /// Its size when it was first published: less is a mistake.
    const FIRST_BYTES: usize;
}

/// What a pointer that may not be null points to.
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

/// Text, which may not be null.
///
/// # Safety
/// As the header asks for text.
pub(crate) unsafe fn text<'a>(
    pointer: *const c_char,
    name: &'static str,
) -> Result<&'a str, Failure> {
    // SAFETY: S34: this function's contract is that one's.
    let text = unsafe { text_or_none(pointer, name) }?;
    given(text, name)
}

/// Text, or null.
///
/// # Safety
/// As the header asks for text.
pub(crate) unsafe fn text_or_none<'a>(
    pointer: *const c_char,
    name: &'static str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: S34: not null, so it is text that is there for the time of the call.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|error| Failure::invalid(format!("{name} is no UTF-8: {error}")))
}

/// A path, which may be of any bytes; or null.
///
/// # Safety
/// As the header asks for text.
pub(crate) unsafe fn path_or_none<'a>(pointer: *const c_char) -> Option<&'a Path> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: S34: not null, so it is text that is there for the time of the call.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)))
}

/// A list of texts that ends with a null; null is an empty one.
///
/// # Safety
/// As the header asks for text, each of them.
pub(crate) unsafe fn texts<'a>(
    mut pointer: *const *const c_char,
    name: &'static str,
) -> Result<Vec<&'a str>, Failure> {
    let mut all = Vec::new();
    while !pointer.is_null() {
        // SAFETY: S34: the list goes on up to a null, which was not yet seen.
        let one = unsafe { *pointer };
        // SAFETY: S34: this function's contract is that one's.
        let Some(text) = (unsafe { text_or_none(one, name) })? else { break };
        all.push(text);
        // SAFETY: S34: there is a null after what is not one.
        pointer = unsafe { pointer.add(1) };
    }
    Ok(all)
}

/// Bytes to be read.
///
/// # Safety
/// `len` bytes are there, and none of them changes, for the time of the call.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check_buffer(pointer, len)?;
    // SAFETY: S34: not null, no longer than memory can be, and the caller's for the call.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

/// Bytes to be written.
///
/// # Safety
/// `len` bytes are there for the time of the call, and no other code looks at them.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut c_void,
    len: usize,
) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_buffer(pointer, len)?;
    // SAFETY: S34: not null, no longer than memory can be, and the caller's for the call.
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

/// A structure of options, as long as the caller knows it: what it does not know is zero.
///
/// # Safety
/// As many bytes as the structure says are there, for the time of the call.
pub(crate) unsafe fn options<T: Growing>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: S34: this function's contract is that one's.
    let theirs = unsafe { check_size(pointer) }?;
    let ours = size_of::<T>();
    // SAFETY: S34: bytes past ours, up to the size that the caller has set.
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
    // SAFETY: S34: no more than either has, and ours is apart from the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(
            pointer.cast::<u8>(),
            known.as_mut_ptr().cast::<u8>(),
            theirs.min(ours),
        );
    }
    // SAFETY: S34: any bytes are a value of it.
    Ok(unsafe { known.assume_init() })
}

/// Writes a structure of numbers, as much of it as the caller knows, and zeros in what we do not.
/// The size stays as the caller has set it.
///
/// # Safety
/// As many bytes as the structure says are there, for the time of the call, for us alone.
pub(crate) unsafe fn put_sized<T: Growing>(pointer: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: S34: this function's contract is that one's.
    let theirs = unsafe { check_size(pointer) }?;
    // SAFETY: S34: the caller's bytes, for us alone; what was written there may be anything.
    let target =
        unsafe { std::slice::from_raw_parts_mut(pointer.cast::<MaybeUninit<u8>>(), theirs) };
    let ours = (&raw const value).cast::<MaybeUninit<u8>>();
    // SAFETY: S34: a value has as many bytes as its type, none of them padding.
    let known = unsafe { std::slice::from_raw_parts(ours, size_of::<T>()) };
    let target = &mut target[size_of::<usize>()..];
    let known = &known[size_of::<usize>()..];
    let nr = known.len().min(target.len());
    target[..nr].copy_from_slice(&known[..nr]);
    target[nr..].fill(MaybeUninit::new(0));
    Ok(())
}

/// The size that a structure says it has, if it can be one.
///
/// # Safety
/// Null, or a structure whose size can be read.
unsafe fn check_size<T: Growing>(pointer: *const T) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid("the structure is NULL"));
    }
    // SAFETY: S34: it begins with its size.
    let size = unsafe { *pointer.cast::<usize>() };
    // More than a page is memory that was never set.
    if size < T::FIRST_BYTES || size > 4096 {
        return Err(Failure::invalid(format!(
            "the structure's size is {size}: set it to sizeof, {} here",
            size_of::<T>()
        )));
    }
    Ok(size)
}
