//! The Linux layer of Pagetide: frame memory, page words, files, io_uring.
//!
//! All unsafe code is here, behind safe functions, except for the shims for C, Python and
//! unmodified programs. Each unsafe block cites an invariant `S1`..`Sn` of `docs/soundness.md`. A
//! wrong decision of a caller is never dangerous: a frame handed out twice is a refused
//! [claim](FrameArena::claim), and a wrong eviction is a refused [lock](Lock::try_claim).
//!
//! ```text
//!   io         StoreFile, AlignedBuf, IoQueue: reads and writes of a file's bytes
//!              lease: notice of every other open of a file
//!   page       PageTable: page index -> page word; ReadTicket, Pin, Lock: the ways to touch a page
//!   fault      RegionMemory: an address range for a user, and its page faults
//!   memory     FrameArena: all managed memory, reserved once; the parts that other processes see
//!   machine    processors, nodes, devices, signals, rights; TryLock: a value per CPU
//! ```
//!
//! Each module uses the modules below it. Loom replaces only the atomics of `sync` and the frames'
//! mapping.
//!
//! # The contract of all functions
//!
//! - Frames are one base page (4096 bytes), numbered from 0 in their arena. Offsets and lengths are
//!   bytes.
//! - Functions may be called from any thread, at any time, in any order. There is no `init`.
//! - `try_*` functions and tickets never wait. `lock` and `wait_while_locked` may sleep.
//! - Tokens (`Pin`, `PinnedBytes`, `Lock`, `ClaimedFrame`) are unique and give their right back on
//!   drop, except `ClaimedFrame`, which goes to [`FrameArena::release`] or to a page.
//! - A panic is a programmer's mistake, such as a frame of another arena or an offset past the
//!   frame. Tokens stay usable after a panic.
//! - Not inside: the choice of pages to evict, of frames to use, and of pages to read ahead.
#![expect(unsafe_code, reason = "all of it is here but for the shims")]
#![cfg_attr(
    all(loom, not(test)),
    expect(dead_code, reason = "a model stands in for the frames' mapping")
)]

mod fault;
mod io;
mod machine;
mod memory;
mod page;
mod sync;

#[cfg(feature = "allocator-api2")]
pub use fault::owned::RegionHeap;

pub use bytemuck::Pod;
pub use fault::owned::OwnedMemory;
pub use fault::page_file::{PAGE_FILE_PAGES_MAX, PageFile};
pub use fault::region::{
    BLOCK_PAGES, FaultDelivery, FrameLender, REGION_PAGES_MAX, RegionError, RegionMemory,
    UserAccess,
};
pub use fault::signal::{FaultRegistration, Served, is_serving_fault, serve_faults};
pub use fault::uffd::{Fault, FaultKind, StoreFault, UffdError, UffdFeatures, UffdSource};
pub use fault::watch::FaultWatch;
pub use io::aligned::AlignedBuf;
pub use io::file::{
    Fingerprint, Look, OpenStoreError, StoreError, StoreFile, StoreOptions, read_access,
};
pub use io::ring::{Completion, DEPTH_MAX, IoQueue};
pub use io::{kernel_cache, lease};
pub use machine::cpu::{
    current_cpu, read_monotonic_ns, read_nr_cpus_possible, read_process_cpu_time_ns,
    read_self_anonymous_bytes, read_thread_cpu_time_ns, read_total_memory,
};
pub use machine::cpu_cache::read_cache_slice;
pub use machine::patience::Patience;
pub use machine::prefetch::{fetch, fetch_to_write};
pub use machine::room::{MemoryRoom, SpareMemory};
pub use machine::try_lock::{TryGuard, TryLock};
#[cfg(feature = "run")]
pub use machine::{caught, inherited};
pub use machine::{device, numa, rights, sentinel, signals};
pub use memory::arena::{
    ArenaOptions, ClaimError, ClaimedFrame, FrameArena, NR_FRAMES_MAX, Placement, ReserveError,
};
pub use memory::heap::keep_freed_memory;
pub use memory::kernel_mapping::{KernelMapping, map_by_library};
pub use memory::target::{CopyTarget, Target};
pub use memory::{huge_buffer, miss_ring, shared, window};
pub use page::aging::LookedAt;
pub use page::table::{LeafRef, PAGES_MAX, PageRef, PageTable, WordRef};
pub use page::token::{Claim, Lock, PageHandle, Pin, PinnedBytes, PinnedRun};
pub use page::word::{
    LockRefused, PAYLOAD_BITS, PINS_MAX, PinRefused, ReadTicket, Snapshot, Touch,
};
