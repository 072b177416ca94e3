//! Whether another process may do all that this one may.
//!
//! A process of the same user may have fewer capabilities: root in a sandbox. What it asks this
//! process to do for it must be nothing that the kernel would refuse it.
//!
//! **Ignored.** Landlock and seccomp: the kernel does not tell of another process what they refuse.
//!
//! Source: Linux man pages capget(2), capabilities(7).

/// capget(2)'s header: a version, and whose.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// Half of each set: effective, permitted, inheritable.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Whether process `pid` has every capability that is in effect here; not where it cannot be asked.
pub fn has_ours(pid: i32) -> bool {
    match (effective_of(0), effective_of(pid)) {
        (Some(0), _) => true,
        (Some(ours), Some(theirs)) => ours & !theirs == 0,
        _ => false,
    }
}

/// The capabilities in effect in a process; 0 is this one.
fn effective_of(pid: i32) -> Option<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION_3, pid };
    let mut halves = [Sets::default(); 2];
    // SAFETY: S9 (live values): a header, and room for the two halves that version 3 writes.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    let [low, high] = halves.map(|half| u64::from(half.effective));
    (result == 0).then_some(low | high << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_rights() {
        assert!(has_ours(std::process::id().cast_signed()));
        let ours = effective_of(0).unwrap();
        assert!(!has_ours(-5) || ours == 0, "no such process");
    }
}
