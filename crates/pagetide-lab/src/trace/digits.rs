//! Numbers in the fields of a line.

use super::LineProblem;

/// A field as a decimal number; `name` is for the complaint.
pub(super) fn number(
    field: Option<impl AsRef<[u8]>>,
    name: &'static str,
) -> Result<u64, LineProblem> {
    let field = field.ok_or(LineProblem::NoField { field: name })?;
    whole(field.as_ref()).ok_or(LineProblem::NotANumber { field: name })
}

/// Digits with spaces around them, of a number that fits.
pub(super) fn whole(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit < 10 { number.checked_mul(10)?.checked_add(digit.into()) } else { None }
    });
    number.filter(|_| !digits.is_empty())
}
