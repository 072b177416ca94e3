//! The Python interface: files and arrays of Pagetide, as the package `pagetide`.
//!
//! ```text
//!   python/pagetide/   public names: docstrings, dataclasses, numpy
//!          |
//!   _pagetide          this crate: cache, file, region; lab: replays, curves, sweeps
//!          |              buffer   the bytes of Python's buffers
//!          |              pinned   bytes of a file that stay in memory
//!          |              overlay  changes of a file that reach no file with a name
//!          |              process  what a fork leaves behind
//!          |              errors   Rust's errors as Python's
//!   pagetide, pagetide-sweep
//! ```
//!
//! Only types, errors and documentation. Blocking calls run detached from the interpreter, so that
//! other Python threads run. No lock of this crate is taken both attached and detached.
//!
//! Unsafe code is in three small files, each called `ffi.rs`.
//!
//! Ignored: interpreters without a global lock, and PyPy.

mod buffer;
mod cache;
mod call;
mod errors;
mod file;
mod lab;
mod overlay;
mod pinned;
mod policy;
mod process;
mod region;
mod sizes;

/// The compiled half of the package `pagetide`.
#[pyo3::pymodule]
mod _pagetide {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::lab::{frames_of, in_shard, mrc, read_pages, replay, run_unit};
    #[pymodule_export]
    use crate::policy::{RawPolicy, policy_key};
    #[pymodule_export]
    use crate::process::fail_at_exit;
    #[pymodule_export]
    use crate::{cache::Cache, file::RawFile, lab::Plan, pinned::Pinned, region::PyRegion};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::process::watch_forks()?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("PAGE_BYTES", pagetide::PAGE_BYTES)
    }
}
