//! Sweeps: many traces by policies by sizes, of which only what is missing is replayed.
//!
//! Problem: an evaluation of thousands of traces is interrupted, gains a policy, and has more than
//! one machine. Idea: a unit of work is one trace, read once for all that is asked of it; each
//! answer is a line of a journal, keyed by what the trace holds and what was asked; the table is
//! made of the journal at the end.
//!
//! ```text
//!   traces x question --> units --crew--> load, cell, cell, ... --> journal (lines of JSON)
//!      |                                                              |
//!      `--------------- which rows, under which names ----------> table --> Parquet, summary
//! ```
//!
//! The command and the Python door share it: a sweep that one began, the other goes on with.
//!
//! Ignored: engines that spread units over machines. They call [`run_unit`] and bring the lines
//! back, or take a [`Shard`] each and share a folder.
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
