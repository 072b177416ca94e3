//! A virtual machine: many CPUs in virtual time over core's page allocator.
//!
//! # Problem
//!
//! The cost of a lock shows only on machines with tens of CPUs, and varies between runs.
//!
//! # Idea
//!
//! Core's allocator does not know if its CPUs are real. So the CPUs are virtual, the clock is a
//! number, the locks are queues, and everything has a price:
//!
//! ```text
//!   workloads (workload.rs)     requests: alloc, free, compute, send, sleep, device
//!        |
//!   tasks (task.rs) ------> engine/ --------> agenda (clock.rs): the next event, and its time
//!        |                     |
//!        |        locks (lock.rs), devices (device.rs), prices (costs.rs)
//!        v                     v
//!   memory.rs: the seam's calls, one by one --------> pagetide_core::page_alloc, as it ships
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `clock` | nanoseconds and the agenda |
//! | `lock`, `device`, `costs` | causes of waiting |
//! | `workload`, `task` | requests of programs, and their progress |
//! | `memory`, `engine` | core's calls between the locks; the loop |
//! | `meter` | counters |
//! | `pcp` | workloads of the per-CPU lists, and their table |
//!
//! # Data and invariants
//!
//! The same configuration and seed give the same counters. Time never goes back. Locks are granted
//! in order. Pages in use + free + on lists = managed, always.
//!
//! # What it deliberately ignores
//!
//! Everything without a price in [`Costs`]: memory bandwidth, caches beyond a lock's line, sockets
//! and nodes, interrupts, preemption, reclaim. Compare only runs of one machine, by ratio.
//!
//! # Sources
//!
//! Order of locks and calls: Linux 6.18's page allocator. Prices: [`Costs::HOST`].

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
