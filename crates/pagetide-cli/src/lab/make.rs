//! `pagetide lab make`: writes a synthetic access pattern as a trace file.
//!
//! ```text
//!   NAME --> reads --> 17\n 4\n 17\n ... --> FILE --> replay, mrc, ablate, lab why
//! ```
//!
//! Output depends only on the seed. Ignored: writes, several files, times.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::NewFile;
use pagetide_lab::made::Made;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide lab make loop15 loop15.txt
  pagetide lab make zipf99 - | pagetide replay - --memory 16M
  pagetide mrc loop15.txt --policy pagetide,lru,lirs --points 16 --svg loop15.svg
  pagetide lab make habits habits.txt
  pagetide replay habits.txt --frames 20000 --policy pagetide --explain --svg habits.svg";

/// Reads between checks of Ctrl-C.
const CHECK_EVERY: usize = 1 << 16;

/// Write one of the lab's made traces to a file, a page number a line.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MakeArgs {
    /// Which: zipf90, zipf99, zscan, loop15, shift4, zigzag, slide, habits.
    #[arg(value_parser = parse_made)]
    name: Made,
    /// Where it goes; `-` for standard output.
    file: PathBuf,
}

pub(super) fn run(args: &MakeArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let refuse = |error: io::Error| Failure::on_path("write the trace", &args.file, &error);
    let mut file = NewFile::create("the trace", &args.file)?;
    let mut out = BufWriter::new(&mut file);
    for (nth, page) in args.name.reads().enumerate() {
        if nth.is_multiple_of(CHECK_EVERY) {
            interrupt.check()?;
        }
        writeln!(out, "{page}").map_err(refuse)?;
    }
    out.flush().map_err(refuse)?;
    drop(out);
    file.finish().map(drop)
}

fn parse_made(text: &str) -> Result<Made, String> {
    let found = Made::NAMED.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, made)| made).ok_or_else(|| {
        let names = Made::NAMED.map(|(name, _)| name).join(", ");
        format!("no made trace is named {text:?}; there are {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = parse_made("loop15").expect("one of them");
        let args = MakeArgs { name, file: folder.path().join("loop15.txt") };
        let ended = run(&args, &Interrupt::already_set());
        assert!(matches!(ended, Err(Failure::Interrupted)), "{ended:?}");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "not even half a file");
    }
}
