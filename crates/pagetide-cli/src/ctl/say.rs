//! Formats a cache's answer as text or JSON.

use crate::document::Document;
use crate::failure::Failure;
use crate::machine::rounded;
use crate::table::{Table, cells, left, percent, right};
use crate::terminal;
use pagetide::control::{Answer, DumpedFile, GroupDocument, StatsDocument};

pub(super) fn print_json(answer: &Answer, only_groups: bool) -> Result<(), Failure> {
    let text = match answer {
        Answer::Stats(stats) if only_groups => {
            Document::new("pagetide.ctl.groups/1", &stats.groups).to_text()
        }
        Answer::Stats(stats) => Document::new("pagetide.ctl.stats/1", [stats]).to_text(),
        Answer::Group(group) => Document::new("pagetide.ctl.groups/1", [group]).to_text(),
        Answer::Dump { files } => Document::new("pagetide.ctl.dump/1", files).to_text(),
        other => {
            let value = serde_json::to_value(other);
            let value = value.map_err(|error| Failure::on("write JSON", &error))?;
            // An answer is an object of one entry: its kind.
            let inner = value.as_object().and_then(|object| object.values().next());
            Document::new("pagetide.ctl/1", [inner]).to_text()
        }
    };
    terminal::print(&text?)
}

pub(super) fn print(answer: &Answer, only_groups: bool) -> Result<(), Failure> {
    terminal::print(&match answer {
        Answer::Stats(stats) if only_groups => groups(&stats.groups),
        Answer::Stats(stats) => describe(stats),
        Answer::Resized { memory_bytes, resident_bytes, seconds } => format!(
            "the limit is {}, {} in use; it took {seconds:.3} s\n",
            rounded(*memory_bytes),
            rounded(*resident_bytes)
        ),
        Answer::Dropped { dropped_bytes, resident_bytes, dirty_bytes } => format!(
            "{} came free; {} in use, {} of it dirty\n",
            rounded(*dropped_bytes),
            rounded(*resident_bytes),
            rounded(*dirty_bytes)
        ),
        Answer::Synced { written_bytes, dirty_bytes } => format!(
            "{} written back; {} dirty since, or locked\n",
            rounded(*written_bytes),
            rounded(*dirty_bytes)
        ),
        Answer::Group(group) => groups(std::slice::from_ref(group)),
        Answer::LruGen { text } if text.is_empty() => "this policy has no generations\n".to_owned(),
        Answer::LruGen { text } => text.clone(),
        Answer::Evicted { evicted_bytes } => format!("{} evicted\n", rounded(*evicted_bytes)),
        Answer::Dump { files } => dump(files),
        other => format!("{other:?}\n"),
    })
}

fn describe(stats: &StatsDocument) -> String {
    let mut lines = vec![
        format!("cache       {} ({})", stats.name, stats.pid),
        format!("policy      {}", stats.policy),
        format!(
            "memory      {}: {} resident, at most {}; {} dirty",
            rounded(stats.memory_bytes),
            rounded(stats.resident_bytes),
            rounded(stats.resident_bytes_max),
            rounded(stats.dirty_bytes)
        ),
        format!(
            "accesses    {}: {} hits ({}), {} misses",
            stats.accesses,
            stats.hits,
            percent(stats.hit_ratio, 1),
            stats.misses
        ),
        format!(
            "device      {} reads of {}, {} writes of {}",
            stats.device_reads,
            rounded(stats.device_read_bytes),
            stats.device_writes,
            rounded(stats.device_write_bytes)
        ),
        format!("waits       {}", latency(stats)),
        format!(
            "refaults    {}, {} of them activated; {} evictions",
            stats.refaults, stats.activations, stats.evictions
        ),
    ];
    if let Some(setting) = &stats.setting {
        lines.push(format!("setting     {}: {}", setting.in_charge, setting.why));
    }
    let sizes = stats
        .hit_ratios
        .iter()
        .map(|size| format!("with {}: {}", rounded(size.memory_bytes), percent(size.hit_ratio, 1)));
    lines.push(format!("sizing      {}", sizes.collect::<Vec<_>>().join(", ")));
    let tiers = stats.tiers.iter().map(|it| {
        format!(
            "tier        {}: {} in use, {} served",
            it.tier,
            rounded(it.resident_bytes),
            it.served
        )
    });
    lines.extend(tiers);
    let text = lines.join("\n") + "\n";
    if stats.groups.is_empty() { text } else { text + "\n" + &groups(&stats.groups) }
}

/// Formats how long threads waited for the device.
pub(crate) fn latency(stats: &StatsDocument) -> String {
    let times = &stats.read_times;
    let up_to = |end: Option<u64>| {
        end.map_or_else(|| "longer than 1 s".to_owned(), |end| format!("up to {end} us"))
    };
    match times.count {
        0 => "none for a read".to_owned(),
        count => {
            format!("{count} for reads: half {}, 99 % {}", up_to(times.p50_us), up_to(times.p99_us))
        }
    }
}

fn groups(groups: &[GroupDocument]) -> String {
    if groups.is_empty() {
        return "the cache has no groups\n".to_owned();
    }
    let columns = ["used", "limit", "min", "low", "hits", "misses", "evictions"];
    let columns: Vec<_> =
        std::iter::once(left("group", 0)).chain(columns.map(|head| right(head, 0))).collect();
    let rows = groups.iter().map(|it| {
        cells![
            it.name,
            rounded(it.usage_bytes),
            it.limit_bytes.map_or_else(|| "none".to_owned(), rounded),
            rounded(it.min_bytes),
            rounded(it.low_bytes),
            it.hits,
            it.misses,
            it.evictions
        ]
    });
    Table::new(&columns).spaced("", "  ").with_rows(rows).to_text()
}

/// Formats a line per file.
fn dump(files: &[DumpedFile]) -> String {
    let line = |file: &DumpedFile| {
        let ranges = file.ranges.iter().map(|(first, nr, _)| match nr {
            1 => first.to_string(),
            nr => format!("{first}-{}", first + nr - 1),
        });
        let ranges: Vec<String> = ranges.collect();
        let name = file.file.as_deref().unwrap_or("(no name)");
        format!("{name}: {} in memory, pages {}\n", rounded(file.resident_bytes), ranges.join(" "))
    };
    if files.is_empty() {
        "nothing is in memory\n".to_owned()
    } else {
        files.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_says_ranges_as_people_do() {
        let file = |file: Option<&str>, ranges: &[(u64, u64, u8)]| {
            serde_json::from_value(serde_json::json!({
                "file": file, "len_bytes": 1 << 20, "resident_bytes": 8192, "ranges": ranges,
            }))
            .unwrap()
        };
        let files: [DumpedFile; 2] =
            [file(Some("/a"), &[(0, 1, 2), (5, 3, 0)]), file(None, &[(2, 2, 1)])];
        assert_eq!(
            dump(&files),
            "/a: 8.0 KiB in memory, pages 0 5-7\n(no name): 8.0 KiB in memory, pages 2-3\n"
        );
        assert_eq!(dump(&[]), "nothing is in memory\n");
    }
}
