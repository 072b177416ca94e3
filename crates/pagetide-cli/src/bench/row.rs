//! A measured case: its times, its reference's times, and the ratio.

use super::interleave::Samples;
use crate::results::Measured;
use crate::table::{Table, cells, left, number, right};
use crate::terminal;
use ::pagetide::PcpTuning;
use pagetide_core::lru::PolicyName;
use serde::Serialize;

/// Bench, case and threads.
pub(super) type Identity<'a> = (&'static str, &'a str, u32);

/// Field names are as in `bench --json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Row {
    pub(super) bench: &'static str,
    pub(super) case: String,
    pub(super) threads: u32,
    pub(super) reference: Option<&'static str>,
    pub(super) subject_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject_ns_min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject_ns_max: Option<f64>,
    pub(super) reference_ns: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) ratio_min: Option<f64>,
    pub(super) ratio_max: Option<f64>,
    /// Reference / subject, the median of all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_ratio: Option<f64>,
    /// Device bytes per byte of a file read once, the maximum of all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_bytes_per_byte: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skipped: Option<String>,
}

impl Row {
    pub(super) fn measured(
        identity: Identity<'_>,
        reference: &'static str,
        subject: &Samples,
        other: &Samples,
    ) -> Row {
        let ratios = subject.ratios_to(other);
        let (ratio_min, ratio_max) = ratios.range();
        Row {
            reference: Some(reference),
            reference_ns: Some(other.median()),
            ratio: Some(ratios.median()),
            ratio_min,
            ratio_max,
            ..Row::alone(identity, subject)
        }
    }

    pub(super) fn alone(identity: Identity<'_>, subject: &Samples) -> Row {
        let (subject_ns_min, subject_ns_max) = subject.range();
        let subject_ns = Some(subject.median());
        Row { subject_ns, subject_ns_min, subject_ns_max, ..Row::empty(identity) }
    }

    pub(super) fn skipped(identity: Identity<'_>, reference: &'static str, why: String) -> Row {
        terminal::note(&format!("{} {}: skipped: {why}", identity.0, identity.1));
        Row { reference: Some(reference), skipped: Some(why), ..Row::empty(identity) }
    }

    fn empty((bench, case, threads): Identity<'_>) -> Row {
        Row {
            bench,
            case: case.to_owned(),
            threads,
            reference: None,
            subject_ns: None,
            subject_ns_min: None,
            subject_ns_max: None,
            reference_ns: None,
            ratio: None,
            ratio_min: None,
            ratio_max: None,
            cpu_ratio: None,
            device_bytes_per_byte: None,
            skipped: None,
        }
    }

    pub(super) fn note_spread(&self) {
        let what = format!("{} {} x{}", self.bench, self.case, self.threads);
        let times = match (self.subject_ns_min, self.subject_ns_max) {
            (Some(low), Some(high)) => format!("{low:.1} to {high:.1} {}", self.unit()),
            _ => return,
        };
        match (self.reference, self.ratio_min, self.ratio_max) {
            (Some(reference), Some(low), Some(high)) => terminal::note(&format!(
                "{what} against {reference}: ratio {low:.2} to {high:.2}, {times} over the runs"
            )),
            _ => terminal::note(&format!("{what}: {times} over the runs")),
        }
    }

    /// Turns a policy or tuning at the end of the case into the subject.
    pub(super) fn to_result(&self, runs: u32) -> Option<Measured> {
        let words: Vec<&str> = self.case.split(' ').collect();
        let (last, before) = words.split_last()?;
        let is_subject = last.parse::<PolicyName>().is_ok() || last.parse::<PcpTuning>().is_ok();
        let (subject, before) = if is_subject { (*last, before) } else { ("pagetide", &words[..]) };
        let case = format!("{} {}", self.bench, before.join(" "));
        Some(Measured {
            case: format!("{}, x{}", case.trim_end(), self.threads),
            subject: subject.to_owned(),
            unit: self.unit(),
            runs,
            median: self.subject_ns?,
            min: self.subject_ns_min?,
            max: self.subject_ns_max?,
            reference: self.reference.map(str::to_owned),
            reference_median: self.reference_ns,
            ratio: self.ratio,
            ratio_min: self.ratio_min,
            ratio_max: self.ratio_max,
            ..Measured::default()
        })
    }

    fn unit(&self) -> &'static str {
        // A policy may follow.
        match self.case.split(' ').next().unwrap_or_default() {
            "locked" => "frames",
            case if case.ends_with("-memory") || case.ends_with("-device") => "bytes",
            _ => "ns",
        }
    }

    fn remark(&self) -> String {
        match (self.device_bytes_per_byte, self.cpu_ratio, &self.skipped) {
            (Some(bytes), _, _) => format!(" device {bytes:.3}x the file"),
            (None, Some(ratio), _) => format!(" ratio of CPU times {ratio:.2}"),
            (None, None, Some(why)) => format!(" skipped: {why}"),
            (None, None, None) if self.unit() == "bytes" => " bytes".to_owned(),
            (None, None, None) => String::new(),
        }
    }
}

pub(super) fn table(rows: &[Row]) -> Table<'static> {
    let columns = [
        left("bench", 6),
        left("case", 16),
        right("threads", 7),
        right("reference", 10),
        right("subject ns", 12),
        right("reference ns", 13),
        right("ratio", 7),
        left("", 0),
    ];
    let cells_of = |row: &Row| {
        cells![
            row.bench,
            row.case,
            row.threads,
            row.reference.unwrap_or("-"),
            number(row.subject_ns, 1),
            number(row.reference_ns, 1),
            number(row.ratio, 2),
            row.remark(),
        ]
    };
    Table::new(&columns).with_rows(rows.iter().map(cells_of))
}
