//! How Pagetide acts on Linux: frame memory, page words, files, io_uring.
//!
//! Everything unsafe in the project is here, behind safe functions. Each unsafe block cites a line
//! `S1`..`Sn` of `docs/soundness.md`. What is decided elsewhere may be wrong, never dangerous: a
//! frame handed out twice is a refused [claim](FrameArena::claim), a wrong eviction a refused
//! [lock](Lock::try_claim).
//!
//! ```text
//!   FrameArena      all managed memory, reserved once        arena
//!   PageTable       page index -> page word, per mapping     table, word
//!   ReadTicket, Pin, Lock    the ways to touch a frame       token, wait
//!   RegionMemory    an address range given away, faults    region, uffd
//!   StoreFile, AlignedBuf    a file's bytes, in and out      file, aligned
//!   IoQueue         many of those at once                    ring
//!   TryLock         a value per CPU                        try_lock
//!   Lease           hearing of every other opener of a file  lease
//!   current_cpu, read_*      where, how long, how much       cpu, cpu_cache
//!   keep_freed_memory        tables one after the other      heap
//!   read_nodes               fast and slow memory            numa
//! ```
//!
//! # The contract, for all of it
//!
//! - Frames are one base page (4096 bytes), numbered from 0 in their arena. Offsets and lengths
//!   are bytes.
//! - Every function may be called from any thread, at any time, in any order; nothing needs `init`.
//! - Functions named `try_*`, and tickets, never wait. `lock` and `wait_while_locked` may sleep.
//! - Tokens (`Pin`, `Lock`, `ClaimedFrame`) are unique and give their right back on drop, except
//!   `ClaimedFrame`, which must be given to [`FrameArena::release`] or to a page.
//! - A panic here is a programmer's mistake (a frame of another arena, an offset past the frame);
//!   it leaves every token usable.
//! - Not inside: which page to evict, which frame to use, when to read ahead.

mod aligned;
mod arena;
mod copy;
mod cpu;
mod cpu_cache;
pub mod device;
#[cfg(not(loom))]
mod file;
mod heap;
pub mod huge_buffer;
pub mod kernel_cache;
#[cfg(not(any(miri, loom)))]
pub mod lease;
#[cfg(not(any(miri, loom)))]
mod mapped;
mod memory;
pub mod numa;
#[cfg(not(any(miri, loom)))]
mod region;
#[cfg(any(miri, loom))]
#[path = "region/none.rs"]
mod region;
#[cfg(not(any(miri, loom)))]
pub mod rights;
#[cfg(not(loom))]
mod ring;
#[cfg(not(any(miri, loom)))]
pub mod sentinel;
#[cfg(not(any(miri, loom)))]
pub mod shared;
#[cfg(not(any(miri, loom)))]
mod signals;
mod sync;
mod table;
mod token;
#[cfg(not(any(miri, loom)))]
pub mod tray;
mod try_lock;
#[cfg(not(any(miri, loom)))]
mod uffd;
mod wait;
mod word;

pub use aligned::AlignedBuf;
pub use arena::{
    ArenaOptions, ClaimError, ClaimedFrame, FrameArena, NR_FRAMES_MAX, Placement, ReserveError,
};
pub use cpu::{
    current_cpu, fetch, fetch_line, fetch_to_write, read_monotonic_ns, read_nr_cpus_possible,
    read_self_anonymous_bytes, read_self_resident_bytes, read_thread_cpu_time_ns,
    read_total_memory, run_behind_others,
};
pub use cpu_cache::read_cache_slice;
#[cfg(not(loom))]
pub use file::{Fingerprint, Look, OpenStoreError, StoreError, StoreFile, StoreOptions};
pub use heap::keep_freed_memory;
#[cfg(not(any(miri, loom)))]
pub use region::{REGION_PAGES_MAX, RegionError};
pub use region::{RegionMemory, UserAccess};
#[cfg(not(loom))]
pub use ring::{Completion, DEPTH_MAX, IoQueue};
pub use table::{LeafRef, PAGES_MAX, PageRef, PageTable, UnmapBatch, WordRef};
pub use token::{Claim, Lock, PageHandle, Pin};
pub use try_lock::{TryGuard, TryLock};
#[cfg(not(any(miri, loom)))]
pub use uffd::{Fault, FaultKind, UffdError, UffdFeatures, UffdSource};
pub use word::{LockRefused, PAYLOAD_BITS, PINS_MAX, PinRefused, ReadTicket, Snapshot, Touch};

#[cfg(all(test, not(loom), not(miri)))]
mod hammer_tests;
#[cfg(all(test, loom))]
mod loom_move_tests;
#[cfg(all(test, loom))]
mod loom_tests;
