//! Published policies to measure against, each a short file that names its paper and when not to
//! use it.

mod clock;
mod fifo;
mod lru;
mod queue;

pub use clock::{Clock, ClockRule};
pub use fifo::{Fifo, FifoRule};
pub use lru::{Lru, LruRule};
pub use queue::{Queue, QueueCursor, QueueRule};
