//! What can be asked of a cache, and what it answers: a line of JSON each way.
//!
//! ```text
//!   -->  {"resize":{"memory_bytes":268435456}}\n
//!   <--  {"ok":{"resized":{"memory_bytes":268435456,...}}}\n     or {"error":"a sentence"}\n
//! ```

use crate::api::control::document::{DumpedFile, GroupDocument, StatsDocument};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest request, bytes, with the end of its line.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ControlRequest {
    /// What the cache has done, and how full it is.
    Stats,
    /// Another limit: as [`PageCache::resize`](crate::PageCache::resize).
    Resize {
        /// The new one.
        memory_bytes: u64,
    },
    /// As [`PageCache::drop_caches`](crate::PageCache::drop_caches).
    Drop,
    /// As [`PageCache::sync_all`](crate::PageCache::sync_all), but for pages that threads have
    /// locked.
    Sync,
    /// [`Advice::DontNeed`](crate::Advice::DontNeed) for all of a file.
    DropFile {
        /// Where it is, without links in the path.
        file: String,
    },
    /// Other limits for a group; what is `None` stays.
    SetGroup {
        /// Its name.
        name: String,
        /// The most it may use.
        limit_bytes: Option<u64>,
        /// What it keeps.
        min_bytes: Option<u64>,
        /// What it keeps if it can.
        low_bytes: Option<u64>,
    },
    /// As [`PageCache::describe_lru_gen`](crate::PageCache::describe_lru_gen).
    LruGen {
        /// As `lru_gen_full` has it.
        full: bool,
    },
    /// As [`PageCache::command_lru_gen`](crate::PageCache::command_lru_gen).
    CommandLruGen {
        /// In the kernel's format.
        commands: String,
    },
    /// As [`PageCache::dump`](crate::PageCache::dump).
    Dump,
}

impl ControlRequest {
    /// Reads a line.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn decode(line: &[u8]) -> Result<ControlRequest, String> {
        serde_json::from_slice(line).map_err(|error| format!("this is no request: {error}"))
    }

    /// The line, with its end.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

/// What a request came to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// To [`ControlRequest::Stats`].
    Stats(Box<StatsDocument>),
    /// To [`ControlRequest::Resize`].
    Resized {
        /// The limit now.
        memory_bytes: u64,
        /// In use now.
        resident_bytes: u64,
        /// How long it took.
        seconds: f64,
    },
    /// To [`ControlRequest::Drop`] and [`ControlRequest::DropFile`].
    Dropped {
        /// What came free.
        dropped_bytes: u64,
        /// In use now.
        resident_bytes: u64,
        /// What could not be written back, or was changed meanwhile.
        dirty_bytes: u64,
    },
    /// To [`ControlRequest::Sync`].
    Synced {
        /// What was written back.
        written_bytes: u64,
        /// What a thread had locked, or was changed meanwhile.
        dirty_bytes: u64,
    },
    /// To [`ControlRequest::SetGroup`].
    Group(GroupDocument),
    /// To [`ControlRequest::LruGen`].
    LruGen {
        /// In the kernel's format; empty where the policy has no generations.
        text: String,
    },
    /// To [`ControlRequest::CommandLruGen`].
    Evicted {
        /// What came free.
        evicted_bytes: u64,
    },
    /// To [`ControlRequest::Dump`].
    Dump {
        /// Files with pages in memory.
        files: Vec<DumpedFile>,
    },
}

/// What comes back.
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

/// JSON of one line, and its end.
fn encode(value: &impl Serialize) -> Vec<u8> {
    // No map in them has keys that are no text, and no number is refused.
    let mut line = serde_json::to_vec(value).expect("requests and replies are JSON");
    line.push(b'\n');
    line
}

impl fmt::Display for ControlRequest {
    /// As JSON.
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
