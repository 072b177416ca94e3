//! The other end: asking a cache, of this process or another.

use crate::api::control::request::{Answer, ControlRequest, Reply};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Asks the cache whose socket is at `path`; waits for its answer, at most `timeout` for each part.
///
/// # Errors
/// [`AskError`].
pub fn ask(path: &Path, request: &ControlRequest, timeout: Duration) -> Result<Answer, AskError> {
    let socket = UnixStream::connect(path).map_err(AskError::Connect)?;
    let line = exchange(socket, request, timeout).map_err(AskError::Exchange)?;
    if line.is_empty() {
        return Err(AskError::Closed);
    }
    match serde_json::from_slice(&line) {
        Ok(Reply::Ok(answer)) => Ok(answer),
        Ok(Reply::Error(sentence)) => Err(AskError::Refused(sentence)),
        Err(error) => Err(AskError::Garbled(error.to_string())),
    }
}

fn exchange(
    mut socket: UnixStream,
    request: &ControlRequest,
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    socket.write_all(&request.encode())?;
    let mut line = Vec::new();
    BufReader::new(socket).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No cache listens there, or it is another user's.
    #[error("no cache can be asked there: {0}")]
    Connect(#[source] io::Error),
    /// The answer did not come, or not in time.
    #[error("the cache did not answer: {0}")]
    Exchange(#[source] io::Error),
    /// It ended without an answer: its process did, or the request was too long.
    #[error("the cache closed the connection without an answer")]
    Closed,
    /// The answer is of another version.
    #[error("the answer is of another version of pagetide: {0}")]
    Garbled(String),
    /// The cache says no; in its words.
    #[error("{0}")]
    Refused(String),
}
