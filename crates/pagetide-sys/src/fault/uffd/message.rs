//! Faults as the descriptor tells them, to threads that wait for them.

use std::fs::File;
use std::io::{self, Read};

use crate::memory::frames::FRAME_BYTES;

const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_WRITE: u64 = 1 << 0;
const FAULT_WP: u64 = 1 << 1;
/// Bytes of one message; faults read at a time.
const MESSAGE_BYTES: usize = 32;
const MESSAGES_MAX: usize = 16;

/// A fault, as the kernel tells it. What serves it looks at the page itself: by then, the page may
/// be in another state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The address touched, rounded down to its page.
    pub address: usize,
    /// Whether it was a store, where the machine says so.
    pub is_write: Option<bool>,
}

impl Fault {
    pub(crate) fn at(address: usize, is_write: Option<bool>) -> Fault {
        Fault { address: address - address % FRAME_BYTES, is_write }
    }
}

/// What a fault finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A page that is not in memory.
    Missing,
    /// A page in memory that is not mapped.
    Minor,
    /// A page that is mapped for reading.
    WriteProtect,
}

/// Reads faults that were not told yet, without waiting; calls `each` for every one.
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

/// The fault a message tells of; `None` for events that were never asked for.
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
