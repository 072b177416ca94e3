//! Keyboard input from a terminal that may be closed.
//!
//! Problem: crossterm's reader busy-loops at the end of a terminal. Idea: poll and read the
//! terminal directly, and fail on an end or a hang-up.
//!
//! ```text
//!   ESC [ A, ESC O A, k    up          q, ESC alone, Ctrl-C   the end
//!   ESC [ B, ESC O B, j    down        any other key          nothing
//! ```
//!
//! Ignored: sequences split between reads. A terminal writes a sequence in one piece.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const READ_BYTES: usize = 256;
const ESCAPE: u8 = 0x1b;
/// Ctrl-C in raw mode.
const INTERRUPT: u8 = 0x03;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Up,
    Down,
    End,
}

#[derive(Debug)]
pub(super) struct Keyboard(OwnedFd);

impl Keyboard {
    /// Opens standard input if a terminal, otherwise the controlling terminal.
    pub(super) fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        let terminal = match stdin.is_terminal() {
            true => stdin.as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        Ok(Keyboard(terminal))
    }

    /// Returns all keys in order. Fails if the terminal is closed.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<Vec<Key>> {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; READ_BYTES];
        match rustix::io::read(&self.0, &mut bytes) {
            Ok(0) => Err(closed()),
            Ok(nr_read) => Ok(keys_of(&bytes[..nr_read])),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal was closed")
}

fn keys_of(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'k', _) => keys.push(Key::Up),
            (b'j', _) => keys.push(Key::Down),
            (b'q' | &INTERRUPT, _) => keys.push(Key::End),
            (&ESCAPE, [b'[' | b'O', sequence @ ..]) => {
                // Parameters precede the final letter.
                let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
                let len = end.map_or(sequence.len(), |end| end + 1);
                match sequence[..len].last() {
                    Some(b'A') => keys.push(Key::Up),
                    Some(b'B') => keys.push(Key::Down),
                    _ => {}
                }
                rest = &sequence[len..];
            }
            (&ESCAPE, []) => keys.push(Key::End),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_the_bytes_of_a_terminal() {
        assert_eq!(keys_of(b"k\x1b[A\x1bOA"), [Key::Up; 3]);
        assert_eq!(keys_of(b"j\x1b[B\x1b[1;5B"), [Key::Down; 3]);
        assert_eq!(keys_of(b"\x1b[5~xj"), [Key::Down]);
        for end in [&b"q"[..], b"\x03", b"\x1b"] {
            assert_eq!(keys_of(end), [Key::End]);
        }
        assert_eq!(keys_of(b"\x1b["), []);
        assert_eq!(keys_of("\u{e4} ".as_bytes()), []);
    }
}
