//! Every trace reader on any bytes: it reads on or ends in order, and never panics.
//!
//! The first byte chooses the format (or leaves it to detection), and whether malformed lines are
//! skipped; the rest is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagetide_lab::trace::{Format, Trace};
use std::io::Cursor;

/// Accesses read: a request may be of many pages, and they are all alike.
const ACCESSES_MAX: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, file)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(choice >> 1)).copied();
    let Ok(mut trace) = Trace::from_reader(Cursor::new(file.to_vec()), "fuzz", format) else {
        return;
    };
    if choice & 1 == 1 {
        trace.skip_malformed();
    }
    let nr_errors = trace.by_ref().take(ACCESSES_MAX).filter(Result::is_err).count();
    assert!(nr_errors <= 1, "a trace ends after its first error");
});
