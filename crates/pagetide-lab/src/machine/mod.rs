//! A virtual machine: many CPUs, in virtual time, over core's own page allocator.
//!
//! # Problem
//!
//! What a lock costs shows on machines with tens of CPUs, which few have, and never twice the same.
//!
//! # Idea
//!
//! Core's allocator does not know whether its caller's CPU exists. So the CPUs are virtual, their
//! clock is a number, the locks around core are queues, and everything has a price:
//!
//! ```text
//!   workloads (workload.rs)     want: alloc, free, compute, send, sleep, device
//!        |
//!   tasks (task.rs) ------> engine/ --------> agenda (clock.rs): what is next, and when
//!        |                     |
//!        |        locks (lock.rs), devices (device.rs), prices (costs.rs)
//!        v                     v
//!   memory.rs: the seam's calls, one by one --------> pagetide_core::page_alloc, as it ships
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `clock` | nanoseconds and the agenda |
//! | `lock`, `device`, `costs` | what makes CPUs wait |
//! | `workload`, `task` | what programs want, and how far they are |
//! | `memory`, `engine` | core's calls between the locks; the loop |
//! | `meter` | what is counted |
//! | `pcp` | the workloads of the per-CPU lists' tunings, and their table |
//!
//! # Data and invariants
//!
//! The same configuration and seed give the same counters to the last nanosecond. Time never goes
//! back. Locks are granted in the order asked. Pages in use + free + on lists = managed, always.
//!
//! # What it deliberately ignores
//!
//! Whatever has no price in [`Costs`]: memory bandwidth, other caches than a lock's line, sockets
//! and nodes, interrupts, preemption, reclaim. Only ratios between runs of one machine mean
//! something.
//!
//! # Sources
//!
//! The page allocator specification, section 3, for the order of locks and calls; prices in
//! [`Costs::HOST`].

mod clock;
mod costs;
mod device;
mod engine;
mod lock;
mod memory;
mod meter;
pub mod pcp;
mod task;
mod workload;

pub use crate::random::Random;
pub use clock::{Agenda, Nanos};
pub use costs::{CostError, Costs, Price};
pub use device::{Device, DeviceId};
pub use engine::{Machine, MachineConfig, MachineError, QUANTUM};
pub use lock::{Asker, FifoLock};
pub use meter::{Measured, Sample};
pub use workload::{End, INBOX_PAGES_MAX, TaskId, View, Want, Workload};
