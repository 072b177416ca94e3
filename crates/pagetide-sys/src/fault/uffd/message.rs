//! Fault messages of the descriptor.

use std::fs::File;
use std::io::{self, Read};

use crate::memory::frames::FRAME_BYTES;

const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_WRITE: u64 = 1 << 0;
const FAULT_WP: u64 = 1 << 1;
/// Bytes per message, and messages per read.
const MESSAGE_BYTES: usize = 32;
const MESSAGES_MAX: usize = 16;

/// A fault. The page may have changed since, so the server reads its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The address touched, rounded down to the page.
    pub address: usize,
    /// True for a store. `None` if the machine does not report it.
    pub is_write: Option<bool>,
}

impl Fault {
    pub(crate) fn at(address: usize, is_write: Option<bool>) -> Fault {
        Fault { address: address - address % FRAME_BYTES, is_write }
    }
}

/// The state of the page that caused the fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The page is not in memory.
    Missing,
    /// The page is in memory, but not mapped.
    Minor,
    /// The page is mapped read-only.
    WriteProtect,
}

pub(super) fn read_faults(mut file: &File, mut each: impl FnMut(Fault)) -> io::Result<()> {
    let mut buffer = [0; MESSAGE_BYTES * MESSAGES_MAX];
    let len = match file.read(&mut buffer) {
        Ok(len) => len,
        // Another thread was faster, or the fault was resolved meanwhile.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        Err(error) => return Err(error),
    };
    buffer[..len].chunks_exact(MESSAGE_BYTES).filter_map(parse).for_each(&mut each);
    Ok(())
}

/// Returns `None` for other events, which are never requested.
fn parse(message: &[u8]) -> Option<Fault> {
    let number = |at: usize| {
        u64::from_ne_bytes(message[at..at + 8].try_into().expect("a message has 32 bytes"))
    };
    if message[0] != EVENT_PAGEFAULT {
        return None;
    }
    let (flags, address) = (number(8), number(16) as usize);
    Some(Fault::at(address, Some(flags & (FAULT_WRITE | FAULT_WP) != 0)))
}
