//! `pagetide trace info`: counts a trace's contents in one pass.
//!
//! Memory: about 64 bytes per distinct page, independent of the trace's length.

use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::source::SourceArgs;
use crate::terminal::JsonArgs;
use pagetide_core::record::Reclaimer;
use pagetide_core::units::PAGE_BYTES;
use pagetide_lab::curve::{Census, KindCount, Reuse};
use serde::Serialize;

/// Count what is in a trace: kinds, pages, threads, and how soon pages come back.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// Field names are as in `--json`.
#[derive(Serialize)]
struct Info {
    format: &'static str,
    entries: u64,
    kinds: Vec<KindCount>,
    accesses: u64,
    /// Distinct pages.
    pages: u64,
    footprint_bytes: u64,
    mappings: u64,
    threads: u64,
    skipped_entries: u64,
    recorded: Option<Recorded>,
    reuse: Reuse,
}

#[derive(Serialize)]
struct Recorded {
    policy: String,
    memory_frames: u64,
    memory_frames_max: u64,
    cpus: u32,
    swappiness: u8,
    pcp_tuning: &'static str,
    pcp_high_fraction: u16,
    reclaimer: Option<&'static str>,
}

pub(crate) fn run(args: &InfoArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut census = Census::new();
    let facts = args.source.for_each(interrupt, |_, access| {
        census.count(&access);
        Ok(())
    })?;
    let page_bytes = facts.header.as_ref().map_or(PAGE_BYTES as u64, |it| it.page_bytes.into());
    let info = Info {
        format: facts.format.as_str(),
        entries: census.nr_entries(),
        kinds: census.kinds().collect(),
        accesses: census.nr_accesses(),
        pages: census.nr_pages_accessed(),
        footprint_bytes: census.nr_pages_accessed().saturating_mul(page_bytes),
        mappings: census.nr_mappings(),
        threads: census.nr_threads(),
        skipped_entries: facts.nr_skipped,
        recorded: facts.header.filter(|header| header.is_of_run()).map(|header| Recorded {
            policy: header.policy,
            memory_frames: header.memory_frames,
            memory_frames_max: header.memory_frames_max,
            cpus: header.nr_cpus,
            swappiness: header.swappiness,
            pcp_tuning: header.pcp_tuning.as_str(),
            pcp_high_fraction: header.pcp_high_fraction,
            reclaimer: header.reclaimer.map(Reclaimer::as_str),
        }),
        reuse: census.into_reuse(),
    };
    args.json.print(&Document::new("pagetide.trace.info/1", [&info]), || text(&info))
}

fn text(info: &Info) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<22} {value}\n"));
    line("format", info.format.to_owned());
    if let Some(run) = &info.recorded {
        let Recorded { policy, memory_frames, cpus, .. } = run;
        line("recorded under", format!("{policy}, {memory_frames} frames, {cpus} CPUs"));
    }
    line("entries", info.entries.to_string());
    for kind in &info.kinds {
        line(&format!("  {}", kind.name), kind.entries.to_string());
    }
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let footprint = machine::rounded(info.footprint_bytes);
    line("accesses", info.accesses.to_string());
    line("pages", format!("{} ({footprint})", info.pages));
    line("mappings", info.mappings.to_string());
    line("threads", info.threads.to_string());
    let reuse = &info.reuse;
    let first = share(reuse.first_uses, info.accesses);
    line("first uses", format!("{} ({first:.2} % of accesses)", reuse.first_uses));
    let once = share(reuse.pages_used_once, info.pages);
    line("pages used once", format!("{} ({once:.2} % of pages)", reuse.pages_used_once));
    let frames = |distance: u64| {
        format!(
            "{distance} pages ({})",
            machine::rounded(distance.saturating_mul(PAGE_BYTES as u64))
        )
    };
    line("reuse distance, 50 %", frames(reuse.distance_p50));
    line("                90 %", frames(reuse.distance_p90));
    line("                99 %", frames(reuse.distance_p99));
    line("                 max", frames(reuse.distance_max));
    text
}
