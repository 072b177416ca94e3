//! A program under a memory limit: the server of its file I/O.
//!
//! [`wire`] is what the server and the library inside the program say to each other; all else is
//! the server's end.

pub mod wire;
