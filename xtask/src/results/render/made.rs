//! A part of a document that is made of rows: between two marks, where it has them.

/// Before and after the part.
const BEGIN: &str = "<!-- made by `cargo x results` -->\n";
const END: &str = "<!-- end -->\n";

/// `document` with this part; as it is where it has no place for it.
pub(in crate::results) fn with_part(document: &str, part: &str) -> String {
    let place = document
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    match place {
        Some((before, after)) => format!("{before}{BEGIN}{part}{END}{after}"),
        None => document.to_owned(),
    }
}
