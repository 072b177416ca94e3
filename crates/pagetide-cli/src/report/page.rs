//! The report's words and tables, as HTML.

use crate::demo::row::Row;
use crate::demo::table::remark;
use crate::demo::workload::Workload;
use crate::machine;
use crate::report::plots;
use pagetide_core::units::Bytes;
use std::fmt::Write;
use std::fs;

const STYLE: &str = "
:root{color-scheme:light dark;--fg:#1d2330;--dim:#5c6675;--bg:#fbfbfa;--card:#fff;--line:#dde1e7}
@media(prefers-color-scheme:dark){
:root{--fg:#e6e9ee;--dim:#9aa4b2;--bg:#14171c;--card:#1b1f26;--line:#313843}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:88rem;padding:2rem 1.2rem 4rem;background:var(--bg);color:var(--fg);
font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.9rem;margin:0 0 .3rem}h2{font-size:1.3rem;margin:2.6rem 0 .2rem}
p{max-width:46rem;margin:.4rem 0}.dim,figcaption,th{color:var(--dim)}
.legend{display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;margin:1.2rem 0;padding:0;list-style:none}
.legend i{display:inline-block;width:.85em;height:.85em;border-radius:3px;
margin-right:.45em;vertical-align:-.06em}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(28rem,100%),1fr));
gap:1rem;margin:1rem 0}
figure{margin:0;padding:1rem;background:var(--card);border:1px solid var(--line);border-radius:10px}
figure h3{margin:0 0 .4rem;font-size:1rem}figcaption{font-size:.85rem;margin-top:.5rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--fg);font-family:system-ui,sans-serif}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .7rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:500}th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}
";

/// The end of the document.
pub(super) const FOOT: &str = "<section><h2>How this was measured</h2>
<p>Every run is a process of its own, over files made for it and dropped from the kernel's page \
cache beforehand. <b>linux</b> is plain pread and pwrite in a memory cgroup of the same limit; \
its hits are counted with cachestat, its device reads and writes from the process's own account, \
its evictions as what left the cgroup (folios of a page or more with cgroup v1, pages with v2). \
The kernel accounts reclaim CPU time to nobody, so that column stays empty for it. The others \
are Pagetide with the named policy. Device reads and writes are 4 KiB pages moved. Loops are \
closed: a slow operation delays the next one. One run shows the shape; for medians and spreads \
use <code>pagetide bench</code>.</p></section></body></html>
";

/// The document up to the first section.
pub(super) fn head(memory: Bytes, subjects: &[&str]) -> String {
    let said = format!(
        "The same jobs on the same files under a memory limit of <b>{}</b>, by the kernel's page \
         cache and by Pagetide's policies.",
        machine::rounded(memory.0)
    );
    start("Pagetide demo", &said, subjects)
}

/// The document up to the first section: a title, a paragraph (HTML), the machine, and the colour
/// of each subject.
pub(super) fn start(title: &str, said: &str, subjects: &[&str]) -> String {
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\
         <p>{said}</p><p class=\"dim\">{}</p><ul class=\"legend\">",
        escape(&machine_line()),
    );
    for subject in subjects {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<li><i style=\"background:{}\"></i>{}</li>",
            plots::css_colour(subject),
            escape(subject)
        );
    }
    text.push_str("</ul>");
    text
}

/// The start of a workload's section.
pub(super) fn section_start(workload: Workload) -> String {
    format!("<section><h2>{workload}</h2><p>{}.</p>", escape(workload.summary()))
}

/// A plot with its title and how to read it.
pub(super) fn figure(svg: &str, title: &str, caption: &str) -> String {
    format!(
        "<figure><h3>{}</h3>{svg}<figcaption>{}</figcaption></figure>",
        escape(title),
        escape(caption)
    )
}

/// The rows as a table.
pub(super) fn table(rows: &[&Row]) -> String {
    let mut text = String::from("<div class=\"scroll\"><table><thead><tr>");
    for head in [
        "subject",
        "ops/s",
        "hit ratio",
        "p50 us",
        "p99 us",
        "max us",
        "device reads",
        "device writes",
        "refaults",
        "evictions",
        "CPU ns/evicted",
        "resident max",
        "",
    ] {
        let _ = write!(text, "<th>{head}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(text, "<tr><td>{}</td>", escape(&row.subject));
        if let Some(reason) = row.skipped().filter(|reason| !reason.is_empty()) {
            let _ = write!(text, "<td colspan=\"12\">skipped: {}</td></tr>", escape(reason));
            continue;
        }
        for cell in cells(row) {
            let _ = write!(text, "<td>{}</td>", escape(&cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div>");
    text
}

fn cells(row: &Row) -> [String; 12] {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let count = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    [
        number(row.ops_per_s),
        row.hit_ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
        number(row.p50_us),
        number(row.p99_us),
        number(row.max_us),
        count(row.device_reads),
        count(row.device_writes),
        count(row.refaults),
        count(row.evictions),
        number(row.cpu_ns_per_evicted_page()),
        row.resident_bytes_max.map_or("-".to_owned(), machine::rounded),
        remark(row),
    ]
}

/// Kernel, processors and memory, as far as the machine says.
fn machine_line() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("Linux {}, {cpus} processors, pagetide {}", kernel.trim(), env!("CARGO_PKG_VERSION"))
}

/// Text as HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
