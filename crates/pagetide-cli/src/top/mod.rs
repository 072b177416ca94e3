//! `pagetide top`: shows every cache of this user, queried once a second.
//!
//! ```text
//!   sockets --list--> caches --ask--> statistics --two answers--> rates --draw--> terminal
//! ```
//!
//! The command ends within a second of the terminal's close, and of SIGINT, SIGTERM and SIGHUP.

mod draw;
mod keys;
mod look;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;
use draw::View;
use keys::{Key, Keyboard};
use look::Looks;
use std::mem::ManuallyDrop;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

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

const TICK: Duration = Duration::from_millis(100);
/// The deadline for an orderly exit after a signal.
const TIME_TO_END: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &TopArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut looks = Looks::default();
    if args.json || args.once {
        looks.look()?;
        return if args.json { looks.print_json() } else { terminal::print(&looks.text()) };
    }
    // A write to a stopped or unread terminal does not return.
    let ended = interrupt.clone().end_in_time(TIME_TO_END, || {
        let _ = ratatui::crossterm::terminal::disable_raw_mode();
    });
    ended.map_err(on_thread)?;
    looks.look()?;
    let keyboard = Keyboard::open().map_err(|error| on_terminal(&error))?;
    let terminal = ratatui::try_init()
        .map_err(|error| Failure::on("draw on this terminal (see --once)", &error))?;
    // Drop prints an error if the terminal is gone, and panics if stderr is gone too.
    let mut terminal = ManuallyDrop::new(terminal);
    let looked = look_again_and_again(looks.clone(), Duration::from_secs(args.interval))?;
    let shown = Screen { keyboard, looked }.show(&mut terminal, looks, interrupt);
    // A closed terminal needs no restore.
    let _ = terminal.show_cursor();
    let _ = ratatui::try_restore();
    shown
}

fn on_terminal(error: &std::io::Error) -> Failure {
    Failure::on("draw on this terminal", error)
}

/// Asks all caches every `interval` in a thread, because a cache may answer slowly.
fn look_again_and_again(
    mut looks: Looks,
    interval: Duration,
) -> Result<Receiver<Result<Looks, Failure>>, Failure> {
    let (sender, looked) = channel();
    let look = move || {
        loop {
            std::thread::sleep(interval);
            let seen = looks.look().map(|()| looks.clone());
            let has_failed = seen.is_err();
            if sender.send(seen).is_err() || has_failed {
                return;
            }
        }
    };
    std::thread::Builder::new().name("pagetide-look".into()).spawn(look).map_err(on_thread)?;
    Ok(looked)
}

fn on_thread(error: std::io::Error) -> Failure {
    Failure::on("start a thread", &error)
}

struct Screen {
    keyboard: Keyboard,
    looked: Receiver<Result<Looks, Failure>>,
}

impl Screen {
    fn show(
        &self,
        terminal: &mut ratatui::DefaultTerminal,
        mut looks: Looks,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let mut view = View::default();
        loop {
            view.choose_among(looks.seen().len());
            terminal
                .draw(|frame| draw::draw(frame, &looks, &view))
                .map_err(|error| on_terminal(&error))?;
            let drawn = terminal.size().map_err(|error| on_terminal(&error))?;
            loop {
                if interrupt.is_set() {
                    return Ok(());
                }
                let keys = self.keyboard.wait(TICK).map_err(|error| on_terminal(&error))?;
                if keys.contains(&Key::End) {
                    return Ok(());
                }
                keys.iter().for_each(|key| view.press(*key));
                let seen = self.looked.try_recv().ok().transpose()?;
                let is_new = seen.is_some();
                looks = seen.unwrap_or(looks);
                if is_new || !keys.is_empty() || terminal.size().ok() != Some(drawn) {
                    break;
                }
            }
        }
    }
}
