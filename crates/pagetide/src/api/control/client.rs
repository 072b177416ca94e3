//! The client: requests to a cache of this or another process.

use crate::api::control::request::{Answer, ControlRequest, Reply};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Sends a request to the socket at `path`. Waits for the answer, at most `timeout` for each part.
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

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No cache listens there, or it belongs to another user.
    #[error("no cache can be asked there: {0}")]
    Connect(#[source] io::Error),
    /// The answer was late or incomplete.
    #[error("the cache did not answer: {0}")]
    Exchange(#[source] io::Error),
    /// The connection closed without an answer: the process ended, or the request was too long.
    #[error("the cache closed the connection without an answer")]
    Closed,
    /// The answer is from another version.
    #[error("the answer is of another version of pagetide: {0}")]
    Garbled(String),
    /// The cache refused, with this message.
    #[error("{0}")]
    Refused(String),
}
