//! Execution of requests, in the socket's thread.

use crate::api::cache::PageCache;
use crate::api::control::document::StatsDocument;
use crate::api::control::files;
use crate::api::control::request::{Answer, ControlRequest};
use crate::api::group::Group;
use crate::engine::groups::options::GroupOptions;
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::units::Bytes;
use std::path::Path;
use std::time::Instant;

pub(super) fn act(
    cache: &PageCache,
    name: &str,
    request: &ControlRequest,
) -> Result<Answer, String> {
    match request {
        ControlRequest::Stats => Ok(Answer::Stats(Box::new(StatsDocument::collect(cache, name)))),
        ControlRequest::Resize { memory_bytes } => {
            let begun = Instant::now();
            cache.resize(Bytes(*memory_bytes)).map_err(|error| error.to_string())?;
            let seconds = begun.elapsed().as_secs_f64();
            let stats = cache.stats();
            let (memory_bytes, resident_bytes) = (stats.memory_bytes, stats.resident_bytes);
            Ok(Answer::Resized { memory_bytes, resident_bytes, seconds })
        }
        ControlRequest::Drop => Ok(dropped(cache, cache.drop_caches())),
        ControlRequest::DropFile { file } => {
            let freed = files::drop_file(cache, Path::new(file));
            freed.map(|freed| dropped(cache, freed)).ok_or_else(|| {
                format!("{file} is none of the cache's files: `dump` lists those in memory")
            })
        }
        ControlRequest::Sync => {
            let flushed = files::sync_unlocked(cache).map_err(|error| error.to_string())?;
            if flushed.nr_failed > 0 {
                return Err(format!("{} pages could not be written", flushed.nr_failed));
            }
            let written_bytes = Bytes::from_pages(flushed.nr_written).0;
            Ok(Answer::Synced { written_bytes, dirty_bytes: cache.stats().dirty_bytes })
        }
        ControlRequest::SetGroup { name, limit_bytes, min_bytes, low_bytes } => {
            let groups = cache.groups();
            let group = groups.iter().find(|group| group.name() == name);
            let group = group.ok_or_else(|| no_group(name, &groups))?;
            set_group(group, [*limit_bytes, *min_bytes, *low_bytes])
        }
        ControlRequest::LruGen { full } => {
            let detail = if *full { Detail::Full } else { Detail::Sizes };
            Ok(Answer::LruGen { text: cache.describe_lru_gen(detail) })
        }
        ControlRequest::CommandLruGen { commands } => {
            let evicted = cache.command_lru_gen(commands).map_err(|error| error.to_string())?;
            Ok(Answer::Evicted { evicted_bytes: Bytes::from_pages(evicted).0 })
        }
        ControlRequest::Dump => {
            Ok(Answer::Dump { files: cache.dump().files.iter().map(Into::into).collect() })
        }
    }
}

fn dropped(cache: &PageCache, freed: Bytes) -> Answer {
    let stats = cache.stats();
    let (resident_bytes, dirty_bytes) = (stats.resident_bytes, stats.dirty_bytes);
    Answer::Dropped { dropped_bytes: freed.0, resident_bytes, dirty_bytes }
}

fn no_group(name: &str, groups: &[Group]) -> String {
    let names: Vec<&str> = groups.iter().map(Group::name).collect();
    match names.is_empty() {
        true => format!("there is no group {name}: the cache has none"),
        false => format!("there is no group {name}: there are {}", names.join(", ")),
    }
}

/// Sets limit, min and low. `None` keeps the present value.
fn set_group(group: &Group, [limit, min, low]: [Option<u64>; 3]) -> Result<Answer, String> {
    let now = group.stats().map_err(|error| error.to_string())?;
    let options = GroupOptions::new()
        .min(Bytes(min.unwrap_or(now.min_bytes)))
        .low(Bytes(low.unwrap_or(now.low_bytes)));
    let options = match limit.or(now.limit_bytes) {
        Some(limit) => options.limit(Bytes(limit)),
        None => options,
    };
    group.set(options).map_err(|error| error.to_string())?;
    group.stats().map(|stats| Answer::Group(stats.into())).map_err(|error| error.to_string())
}
