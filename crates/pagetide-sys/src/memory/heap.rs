//! Tunes the program's heap for large tables that are filled in turn.
//!
//! Problem: the C library returns freed tables to the system, and the next table faults on every
//! page: a tenth of the time of a replay. Idea: keep freed memory. Ignored: C libraries other than
//! GNU's.
//!
//! Source: mallopt(3).

/// Keeps freed memory in the program, in one arena for all threads. Returns true if the C library
/// agreed.
///
/// For programs that free as much as they allocate next. Call it before the first large table.
pub fn keep_freed_memory() -> bool {
    #[cfg(target_env = "gnu")]
    {
        /// The library's maximum.
        const MMAP_BYTES_MIN: i32 = 32 << 20;
        let wanted = [
            (libc::M_ARENA_MAX, 1),
            (libc::M_MMAP_THRESHOLD, MMAP_BYTES_MIN),
            (libc::M_TRIM_THRESHOLD, i32::MAX),
        ];
        // SAFETY: S9 (a call without pointers).
        wanted.into_iter().all(|(parameter, value)| unsafe { libc::mallopt(parameter, value) } == 1)
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_agrees_where_it_is_asked() {
        assert_eq!(keep_freed_memory(), cfg!(target_env = "gnu"));
    }
}
