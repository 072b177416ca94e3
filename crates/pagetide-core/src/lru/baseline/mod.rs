//! Published policies for comparison. Each file names its paper and its weak workloads.

mod access_stack;
mod arc;
mod clock;
mod clock2q_plus;
mod fifo;
mod ghosts;
mod held;
mod lirs;
mod lru;
mod queue;
mod s3fifo;
mod segmented;
mod sieve;
mod sketch;
mod small_queue;
mod two_queue;
mod w_tinylfu;

pub use arc::{Arc, ArcRule};
pub use clock::{Clock, ClockRule};
pub use clock2q_plus::{Clock2QPlus, Clock2QPlusRule};
pub use fifo::{Fifo, FifoRule};
pub use lirs::{Lirs, Lirs2, LirsBy, LirsCursor};
pub use lru::{Lru, LruRule};
pub use queue::{Queue, QueueCursor, QueueRule};
pub use s3fifo::{S3Fifo, S3FifoRule};
pub use segmented::{Ghost, SEGMENTS_MAX, SegmentRule, Segmented, SegmentedCursor, Segments};
pub use sieve::{Sieve, SieveRule};
pub use two_queue::{TwoQueue, TwoQueueRule};
pub use w_tinylfu::{WTinyLfu, WTinyLfuRule};
