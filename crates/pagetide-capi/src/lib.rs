//! The C door to Pagetide: what `pagetide.h` declares.
//!
//! **Problem.** Engines in C and C++ want the page cache that Rust programs link, with the same
//! limit, policies, counters and errors, behind an interface that stays the same.
//!
//! **Idea.** A function here takes C's arguments for Rust's, calls the library, and gives the
//! answer back; nothing else. The header is made of these files by cbindgen, and a test compares.
//!
//! ```text
//!   C --> cache, steer, file, page, group, region     one function a call
//!            |-> arguments    pointers, text, sizes: all that is not checked by a type
//!            '-> door         panics end here; errors become numbers and a sentence
//! ```
//!
//! **Data and invariants.** A handle is a box that C owns. `Option<&T>` is a pointer that may be
//! null, `MaybeUninit` one to memory that C has not written. What else is asked of C is on the
//! first page of the header, and S34 of docs/soundness.md.
//!
//! **Ignored.** Stores of the caller's, the frame allocator, records: they are Rust's alone so far.
#![expect(unsafe_code, reason = "each function of it takes C's arguments")]
#![expect(non_camel_case_types, reason = "they are C's names")]
#![expect(clippy::missing_safety_doc, reason = "the first page of the header says it for all")]

mod arguments;
pub mod cache;
pub mod door;
pub mod file;
pub mod group;
pub mod page;
pub mod region;
pub mod steer;
