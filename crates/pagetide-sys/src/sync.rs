//! The switch between the standard library's atomics and locks and loom's model of them.
//!
//! Everything in this crate that two threads may meet in takes its types from here, so that the
//! code explored under `--cfg loom` is the code that ships.

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

/// For counters that are no part of a protocol, and may live in a `static`: outside loom's view.
pub(crate) use std::sync::atomic::AtomicU32 as PlainAtomicU32;
