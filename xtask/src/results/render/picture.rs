//! The README's picture: each workload of the demo, Pagetide's speed beside the kernel's.
//!
//! ```text
//!   name        |####### 1.00|
//!               |############ 1.87|      a pair of bars for each workload, the kernel's is 1
//! ```
//!
//! The colours (Okabe and Ito) differ for colour-blind readers. The text beside each bar says the
//! same.

use super::readme::WORKLOADS;
use crate::results::rows::ResultRow;
use std::fmt::Write;

const WIDTH: u32 = 640;
/// Left end of the bars, and the length of the longest bar.
const LEFT: u32 = 110;
const LENGTH_MAX: f64 = 400.0;
const BAR: u32 = 14;
const PAIR: u32 = 44;
const HEAD: u32 = 34;
const COLOURS: [&str; 2] = ["#999999", "#0072b2"];

/// Returns an SVG of the rows of `linux` and `pagetide`, or `None` without such rows.
pub(in crate::results) fn svg(rows: &[ResultRow]) -> Option<String> {
    let speed = |case: &str, subject: &str| {
        let is_it =
            |row: &&ResultRow| row.unit == "ops/s" && row.case == case && row.subject == subject;
        rows.iter().find(is_it).map(|row| row.median)
    };
    let pairs: Vec<(&str, f64)> = WORKLOADS
        .iter()
        .filter_map(|(case, ..)| {
            let kernel = speed(case, "linux").filter(|speed| *speed > 0.0)?;
            Some((*case, speed(case, "pagetide")? / kernel))
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let unit = LENGTH_MAX / pairs.iter().fold(1.0_f64, |most, (_, ratio)| most.max(*ratio));
    let height = HEAD + PAIR * pairs.len() as u32 + 8;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n\
         <title>Speed of Pagetide beside the kernel's page cache</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"20\">operations a second, the kernel's page cache = 1, same memory \
         limit</text>\n"
    );
    for (nth, (case, ratio)) in pairs.into_iter().enumerate() {
        let top = HEAD + PAIR * nth as u32;
        text(&mut out, 8, top + BAR + 4, case);
        bar(&mut out, top, unit, COLOURS[0], "kernel");
        bar(&mut out, top + BAR + 2, unit * ratio, COLOURS[1], &format!("Pagetide {ratio:.2}"));
    }
    out.push_str("</svg>\n");
    Some(out)
}

fn bar(out: &mut String, top: u32, length: f64, colour: &str, words: &str) {
    let length = length as u32;
    let _ = writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{length}\" height=\"{BAR}\" fill=\"{colour}\"/>"
    );
    text(out, LEFT + length + 6, top + BAR - 2, words);
}

fn text(out: &mut String, x: u32, y: u32, words: &str) {
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{words}</text>");
}
