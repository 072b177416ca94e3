//! The screen: all caches at the top, the chosen cache below.
//!
//! ```text
//!   pid policy memory used ... name          one row per cache, the chosen cache marked
//!   hits, sizes, setting, tiers, groups      of the chosen cache
//!   files                                    with the most bytes read, of the chosen cache
//! ```

use super::keys::Key;
use super::look::{COLUMNS, Looks, Seen, nothing};
use crate::ctl::latency;
use crate::machine::rounded;
use crate::table::percent;
use pagetide::control::StatsDocument;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

#[derive(Debug, Default)]
pub(super) struct View {
    nth: usize,
}

impl View {
    pub(super) fn choose_among(&mut self, nr: usize) {
        self.nth = self.nth.min(nr.saturating_sub(1));
    }

    pub(super) fn press(&mut self, key: Key) {
        match key {
            Key::Up => self.nth = self.nth.saturating_sub(1),
            Key::Down => self.nth += 1,
            Key::End => {}
        }
    }
}

/// The maximum of rows, the chosen cache included.
const ROWS_MAX: usize = 10;

pub(super) fn draw(frame: &mut Frame<'_>, looks: &Looks, view: &View) {
    let seen = looks.seen();
    let nr_rows = seen.len().min(ROWS_MAX);
    let heights = [Constraint::Length(nr_rows as u16 + 1), Constraint::Min(0)];
    let [above, below] = Layout::vertical(heights).areas(frame.area());
    let Some(chosen) = seen.get(view.nth) else {
        frame.render_widget(Paragraph::new(nothing()), frame.area());
        return;
    };
    let first = (view.nth + 1).saturating_sub(ROWS_MAX);
    draw_caches(frame, above, &seen[first..], view.nth - first);
    match &chosen.stats {
        Ok(stats) => draw_one(frame, below, stats),
        Err(why) => frame.render_widget(Paragraph::new(why.as_str()), below),
    }
}

fn draw_caches(frame: &mut Frame<'_>, area: Rect, seen: &[Seen], chosen: usize) {
    let head = COLUMNS.iter().map(|column| column.aligned(column.head(), column.width()));
    let head = Row::new(head.chain(["name".to_owned()])).style(Modifier::BOLD);
    let row = |(nth, one): (usize, &Seen)| {
        let name = one.stats.as_ref().map_or("(no answer)", |stats| stats.name.as_str()).to_owned();
        let cells = COLUMNS
            .iter()
            .zip(one.cells())
            .map(|(column, cell)| column.aligned(&cell, column.width()));
        let row = Row::new(cells.map(Cell::from).chain([Cell::from(name)]));
        row.style(if nth == chosen { Modifier::REVERSED.into() } else { Style::default() })
    };
    let widths = COLUMNS.iter().map(|column| Constraint::Length(column.width() as u16));
    let widths = widths.chain([Constraint::Min(4)]);
    let rows = seen.iter().take(ROWS_MAX).enumerate().map(row);
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

fn draw_one(frame: &mut Frame<'_>, area: Rect, stats: &StatsDocument) {
    let lines: Vec<Line<'_>> = describe(stats).into_iter().map(Line::from).collect();
    let height = Constraint::Length(lines.len() as u16 + 2);
    let [state, files] = Layout::vertical([height, Constraint::Min(0)]).areas(area);
    let title = format!(" {} ({}) ", stats.name, stats.pid);
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Paragraph::new(lines).block(block), state);
    let rows =
        stats.files.iter().map(|it| format!("{:>8}  {}", rounded(it.device_read_bytes), it.file));
    let rows: Vec<Line<'_>> = rows.map(Line::from).collect();
    let block = Block::new().borders(Borders::TOP).title(" read of files, so far ");
    frame.render_widget(Paragraph::new(rows).block(block), files);
}

fn describe(stats: &StatsDocument) -> Vec<String> {
    let sizes = stats.hit_ratios.iter().map(|it| {
        let error = percent(it.hit_ratio_error, 1);
        format!("with {}: {} +- {error}", rounded(it.memory_bytes), percent(it.hit_ratio, 1))
    });
    let mut lines = vec![
        format!(
            "hits      {} of {} accesses so far; {}",
            percent(stats.hit_ratio, 1),
            stats.accesses,
            sizes.collect::<Vec<_>>().join(", ")
        ),
        format!("waits     {}", latency(stats)),
        format!(
            "reclaim   {} evictions, {} refaults, {} ms of CPU time",
            stats.evictions,
            stats.refaults,
            stats.reclaim_cpu_ns / 1_000_000
        ),
    ];
    if let Some(setting) = &stats.setting {
        lines.push(format!("setting   {}: {}", setting.in_charge, setting.why));
    }
    lines.extend(stats.tiers.iter().map(|it| {
        format!(
            "tier      {}: {} in use, {} served",
            it.tier,
            rounded(it.resident_bytes),
            it.served
        )
    }));
    lines.extend(stats.groups.iter().map(|it| {
        let limit = it.limit_bytes.map_or_else(|| "no limit".to_owned(), rounded);
        let ratio = it.hits as f64 / (it.hits + it.misses).max(1) as f64;
        let used = rounded(it.usage_bytes);
        format!("group     {}: {used} of {limit}, hits {}", it.name, percent(ratio, 1))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide::control::SocketPlace;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn seen(pid: u32, name: &str) -> Seen {
        let stats = serde_json::from_value(json!({
            "pid": pid, "name": name, "policy": "pagetide", "memory_bytes": 8 << 20,
            "accesses": 1000, "hits": 900, "hit_ratio": 0.9,
            "setting": {"in_charge": "protect", "why": "it lost less", "changes": 1},
            "hit_ratios": [{"memory_bytes": 16 << 20, "hit_ratio": 0.95, "hit_ratio_error": 0.01}],
            "files": [{"file": "/data/big.db", "device_read_bytes": 1 << 20}],
            "groups": [{"name": "scans", "limit_bytes": 1 << 20, "min_bytes": 0, "low_bytes": 0,
                        "usage_bytes": 4096, "hits": 1, "misses": 1, "refaults": 0,
                        "evictions": 0}],
        }));
        Seen {
            place: SocketPlace { pid, path: "/x".into() },
            stats: Ok(stats.expect("a document")),
            at: std::time::Instant::now(),
            lately: super::super::look::Lately { hit_ratio: Some(0.5), ..Default::default() },
        }
    }

    fn screen(looks: &Looks, view: &View, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, looks, view)).expect("it draws");
        terminal.backend().to_string()
    }

    #[test]
    fn the_chosen_cache_is_told_of_below_all() {
        let looks = Looks::of(vec![seen(7, "first job"), seen(8, "second job")]);
        let mut view = View::default();
        view.press(Key::Down);
        view.press(Key::Down);
        view.choose_among(2);
        let text = screen(&looks, &view, 120);
        for part in [
            "first job",
            " second job (8) ",
            "50.0",
            "with 16.0 MiB: 95.0",
            "protect: it lost less",
            "scans: 4.0 KiB of 1.0 MiB, hits 50.0",
            "/data/big.db",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert!(!text.contains("first job (7)"));
    }

    #[test]
    fn any_size_is_drawn_and_no_cache_is_said() {
        let many = Looks::of((0..40).map(|pid| seen(pid, "job")).collect());
        for width in [1, 10, 40, 300] {
            screen(&many, &View { nth: 39 }, width);
        }
        assert!(screen(&many, &View { nth: 39 }, 100).contains(" job (39) "));
        assert!(screen(&Looks::default(), &View::default(), 100).contains("no cache of this user"));
    }
}
