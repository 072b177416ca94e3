//! `--memory`: a fixed size, or the machine's spare memory.
//!
//! ```text
//!   512M             a fixed limit
//!   auto             from 16 MiB up to the memory of the container, or of the machine
//!   auto:64M-2G      within these bounds
//! ```

use crate::terminal::parse_size;
use pagetide::Builder;
use pagetide_core::units::Bytes;
use pagetide_sys::MemoryRoom;
use std::str::FromStr;

/// The minimum of `auto`.
const LEAST: Bytes = Bytes(16 << 20);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemoryLimit {
    Fixed(Bytes),
    /// The range of a limit that follows the spare memory.
    Auto(Bytes, Bytes),
}

impl MemoryLimit {
    pub(super) fn put(self, builder: Builder) -> Builder {
        match self {
            MemoryLimit::Fixed(memory) => builder.memory(memory),
            MemoryLimit::Auto(least, most) => builder.memory_auto(least, most),
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        match text.strip_prefix("auto") {
            None => parse_size(text).map(MemoryLimit::Fixed),
            Some("") => {
                let total = Bytes(MemoryRoom::find().read().total);
                Ok(MemoryLimit::Auto(LEAST, total.max(LEAST)))
            }
            Some(bounds) => {
                let parts = bounds.strip_prefix(':').and_then(|bounds| bounds.split_once('-'));
                let (least, most) = parts.ok_or("write auto, or its bounds as in auto:64M-2G")?;
                let (least, most) = (parse_size(least)?, parse_size(most)?);
                if least > most {
                    return Err(format!("{least} is more than {most}: the smaller size first"));
                }
                Ok(MemoryLimit::Auto(least, most))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes_or_bounds() {
        let mib = |nr: u64| Bytes(nr << 20);
        assert_eq!("64M".parse(), Ok(MemoryLimit::Fixed(mib(64))));
        assert_eq!("auto:64M-2G".parse(), Ok(MemoryLimit::Auto(mib(64), mib(2048))));
        let auto: MemoryLimit = "auto".parse().expect("this machine has memory");
        assert!(matches!(auto, MemoryLimit::Auto(LEAST, most) if most > LEAST));
        for wrong in ["", "auto:", "auto:64M", "auto:2G-64M", "autos", "auto:x-1G", "64Q"] {
            assert!(wrong.parse::<MemoryLimit>().is_err(), "{wrong}");
        }
    }
}
