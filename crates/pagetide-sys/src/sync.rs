//! Selects the standard library's atomics and locks, or loom's models.
//!
//! All synchronization of this crate uses these types, so `--cfg loom` explores the shipped code.

#[cfg(loom)]
use loom as world;
#[cfg(not(loom))]
use std as world;

pub(crate) use world::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};

/// For counters outside the protocols, which may live in a `static` and are invisible to loom.
pub(crate) use std::sync::atomic::AtomicU32 as PlainAtomicU32;
