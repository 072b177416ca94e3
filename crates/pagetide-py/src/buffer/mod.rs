//! The bytes of Python objects: bytes, arrays, memoryviews.
//!
//! A region's memory goes through a private buffer: a touch may fault, and the fault may wait
//! for locks of the reading or writing thread.

mod ffi;

use crate::process::is_in_region;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::convert::Infallible;

/// Bytes per copy through the private buffer.
const PART_BYTES: usize = 256 << 10;

/// A source of bytes.
pub(crate) struct Source(PyUntypedBuffer);

/// A target of bytes.
pub(crate) struct Target(PyUntypedBuffer);

impl Source {
    /// # Errors
    /// Fails with `TypeError` without bytes, and with `BufferError` if they are not contiguous.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Source> {
        contiguous(object).map(Source)
    }

    /// Passes all bytes to `write`, in parts, from `offset`. Returns the number of bytes written.
    pub(crate) fn drain<E>(
        &self,
        offset: u64,
        mut write: impl FnMut(&[u8], u64) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let bytes = ffi::bytes_of(&self.0);
        if !is_in_region(bytes) {
            return write(bytes, offset);
        }
        let mut done = 0;
        let mut copy = Vec::with_capacity(bytes.len().min(PART_BYTES));
        for part in bytes.chunks(PART_BYTES) {
            copy.clear();
            copy.extend_from_slice(part);
            done += write(&copy, offset + done as u64)?;
        }
        Ok(done)
    }
}

impl Target {
    /// # Errors
    /// Fails with `TypeError` without writable bytes, and with `BufferError` if they are not
    /// contiguous.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Target> {
        let buffer = contiguous(object)?;
        if buffer.readonly() {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("{name} cannot be written to")));
        }
        Ok(Target(buffer))
    }

    /// Fills the target by `read`, in parts, from `offset`. Returns the number of bytes, fewer only
    /// at the end.
    pub(crate) fn fill<E>(
        &mut self,
        offset: u64,
        mut read: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let bytes = ffi::bytes_of_mut(&mut self.0);
        if !is_in_region(bytes) {
            return read(bytes, offset);
        }
        let mut done = 0;
        let mut copy = vec![0; bytes.len().min(PART_BYTES)];
        for part in bytes.chunks_mut(PART_BYTES) {
            let nr_read = read(&mut copy[..part.len()], offset + done as u64)?;
            part[..nr_read].copy_from_slice(&copy[..nr_read]);
            done += nr_read;
            if nr_read < part.len() {
                break;
            }
        }
        Ok(done)
    }
}

pub(crate) fn bytes(array: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut all = Vec::new();
    let copied = Source::of(array)?.drain(0, |part, _| {
        all.extend_from_slice(part);
        Ok::<_, Infallible>(part.len())
    });
    copied.map(|_| all).map_err(|never| match never {})
}

/// Copies a buffer of 64-bit elements.
pub(crate) fn words(array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let bytes = bytes(array)?;
    let (words, left) = bytes.as_chunks::<8>();
    if !left.is_empty() {
        return Err(PyValueError::new_err("an array whose elements are not of 64 bits"));
    }
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the bytes are not in one piece, in C's order"));
    }
    Ok(buffer)
}
