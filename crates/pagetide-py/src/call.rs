//! Blocking calls: other Python threads run meanwhile, and a panic becomes an exception.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` detached from the interpreter.
///
/// # Errors
/// Fails with `RuntimeError` if `work` panics, by a bug in Pagetide.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|panic| {
        let what = describe(&*panic);
        PyRuntimeError::new_err(format!("a bug in pagetide, please report it: {what}"))
    })
}

fn describe(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without a message",
    }
}
