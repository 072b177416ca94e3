//! What `--json` prints, and `run` writes to a file: one document of one shape.
//!
//! ```text
//!   {"schema": "pagetide.replay/1", "rows": [{...}, ...], what is true of all rows}
//! ```
//!
//! A name means the same, in the same unit, wherever it stands: `docs/schema.json` lists them all,
//! and a test holds the commands to it. The number after the schema's name rises when a field goes,
//! or changes its meaning.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A document of such rows, with `about` beside them.
#[derive(Debug, Serialize)]
pub(crate) struct Document<R, A = Nothing> {
    schema: &'static str,
    #[serde(flatten)]
    about: A,
    rows: R,
}

/// No more than the rows.
#[derive(Debug, Serialize)]
pub(crate) struct Nothing {}

impl<R: Serialize> Document<R> {
    /// Of rows alone.
    pub(crate) fn new(schema: &'static str, rows: R) -> Document<R> {
        Document { schema, about: Nothing {}, rows }
    }

    /// With what is true of all of them.
    pub(crate) fn about<A: Serialize>(self, about: A) -> Document<R, A> {
        Document { schema: self.schema, about, rows: self.rows }
    }
}

impl<R: Serialize, A: Serialize> Document<R, A> {
    /// As text, with the end of its last line.
    ///
    /// # Errors
    /// None that is known: every name and number can be written.
    pub(crate) fn to_text(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Failure::on("write JSON", &error))
    }
}

/// The rows of a document that another command has printed.
///
/// # Errors
/// It is no such document.
pub(crate) fn read_rows(printed: &[u8]) -> serde_json::Result<Vec<Map<String, Value>>> {
    #[derive(Deserialize)]
    struct Printed {
        rows: Vec<Map<String, Value>>,
    }
    serde_json::from_slice(printed).map(|it: Printed| it.rows)
}
