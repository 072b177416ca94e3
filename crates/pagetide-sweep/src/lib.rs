//! Sweeps: many traces by policies by sizes. Only missing cells are replayed.
//!
//! Problem: an evaluation of thousands of traces is interrupted, gains a policy, and runs on
//! several machines. Idea: a unit of work is one trace, read once for all its cells. Each answer is
//! a line of a journal, keyed by the trace's content and the cell. The table is made of the journal
//! at the end.
//!
//! ```text
//!   traces x question --> units --crew--> load, cell, cell, ... --> journal (lines of JSON)
//!      |                                                              |
//!      `--------------- rows to include, their names ------------> table --> Parquet, summary
//! ```
//!
//! The command and the Python package share this crate, and can continue each other's sweeps.
//!
//! Ignored: engines that spread units over machines. They call [`run_unit`] and return the lines,
//! or take one [`Shard`] each and share a folder.
#![forbid(unsafe_code)]

mod content;
mod crew;
mod journal;
mod parquet;
mod question;
mod reading;
mod room;
mod row;
mod summary;
mod sweep;
mod table;

pub use content::{Content, stamp_of};
pub use crew::{Watch, run_cells};
pub use journal::{Journal, JournalError};
pub use parquet::{WriteTableError, write_table};
pub use question::{BadShard, BadSize, MemorySize, Question, Shard};
pub use reading::{ReadTraceError, Reading, read_entries, read_whole};
pub use room::read_memory_available;
pub use row::{Numbers, Row};
pub use summary::{Standing, summarize};
pub use sweep::{Source, Sweep, run_unit};
pub use table::{TableRow, table_of};
