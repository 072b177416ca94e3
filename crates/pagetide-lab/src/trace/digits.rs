//! Numbers in the fields of a line.

use super::{LineProblem, Wrong};

/// Parses a field as a decimal number. Errors carry `name`.
pub(super) fn number(field: Option<impl AsRef<[u8]>>, name: &'static str) -> Result<u64, Wrong> {
    let field = field.ok_or(LineProblem::NoField { field: name })?;
    let digits = field.as_ref().trim_ascii();
    whole(digits).ok_or_else(|| LineProblem::NotANumber { field: name }.at(digits))
}

/// Parses digits with optional spaces around. Returns `None` if the number does not fit.
pub(super) fn whole(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit < 10 { number.checked_mul(10)?.checked_add(digit.into()) } else { None }
    });
    number.filter(|_| !digits.is_empty())
}
