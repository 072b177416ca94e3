//! The project own checks.
fn main() {}
