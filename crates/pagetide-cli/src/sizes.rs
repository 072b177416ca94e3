//! Memory sizes on the command line: `--memory 64M,128M`, or `--frames 1000,5000`.

use crate::failure::Failure;
use crate::terminal;
use pagetide_core::units::Bytes;

/// The flags; one of them is needed, unless the command knows a size without.
#[derive(Debug, clap::Args)]
pub(crate) struct SizeArgs {
    /// Memory sizes, as in 64M,128M.
    #[arg(long, value_delimiter = ',', value_parser = terminal::parse_size)]
    memory: Vec<Bytes>,
    /// Memory sizes in frames of 4 KiB, as in 1000,5000.
    #[arg(long, value_delimiter = ',', conflicts_with = "memory")]
    frames: Vec<u32>,
}

impl SizeArgs {
    /// Returns the sizes in frames. Refuses zero sizes, zero frames and too many frames.
    pub(crate) fn frames(&self) -> Result<Vec<u32>, Failure> {
        if self.memory.is_empty() && self.frames.is_empty() {
            return Err(Failure::Usage(
                "how much memory? --memory 64M or --frames 1000 says so".to_owned(),
            ));
        }
        let of_memory = self.memory.iter().map(|memory| {
            u32::try_from(memory.whole_pages()).map_err(|_| {
                Failure::Usage(format!(
                    "--memory {memory} is too large: a replay has at most 2^32 - 1 frames of 4 KiB"
                ))
            })
        });
        let frames = self.frames.iter().copied().map(Ok);
        let sizes = of_memory.chain(frames).collect::<Result<Vec<u32>, _>>()?;
        if sizes.contains(&0) {
            return Err(Failure::Usage(
                "a memory of no frame holds nothing: use at least 4K, or --frames 1".to_owned(),
            ));
        }
        Ok(sizes)
    }

    /// Refuses several sizes.
    pub(crate) fn only_frames(&self) -> Result<u32, Failure> {
        match self.frames()?[..] {
            [frames] => Ok(frames),
            _ => Err(Failure::Usage("this command takes one memory size".to_owned())),
        }
    }
}
