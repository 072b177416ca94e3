//! The answer to a request: a reply with bytes and descriptors.

use crate::errno::Errno;
use crate::wire::{Reply, Status};
use std::fs::File;
use std::sync::Arc;

/// A reply with bytes and descriptors.
pub(super) struct Answer {
    pub(super) reply: Reply,
    /// Number of bytes of the target buffer to send.
    pub(super) nr_out: usize,
    /// Descriptors to send.
    pub(super) files: Vec<Arc<File>>,
}

pub(super) type Outcome = Result<Answer, Errno>;

/// Stands for a request that only the kernel can answer. The server hands the file over, and the
/// program repeats the call in the kernel. No call on a regular file fails with this error number.
pub(super) const ONLY_KERNEL: Errno = Errno::NOTBLK;

impl Answer {
    /// Makes an answer without bytes or descriptors.
    pub(super) fn of(reply: Reply) -> Answer {
        Answer { reply, nr_out: 0, files: Vec::new() }
    }

    pub(super) fn kernel(real: Option<Arc<File>>) -> Answer {
        Answer { files: real.into_iter().collect(), ..Answer::of(Reply::status(Status::Kernel)) }
    }

    /// Makes the answer for a descriptor that is not managed.
    pub(super) fn stranger() -> Answer {
        Answer::of(Reply::status(Status::Stranger))
    }

    /// Makes the answer to a call that fails with `errno`.
    pub(super) fn failed(errno: Errno) -> Answer {
        Answer::of(Reply::done(-i64::from(errno.raw_os_error())))
    }
}

/// Makes a successful answer with a result, and without bytes or descriptors.
pub(super) fn done(result: u64) -> Outcome {
    Ok(Answer::of(Reply::done(result as i64)))
}
