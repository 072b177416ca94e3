//! Slices of the bytes that a buffer of Python's has.
#![expect(unsafe_code, reason = "the protocol says where the bytes are by an address")]

use pyo3::buffer::PyUntypedBuffer;
use std::ptr::NonNull;
use std::slice;

/// All bytes of a buffer that is in one piece.
pub(super) fn bytes_of(buffer: &PyUntypedBuffer) -> &[u8] {
    let start = start_of(buffer);
    // SAFETY: S40: the exporter keeps so many bytes at this address while the buffer is held.
    unsafe { slice::from_raw_parts(start.as_ptr(), buffer.len_bytes()) }
}

/// The same, for a buffer that may be written.
pub(super) fn bytes_of_mut(buffer: &mut PyUntypedBuffer) -> &mut [u8] {
    let start = start_of(buffer);
    // SAFETY: S40: as above, and the exporter has said that they may be written.
    unsafe { slice::from_raw_parts_mut(start.as_ptr(), buffer.len_bytes()) }
}

/// The address of an empty buffer may be null.
fn start_of(buffer: &PyUntypedBuffer) -> NonNull<u8> {
    NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling())
}
