//! A generated part of a document, between two marks.

const BEGIN: &str = "<!-- made by `cargo x results` -->\n";
const END: &str = "<!-- end -->\n";

/// Returns `document` with this part, or unchanged without marks.
pub(in crate::results) fn with_part(document: &str, part: &str) -> String {
    let place = document
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    match place {
        Some((before, after)) => format!("{before}{BEGIN}{part}{END}{after}"),
        None => document.to_owned(),
    }
}
