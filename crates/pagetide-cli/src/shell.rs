//! Shell completions and manual pages, generated from the definitions of `--help`.

use crate::failure::Failure;
use crate::terminal;
use clap::Command;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// A command of `cargo x dist`.
pub(crate) const MANUALS: &str = "manuals";

const EXAMPLES: &str = "Examples:
  source <(pagetide completions bash)                                       # for this shell
  pagetide completions bash > ~/.local/share/bash-completion/completions/pagetide
  pagetide completions zsh > ~/.zfunc/_pagetide              # a folder of $fpath
  pagetide completions fish > ~/.config/fish/completions/pagetide.fish";

/// Print what a shell needs to complete the command line.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Write a manual page for each command.
#[derive(Debug, clap::Args)]
pub(crate) struct ManualsArgs {
    /// The folder, which exists.
    folder: PathBuf,
}

pub(crate) fn complete(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "pagetide", &mut text);
    terminal::print(&String::from_utf8_lossy(&text))
}

/// Writes `pagetide.1`, `pagetide-run.1` and so on.
pub(crate) fn write_manuals(args: &ManualsArgs, command: Command) -> Result<(), Failure> {
    let folder: &Path = &args.folder;
    let written = clap_mangen::generate_to(command, folder);
    written.map_err(|error| Failure::on_path("write manual pages to", folder, &error))
}
