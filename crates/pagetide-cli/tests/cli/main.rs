//! Tests that run the command as a process and check exit codes and output.

mod ablate;
mod bench;
mod claims;
mod ctl;
mod demo;
mod documents;
mod dump;
mod equal_questions;
mod explain;
mod lab;
mod mrc;
mod pictures;
mod record;
mod recorded;
mod run;
mod schema;
mod sweep;
mod tier;
mod trace;
mod usage;
