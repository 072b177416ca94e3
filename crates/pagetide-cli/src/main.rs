//! The `pagetide` command.
fn main() {}
