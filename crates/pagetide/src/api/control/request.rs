//! Requests to a cache and their answers: a line of JSON each way.
//!
//! ```text
//!   -->  {"resize":{"memory_bytes":268435456}}\n
//!   <--  {"ok":{"resized":{"memory_bytes":268435456,...}}}\n     or {"error":"a sentence"}\n
//! ```

use crate::api::control::document::{DumpedFile, GroupDocument, StatsDocument};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum length of a request in bytes, including the newline.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ControlRequest {
    /// Counters and usage.
    Stats,
    /// Sets the limit, as [`PageCache::resize`](crate::PageCache::resize).
    Resize {
        /// New limit.
        memory_bytes: u64,
    },
    /// As [`PageCache::drop_caches`](crate::PageCache::drop_caches).
    Drop,
    /// As [`PageCache::sync_all`](crate::PageCache::sync_all), but skips pages that threads have
    /// locked.
    Sync,
    /// [`Advice::DontNeed`](crate::Advice::DontNeed) for a whole file.
    DropFile {
        /// Path without links.
        file: String,
    },
    /// Sets limits of a group. `None` keeps the present value.
    SetGroup {
        /// Group name.
        name: String,
        /// Maximum usage.
        limit_bytes: Option<u64>,
        /// Guaranteed memory.
        min_bytes: Option<u64>,
        /// Memory protected as far as possible.
        low_bytes: Option<u64>,
    },
    /// As [`PageCache::describe_lru_gen`](crate::PageCache::describe_lru_gen).
    LruGen {
        /// Selects the `lru_gen_full` format.
        full: bool,
    },
    /// As [`PageCache::command_lru_gen`](crate::PageCache::command_lru_gen).
    CommandLruGen {
        /// Commands in the kernel's format.
        commands: String,
    },
    /// As [`PageCache::dump`](crate::PageCache::dump).
    Dump,
}

impl ControlRequest {
    /// Parses a line.
    ///
    /// # Errors
    /// A message for the client.
    pub fn decode(line: &[u8]) -> Result<ControlRequest, String> {
        serde_json::from_slice(line).map_err(|error| format!("this is no request: {error}"))
    }

    /// Returns the line, with its newline.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

/// The result of a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Answers [`ControlRequest::Stats`].
    Stats(Box<StatsDocument>),
    /// Answers [`ControlRequest::Resize`].
    Resized {
        /// Present limit.
        memory_bytes: u64,
        /// Present usage.
        resident_bytes: u64,
        /// Duration.
        seconds: f64,
    },
    /// Answers [`ControlRequest::Drop`] and [`ControlRequest::DropFile`].
    Dropped {
        /// Memory freed.
        dropped_bytes: u64,
        /// Present usage.
        resident_bytes: u64,
        /// Dirty memory left: not written back, or changed meanwhile.
        dirty_bytes: u64,
    },
    /// Answers [`ControlRequest::Sync`].
    Synced {
        /// Bytes written back.
        written_bytes: u64,
        /// Dirty bytes left: locked by a thread, or changed meanwhile.
        dirty_bytes: u64,
    },
    /// Answers [`ControlRequest::SetGroup`].
    Group(GroupDocument),
    /// Answers [`ControlRequest::LruGen`].
    LruGen {
        /// Text in the kernel's format, empty if the policy has no generations.
        text: String,
    },
    /// Answers [`ControlRequest::CommandLruGen`].
    Evicted {
        /// Memory freed.
        evicted_bytes: u64,
    },
    /// Answers [`ControlRequest::Dump`].
    Dump {
        /// Files with resident pages.
        files: Vec<DumpedFile>,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Ok(Answer),
    Error(String),
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    // All map keys are strings, and no number is rejected.
    let mut line = serde_json::to_vec(value).expect("requests and replies are JSON");
    line.push(b'\n');
    line
}

impl fmt::Display for ControlRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(String::from_utf8_lossy(&self.encode()).trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = ControlRequest> {
        prop_oneof![
            Just(ControlRequest::Stats),
            Just(ControlRequest::Drop),
            any::<u64>().prop_map(|memory_bytes| ControlRequest::Resize { memory_bytes }),
            any::<String>().prop_map(|file| ControlRequest::DropFile { file }),
            any::<bool>().prop_map(|full| ControlRequest::LruGen { full }),
            (any::<String>(), any::<Option<u64>>()).prop_map(|(name, low_bytes)| {
                ControlRequest::SetGroup {
                    name,
                    limit_bytes: None,
                    min_bytes: low_bytes,
                    low_bytes,
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_one_line_that_says_the_same(request in requests()) {
            let line = request.encode();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(ControlRequest::decode(&line), Ok(request));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ControlRequest::decode(&bytes);
        }

        #[test]
        fn a_request_with_a_changed_byte_is_read_or_refused(
            request in requests(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut line = request.encode();
            let at = at.index(line.len());
            line[at] = byte;
            if let Ok(other) = ControlRequest::decode(&line) {
                prop_assert_eq!(ControlRequest::decode(&other.encode()), Ok(other));
            }
        }
    }

    #[test]
    fn garbage_is_refused_with_a_sentence() {
        let deep = "[".repeat(REQUEST_BYTES_MAX);
        for line in [
            "",
            "stats",
            "\"stat\"",
            "{\"resize\":{}}",
            "{\"resize\":{\"memory_bytes\":-1}}",
            &deep,
        ] {
            let refused = ControlRequest::decode(line.as_bytes()).unwrap_err();
            assert!(refused.starts_with("this is no request: "), "{refused}");
        }
    }
}
