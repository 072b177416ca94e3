//! Numbers in the fields of a line.

use super::LineProblem;

/// A field as a decimal number; `name` is for the complaint.
pub(super) fn number(field: Option<&str>, name: &'static str) -> Result<u64, LineProblem> {
    let text = field.ok_or(LineProblem::NoField { field: name })?;
    let read = plain_number(text.as_bytes()).or_else(|| text.trim().parse().ok());
    read.ok_or(LineProblem::NotANumber { field: name })
}

/// Digits behind a space or none, of a number that fits whatever they are: most fields are that.
pub(super) fn plain_number(field: &[u8]) -> Option<u64> {
    const DIGITS: usize = 19;
    let digits = field.strip_prefix(b" ").unwrap_or(field);
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| 10 * number + u64::from(digit))
    })
}
