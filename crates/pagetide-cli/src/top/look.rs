//! Statistics of all caches, and their rates between two requests.

use crate::ctl::PATIENCE;
use crate::document::Document;
use crate::failure::Failure;
use crate::machine::rounded;
use crate::table::{Column, Table, cells, left, number, percent, right};
use crate::terminal;
use pagetide::control::{self, Answer, ControlRequest, SocketPlace, StatsDocument, ask};
use std::time::Instant;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) place: SocketPlace,
    /// The statistics, or the reason for a missing answer.
    pub(super) stats: Result<StatsDocument, String>,
    pub(super) at: Instant,
    /// Since the previous answer, or since the cache's start.
    pub(super) lately: Lately,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Lately {
    /// `None` without accesses.
    pub(super) hit_ratio: Option<f64>,
    /// Rate per second, or the total after the first answer.
    pub(super) accesses: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
    pub(super) refaults: f64,
    /// Mean read wait.
    pub(super) wait_us: Option<f64>,
}

impl Lately {
    fn between(before: Option<(&StatsDocument, f64)>, now: &StatsDocument) -> Lately {
        let nothing = StatsDocument::default();
        let (before, seconds) = before.unwrap_or((&nothing, 1.0));
        let more = |of: fn(&StatsDocument) -> u64| of(now).saturating_sub(of(before)) as f64;
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        Lately {
            hit_ratio: ratio(more(|it| it.hits), more(|it| it.accesses)),
            accesses: more(|it| it.accesses) / seconds,
            read_bytes: more(|it| it.device_read_bytes) / seconds,
            write_bytes: more(|it| it.device_write_bytes) / seconds,
            refaults: more(|it| it.refaults) / seconds,
            wait_us: ratio(more(|it| it.read_times.sum_ns) / 1e3, more(|it| it.read_times.count)),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    seen: Vec<Seen>,
}

pub(super) const COLUMNS: [Column<'_>; 10] = [
    right("pid", 7),
    left("policy", 15),
    right("memory", 10),
    right("used", 10),
    right("dirty", 10),
    right("hits", 7),
    right("read", 10),
    right("written", 10),
    right("refaults", 8),
    right("wait us", 8),
];

impl Looks {
    #[cfg(test)]
    pub(super) fn of(seen: Vec<Seen>) -> Looks {
        Looks { seen }
    }

    pub(super) fn seen(&self) -> &[Seen] {
        &self.seen
    }

    pub(super) fn look(&mut self) -> Result<(), Failure> {
        let places = control::list().map_err(|error| Failure::on("look for caches", &error))?;
        self.seen = places.into_iter().filter_map(|place| self.ask(place)).collect();
        Ok(())
    }

    /// Returns `None` if the process has ended.
    fn ask(&self, place: SocketPlace) -> Option<Seen> {
        let answer = ask(&place.path, &ControlRequest::Stats, PATIENCE);
        let at = Instant::now();
        let stats = match answer {
            Ok(Answer::Stats(stats)) => Ok(*stats),
            Ok(_) => Err("its answer is of another version".to_owned()),
            Err(control::AskError::Connect(_) | control::AskError::Closed) => return None,
            Err(error) => Err(error.to_string()),
        };
        let before = self.seen.iter().find(|seen| seen.place == place);
        let before = before.and_then(|seen| {
            let seconds = at.duration_since(seen.at).as_secs_f64().max(1e-3);
            seen.stats.as_ref().ok().map(|stats| (stats, seconds))
        });
        let lately =
            stats.as_ref().map_or_else(|_| Lately::default(), |now| Lately::between(before, now));
        Some(Seen { place, stats, at, lately })
    }

    pub(super) fn print_json(&self) -> Result<(), Failure> {
        let caches: Vec<&StatsDocument> =
            self.seen.iter().filter_map(|seen| seen.stats.as_ref().ok()).collect();
        terminal::print(&Document::new("pagetide.top/1", caches).to_text()?)
    }

    /// Formats a table for output without a terminal.
    pub(super) fn text(&self) -> String {
        if self.seen.is_empty() {
            return format!("{}\n", nothing());
        }
        let columns: Vec<Column<'_>> = COLUMNS.into_iter().chain([left("name", 0)]).collect();
        let row = |seen: &Seen| {
            let name = seen.stats.as_ref().map_or_else(Clone::clone, |stats| stats.name.clone());
            [seen.cells(), vec![name]].concat()
        };
        Table::new(&columns).spaced("", " ").with_rows(self.seen.iter().map(row)).to_text()
    }
}

/// Explains an empty list of caches.
pub(super) fn nothing() -> String {
    let folder = control::folder();
    format!("no cache of this user can be looked at: there is no socket in {}", folder.display())
}

impl Seen {
    /// Returns cells in the order of [`COLUMNS`].
    pub(super) fn cells(&self) -> Vec<String> {
        let Ok(stats) = &self.stats else {
            let mut cells = vec![String::new(); COLUMNS.len()];
            cells[0] = self.place.pid.to_string();
            return cells;
        };
        let lately = &self.lately;
        cells![
            stats.pid,
            stats.policy,
            rounded(stats.memory_bytes),
            rounded(stats.resident_bytes),
            rounded(stats.dirty_bytes),
            lately.hit_ratio.map_or("-".to_owned(), |ratio| percent(ratio, 1)),
            rounded(lately.read_bytes as u64),
            rounded(lately.write_bytes as u64),
            number(Some(lately.refaults), 0),
            number(lately.wait_us, 0)
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let at = |hits, misses, read| {
            let mut stats = StatsDocument::default();
            (stats.hits, stats.misses, stats.accesses) = (hits, misses, hits + misses);
            stats.device_read_bytes = read;
            stats
        };
        let (before, now) = (at(100, 100, 8192), at(190, 110, 16384));
        let lately = Lately::between(Some((&before, 2.0)), &now);
        assert_eq!(lately.hit_ratio, Some(0.9));
        assert_eq!((lately.accesses, lately.read_bytes), (50.0, 4096.0));
        assert_eq!(Lately::between(Some((&now, 1.0)), &now).hit_ratio, None);
        assert_eq!(Lately::between(None, &before).hit_ratio, Some(0.5));
    }
}
