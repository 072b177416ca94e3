//! Page faults that the library serves.

pub(crate) mod owned;
pub(crate) mod page_file;
pub(crate) mod page_pipe;
pub(crate) mod region;
pub(crate) mod signal;
pub(crate) mod uffd;
pub(crate) mod watch;
