//! Dirty pages, and back-pressure on writers.
//!
//! A mapping keeps its dirty pages in order, so that write-back goes front to back and joins
//! neighbours. The folio's dirty flag is authoritative. The index changes together with the flag,
//! under the page's lock or pin.
//!
//! | file | concern |
//! |---|---|
//! | `index` | the dirty pages of one mapping |
//! | `page_set` | the dirty pages of a region, inserted without allocating |
//! | `brake` | the total, and writers that wait |

mod brake;
mod index;
mod page_set;

pub(crate) use brake::DirtyPages;
pub(crate) use index::DirtyIndex;
