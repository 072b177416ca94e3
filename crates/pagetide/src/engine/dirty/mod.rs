//! Which pages are dirty, and the brake on writers.
//!
//! A mapping keeps its dirty pages in order, with the bytes that were written, so that write-back
//! goes through the file front to back and joins neighbours. The folio's dirty flag is the truth;
//! the index is how the flusher finds it. A page enters the index and leaves it together with its
//! flag, while it is locked or pinned.
//!
//! | file | what |
//! |---|---|
//! | `index` | the dirty pages of one mapping |
//! | `page_set` | those of a region, whose faults must not allocate |
//! | `brake` | how much is dirty in all, and what waits for it to be less |

mod brake;
mod index;
mod page_set;

pub(crate) use brake::DirtyPages;
pub(crate) use index::DirtyIndex;
