//! Bytes, pages, and sizes as typed (`512M`, `4G`, binary).

use core::fmt;
use core::str::FromStr;

/// Bytes in a base page.
pub const PAGE_BYTES: usize = 4096;
/// `log2` of [`PAGE_BYTES`].
pub const PAGE_SHIFT: u32 = 12;

const _: () = assert!(1 << PAGE_SHIFT == PAGE_BYTES);

/// A number of bytes, typed and printed as `512M` = 512 * 2^20.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns the whole base pages, rounded down.
    pub const fn whole_pages(self) -> u64 {
        self.0 >> PAGE_SHIFT
    }

    /// Returns the bytes of `pages` base pages, saturating.
    pub const fn from_pages(pages: u64) -> Bytes {
        Bytes(pages.saturating_mul(PAGE_BYTES as u64))
    }
}

impl From<u64> for Bytes {
    fn from(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
}

impl From<Bytes> for u64 {
    fn from(bytes: Bytes) -> u64 {
        bytes.0
    }
}

/// Milliseconds of the world's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Millis(pub u64);

/// Reason for a rejected size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseBytesError {
    /// No number. Start with digits, as in `512M`.
    #[error("no number in the size: write digits, then K, M, G or T, as in 512M")]
    NoNumber,
    /// Suffix other than K, M, G, T (optionally with `iB` or `B`).
    #[error("a size is a whole number and K, M, G or T (binary), as in 512M")]
    UnknownUnit,
    /// More than 2^64 - 1 bytes.
    #[error("the size does not fit in 64 bits")]
    TooLarge,
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Bytes, ParseBytesError> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(ParseBytesError::NoNumber);
        }
        let number: u64 = text[..digits].parse().map_err(|_| ParseBytesError::TooLarge)?;
        let shift = match text[digits..].trim_start() {
            "" | "B" | "b" => 0,
            "K" | "k" | "KB" | "KiB" => 10,
            "M" | "m" | "MB" | "MiB" => 20,
            "G" | "g" | "GB" | "GiB" => 30,
            "T" | "t" | "TB" | "TiB" => 40,
            _ => return Err(ParseBytesError::UnknownUnit),
        };
        number.checked_mul(1 << shift).map(Bytes).ok_or(ParseBytesError::TooLarge)
    }
}

impl fmt::Display for Bytes {
    /// Prints the largest unit that divides the number, so that it parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sizes_parse_in_binary_units() {
        assert_eq!("512M".parse(), Ok(Bytes(512 << 20)));
        assert_eq!(" 4 GiB ".parse(), Ok(Bytes(4 << 30)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
    }

    #[test]
    fn bad_sizes_say_what_is_wrong() {
        assert_eq!("".parse::<Bytes>(), Err(ParseBytesError::NoNumber));
        assert_eq!("-1".parse::<Bytes>(), Err(ParseBytesError::NoNumber));
        assert_eq!("12Q".parse::<Bytes>(), Err(ParseBytesError::UnknownUnit));
        assert_eq!("99999999999T".parse::<Bytes>(), Err(ParseBytesError::TooLarge));
        assert_eq!("99999999999999999999".parse::<Bytes>(), Err(ParseBytesError::TooLarge));
    }

    #[test]
    fn a_number_of_bytes_is_a_size() {
        assert_eq!(Bytes::from(5), Bytes(5));
        assert_eq!(u64::from(Bytes(5)), 5);
    }

    #[test]
    fn printed_sizes_parse_back() {
        for bytes in [0, 1, 4096, 5000, 64 << 20, 3 << 30, 1 << 40] {
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
    }
}
