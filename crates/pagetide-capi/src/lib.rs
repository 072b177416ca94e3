//! The C interface of Pagetide, declared in `pagetide.h`.
//!
//! **Problem.** C and C++ programs need the page cache of the Rust library behind a stable
//! interface.
//!
//! **Idea.** Each function converts C's arguments, calls the library, and converts the result.
//! cbindgen makes the header of these files, and a test compares.
//!
//! ```text
//!   C --> cache, steer, file, page, group, region, policy   one function per call
//!            |-> arguments    pointers, text, sizes: not checked by types
//!            '-> door         the FFI guard: panics and errors become numbers and a message
//! ```
//!
//! **Data and invariants.** A handle is a box that C owns. `Option<&T>` is a pointer that may be
//! null, and `MaybeUninit` memory that C has not written. All other duties of C are on the header's
//! first page, and in S34 of docs/soundness.md.
//!
//! **Ignored.** Custom stores, the frame allocator, and records, which only Rust has.
#![expect(unsafe_code, reason = "each function of it takes C's arguments")]
#![expect(non_camel_case_types, reason = "they are C's names")]
#![expect(clippy::missing_safety_doc, reason = "the first page of the header says it for all")]

mod arguments;
pub mod cache;
pub mod door;
pub mod file;
pub mod group;
pub mod page;
pub mod policy;
pub mod region;
pub mod steer;
