//! Reports: one self-contained HTML file.
//!
//! ```text
//!   a command's report.rs --> plots.rs, curves.rs (SVG) --> page.rs (HTML) --> write
//! ```
//!
//! Text follows the reader's colour scheme, and series are mid-tones that suit both.

pub(crate) mod curves;
pub(crate) mod page;
pub(crate) mod plots;

use crate::failure::Failure;
use crate::output;
use plots::DrawError;
use std::path::Path;

pub(crate) fn write(path: &Path, text: Result<String, DrawError>) -> Result<(), Failure> {
    let text = text.map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

/// Keeps the order of appearance.
pub(crate) fn distinct<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[cfg(test)]
pub(crate) fn assert_stands_alone(text: &str) {
    for fetched in ["src=", "href=", "@import", "url("] {
        assert!(!text.contains(fetched), "the report fetches something: {fetched}");
    }
    assert_eq!(text.matches("<section").count(), text.matches("</section>").count());
}
