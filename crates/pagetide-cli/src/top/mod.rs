//! `pagetide top`: every cache of this user's processes, looked at once a second.
//!
//! ```text
//!   sockets --list--> caches --ask--> statistics --two looks--> rates --draw--> terminal
//! ```
//!
//! What it costs a cache is one request a second, which the cache's own thread for that answers.

mod draw;
mod look;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;
use draw::View;
use look::Looks;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Keys: up and down choose a cache, q ends. Rates are of the last interval; \
with --once, counts
are of each cache's whole life.

Examples:
  pagetide top
  pagetide top --once
  pagetide top --json | jq '.rows[] | {name, hit_ratio}'";

/// Every cache of this user's processes: hit ratio, device, refaults, groups, files, sizes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Print it once, as text.
    #[arg(long)]
    once: bool,
    /// Print it once, as one JSON document.
    #[arg(long)]
    json: bool,
    /// Seconds between two looks.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// How often keys and signals are looked for.
const TICK: Duration = Duration::from_millis(100);

/// Runs the command.
///
/// # Errors
/// Where sockets or the terminal cannot be had.
pub(crate) fn run(args: &TopArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut looks = Looks::default();
    if args.json || args.once {
        looks.look()?;
        return if args.json { looks.print_json() } else { terminal::print(&looks.text()) };
    }
    looks.look()?;
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::on("draw on this terminal (see --once)", &error))?;
    let shown = show(&mut terminal, &mut looks, Duration::from_secs(args.interval), interrupt);
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    looks: &mut Looks,
    interval: Duration,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut view = View::default();
    let mut looked_at = Instant::now();
    let on_terminal = |error: std::io::Error| Failure::on("draw on this terminal", &error);
    while !interrupt.is_set() {
        view.choose_among(looks.seen().len());
        terminal.draw(|frame| draw::draw(frame, looks, &view)).map_err(on_terminal)?;
        loop {
            if event::poll(TICK).map_err(on_terminal)? {
                match event::read().map_err(on_terminal)? {
                    Event::Key(key) if is_end(key) => return Ok(()),
                    Event::Key(key) => view.press(key.code),
                    _ => {}
                }
                break;
            }
            if interrupt.is_set() || looked_at.elapsed() >= interval {
                break;
            }
        }
        if looked_at.elapsed() >= interval {
            looks.look()?;
            looked_at = Instant::now();
        }
    }
    Ok(())
}

fn is_end(key: KeyEvent) -> bool {
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    key.kind == KeyEventKind::Press
        && (is_ctrl_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}
