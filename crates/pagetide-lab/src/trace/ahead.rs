//! Read-ahead on a second thread: decompression runs beside parsing.
//!
//! ```text
//!   the thread   [chunk] [chunk] --> | two are ready | --> [chunk] being parsed
//!                      ^------------- empty chunks return <--------'
//! ```
//!
//! Data and invariants: bytes and the final error come in order. An empty chunk marks the end. The
//! thread exits at the end, or at its next chunk after the drop of [`Ahead`]. Nobody joins the
//! thread, as its reader may block.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

const CHUNK_BYTES: usize = 64 << 10;
const NR_READY: usize = 2;

type Chunk = io::Result<Vec<u8>>;

pub(super) struct Ahead {
    ready: Receiver<Chunk>,
    spent: Sender<Vec<u8>>,
    chunk: Vec<u8>,
    nr_used: usize,
    is_over: bool,
}

impl Ahead {
    /// Reads `reader` on a new thread.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(super) fn start(reader: impl Read + Send + 'static) -> io::Result<Ahead> {
        let (sender, ready) = sync_channel(NR_READY);
        let (spent, empty) = channel();
        let name = "pagetide-unpack".to_owned();
        thread::Builder::new().name(name).spawn(move || send_all(reader, &sender, &empty))?;
        Ok(Ahead { ready, spent, chunk: Vec::new(), nr_used: 0, is_over: false })
    }
}

fn send_all(mut reader: impl Read, ready: &SyncSender<Chunk>, empty: &Receiver<Vec<u8>>) {
    loop {
        let mut chunk = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES));
        chunk.clear();
        let read = (&mut reader).take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
        let is_last = read.is_err() || chunk.is_empty();
        // The bytes read before an error are sent before the error.
        if read.is_err() && !chunk.is_empty() && ready.send(Ok(chunk.split_off(0))).is_err() {
            return;
        }
        if ready.send(read.map(|_| chunk)).is_err() || is_last {
            return;
        }
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.nr_used == self.chunk.len() && !self.is_over {
            let gone = || io::Error::other("the thread that decompresses has ended");
            let next = self.ready.recv().map_err(|_| gone())??;
            self.is_over = next.is_empty();
            // The send fails if the thread has exited, and then the spent chunk is not needed.
            let _ = self.spent.send(std::mem::replace(&mut self.chunk, next));
            self.nr_used = 0;
        }
        Ok(&self.chunk[self.nr_used..])
    }

    fn consume(&mut self, nr_bytes: usize) {
        self.nr_used = self.chunk.len().min(self.nr_used + nr_bytes);
    }
}

impl Read for Ahead {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let nr_read = self.fill_buf()?.read(bytes)?;
        self.consume(nr_read);
        Ok(nr_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let nr_read = self.0.min(bytes.len());
            self.0 -= nr_read;
            bytes[..nr_read].fill(7);
            if nr_read == 0 { Err(io::Error::other("damaged")) } else { Ok(nr_read) }
        }
    }

    #[test]
    fn bytes_come_in_order_and_end_once() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let mut ahead = Ahead::start(io::Cursor::new(bytes.clone())).expect("a thread");
        let mut read = Vec::new();
        ahead.read_to_end(&mut read).expect("no errors");
        assert!(read == bytes);
        assert_eq!(ahead.read(&mut [0; 8]).expect("the end stays"), 0);
    }

    #[test]
    fn what_comes_before_an_error_is_read_before_it() {
        let nr_bytes = CHUNK_BYTES + 10;
        let mut ahead = Ahead::start(Failing(nr_bytes)).expect("a thread");
        let mut read = vec![0; nr_bytes];
        ahead.read_exact(&mut read).expect("they are there");
        let error = ahead.read(&mut [0; 8]).expect_err("damaged");
        assert_eq!(error.to_string(), "damaged");
    }

    #[test]
    fn a_reader_that_is_not_wanted_any_more_is_dropped() {
        let dropped = std::sync::Arc::new(());
        struct Endless(#[expect(dead_code, reason = "counted")] std::sync::Arc<()>);
        impl Read for Endless {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
        }
        let mut ahead = Ahead::start(Endless(std::sync::Arc::clone(&dropped))).expect("a thread");
        ahead.read_exact(&mut [0; 100]).expect("endless");
        drop(ahead);
        while std::sync::Arc::strong_count(&dropped) > 1 {
            thread::yield_now();
        }
    }
}
