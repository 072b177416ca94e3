//! Commands with a terminal that is closed while they run.

use super::{has, script};

#[test]
fn top_ends_with_its_terminal_and_on_signals() {
    if !has("python3", "top_ends_with_its_terminal_and_on_signals") {
        return;
    }
    let said = script("closed_terminals.py");
    let has_ended = |line: &&str| line.contains(" ended ") && !line.contains(" ended -");
    assert_eq!(said.lines().filter(has_ended).count(), 10, "{said}");
}
