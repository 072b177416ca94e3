//! Slices of a Python buffer's bytes.
#![expect(unsafe_code, reason = "the protocol says where the bytes are by an address")]

use pyo3::buffer::PyUntypedBuffer;
use std::ptr::NonNull;
use std::slice;

/// Returns all bytes of a contiguous buffer.
pub(super) fn bytes_of(buffer: &PyUntypedBuffer) -> &[u8] {
    let start = start_of(buffer);
    // SAFETY: S40: the exporter keeps that many bytes at this address while the buffer is held.
    unsafe { slice::from_raw_parts(start.as_ptr(), buffer.len_bytes()) }
}

/// Returns all bytes of a writable contiguous buffer.
pub(super) fn bytes_of_mut(buffer: &mut PyUntypedBuffer) -> &mut [u8] {
    let start = start_of(buffer);
    // SAFETY: S40: as above, and the exporter has declared them writable.
    unsafe { slice::from_raw_parts_mut(start.as_ptr(), buffer.len_bytes()) }
}

/// The address of an empty buffer may be null.
fn start_of(buffer: &PyUntypedBuffer) -> NonNull<u8> {
    NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling())
}
