//! Compares the capabilities of another process with this process's.
//!
//! This process must not do anything for it that the kernel would refuse (root in a sandbox).
//!
//! **Ignored.** Landlock and seccomp restrictions, which the kernel does not report.
//!
//! Source: Linux man pages capget(2), capabilities(7).

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// Half of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Returns true if process `pid` has every effective capability of this process, false if unknown.
pub fn has_ours(pid: i32) -> bool {
    match (effective_of(0), effective_of(pid)) {
        (Some(0), _) => true,
        (Some(ours), Some(theirs)) => ours & !theirs == 0,
        _ => false,
    }
}

/// `pid` 0 is this process.
fn effective_of(pid: i32) -> Option<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION_3, pid };
    let mut halves = [Sets::default(); 2];
    // SAFETY: S9 (live values): a header, and room for version 3's two halves.
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
