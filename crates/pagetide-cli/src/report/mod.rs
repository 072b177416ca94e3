//! What reports are made of: one HTML file that needs nothing else, for a person.
//!
//! Problem: a table says what won, not how it went. Idea: a few plots where each answers one
//! question, a sentence under each that says how to read it, and the table for
//! the numbers. Text colours follow the reader's light or dark setting; series colours are
//! mid-tones that stand on both.
//!
//! ```text
//!   a command's report.rs --> plots.rs, curves.rs (SVG) --> page.rs (HTML) --> write
//! ```
//!
//! Which plots a report has is in its command's folder: `demo/report.rs`, `replay/report.rs`, ...
//! Ignored: scripts, fonts and anything else that would have to be fetched.

pub(crate) mod curves;
pub(crate) mod page;
pub(crate) mod plots;

use crate::failure::Failure;
use crate::output;
use plots::DrawError;
use std::path::Path;

/// Writes a report to `path`, where it could be drawn.
///
/// # Errors
/// Where it could not, or the file cannot be written.
pub(crate) fn write(path: &Path, text: Result<String, DrawError>) -> Result<(), Failure> {
    let text = text.map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

/// Each name once, in the order in which they come.
pub(crate) fn distinct<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// Fails where a report would fetch something.
#[cfg(test)]
pub(crate) fn assert_stands_alone(text: &str) {
    for fetched in ["src=", "href=", "@import", "url("] {
        assert!(!text.contains(fetched), "the report fetches something: {fetched}");
    }
    assert_eq!(text.matches("<section").count(), text.matches("</section>").count());
}
