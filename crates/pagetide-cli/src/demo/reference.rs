//! The kernel's page cache beside which the demo plays: its lists and its readahead.
//!
//! Both differ between machines, and both decide the kernel's figures.
//!
//! Source: Linux Documentation/admin-guide/mm/multigen_lru.rst, "enabled".

use crate::machine::rounded;
use pagetide_core::units::Bytes;
use serde::Serialize;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Usual readahead of a disk on Linux.
const USUAL_READAHEAD: Bytes = Bytes(128 << 10);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Reference {
    kernel_lru: KernelLru,
    /// Maximum readahead of the disk with the demo's files, if the kernel tells it.
    kernel_readahead_bytes: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum KernelLru {
    MultiGenerational,
    TwoLists,
}

impl Reference {
    pub(super) fn read(dir: &Path) -> Reference {
        let enabled = std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled");
        let device = std::fs::metadata(dir).ok().map(|folder| folder.dev());
        Reference {
            kernel_lru: KernelLru::of(&enabled.unwrap_or_default()),
            kernel_readahead_bytes: device
                .and_then(pagetide_sys::device::read_ahead_of)
                .map(|bytes| bytes.0),
        }
    }
}

impl KernelLru {
    /// Returns the lists of a kernel with this text in `lru_gen/enabled`, a bit mask.
    fn of(enabled: &str) -> KernelLru {
        let mask = u64::from_str_radix(enabled.trim().trim_start_matches("0x"), 16);
        match mask.is_ok_and(|mask| mask & 1 != 0) {
            true => KernelLru::MultiGenerational,
            false => KernelLru::TwoLists,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.kernel_lru {
            KernelLru::MultiGenerational => "linux: the kernel's multi-generational LRU",
            KernelLru::TwoLists => "linux: the kernel's two LRU lists",
        })?;
        let Some(bytes) = self.kernel_readahead_bytes else {
            return out.write_str(", with a readahead that the kernel does not tell");
        };
        write!(out, ", with a readahead of {}", rounded(bytes))?;
        if bytes > USUAL_READAHEAD.0 {
            let usual = rounded(USUAL_READAHEAD.0);
            write!(out, " (usual: {usual}; a long one slows random reads of mapped files)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_tells_which_lists_the_kernel_uses() {
        for (text, lru) in [
            ("0x0007\n", KernelLru::MultiGenerational),
            ("0x0006\n", KernelLru::TwoLists),
            ("0x0000\n", KernelLru::TwoLists),
            ("", KernelLru::TwoLists),
        ] {
            assert_eq!(KernelLru::of(text), lru, "{text:?}");
        }
    }

    #[test]
    fn a_long_readahead_is_told_beside_the_usual_one() {
        let told = |bytes| {
            let (kernel_lru, kernel_readahead_bytes) = (KernelLru::TwoLists, bytes);
            Reference { kernel_lru, kernel_readahead_bytes }.to_string()
        };
        assert!(told(Some(8 << 20)).contains("8.0 MiB (usual: 128.0 KiB"));
        assert!(told(Some(128 << 10)).ends_with("a readahead of 128.0 KiB"));
        assert!(told(None).contains("does not tell"));
    }
}
