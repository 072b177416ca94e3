//! The program's heap, for programs that fill large tables one after the other.
//!
//! Problem: the C library gives a large table back to the system when it is freed, and the next one
//! begins with a page fault for every 4096 bytes: a replay of a million accesses spent a tenth of
//! its time on them. Idea: keep what is freed, so that a table is made of memory that is there.
//!
//! Ignored: other C libraries than GNU's, which keep what they like.
//!
//! Source: mallopt(3).

/// From now on memory that is freed stays with the program, and one thread's serves all. Returns
/// whether the C library agreed; nothing depends on it.
///
/// For programs that free as much as they take next. To be called before the first large table.
pub fn keep_freed_memory() -> bool {
    #[cfg(target_env = "gnu")]
    {
        /// The library takes no larger one.
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
