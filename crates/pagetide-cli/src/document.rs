//! The JSON document of `--json` and of `run`.
//!
//! ```text
//!   {"schema": "pagetide.replay/1", "rows": [{...}, ...], fields about all rows}
//! ```
//!
//! A field name has the same meaning and unit in all documents: `docs/schema.json` lists them, and
//! a test checks all commands. Removing a field or changing its meaning increments the schema
//! number.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Serialize)]
pub(crate) struct Document<R, A = Nothing> {
    schema: &'static str,
    #[serde(flatten)]
    about: A,
    rows: R,
}

#[derive(Debug, Serialize)]
pub(crate) struct Nothing {}

impl<R: Serialize> Document<R> {
    pub(crate) fn new(schema: &'static str, rows: R) -> Document<R> {
        Document { schema, about: Nothing {}, rows }
    }

    pub(crate) fn about<A: Serialize>(self, about: A) -> Document<R, A> {
        Document { schema: self.schema, about, rows: self.rows }
    }
}

impl<R: Serialize, A: Serialize> Document<R, A> {
    pub(crate) fn to_text(&self) -> Result<String, Failure> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Failure::on("write JSON", &error))
    }
}

pub(crate) fn read_rows(printed: &[u8]) -> serde_json::Result<Vec<Map<String, Value>>> {
    #[derive(Deserialize)]
    struct Printed {
        rows: Vec<Map<String, Value>>,
    }
    serde_json::from_slice(printed).map(|it: Printed| it.rows)
}
