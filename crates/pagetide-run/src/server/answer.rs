//! What a request is answered with.

use crate::errno::Errno;
use crate::wire::{Reply, Status};
use std::fs::File;
use std::sync::Arc;

/// A reply, and what goes with it.
pub(super) struct Answer {
    pub(super) reply: Reply,
    /// Bytes of the buffer for data.
    pub(super) nr_out: usize,
    /// Descriptors.
    pub(super) files: Vec<Arc<File>>,
}

pub(super) type Outcome = Result<Answer, Errno>;

/// Stands for a request that only the kernel can answer: the file is handed over, and the kernel is
/// asked. No call on a regular file fails with this number.
pub(super) const ONLY_KERNEL: Errno = Errno::NOTBLK;

impl Answer {
    /// A reply alone.
    pub(super) fn of(reply: Reply) -> Answer {
        Answer { reply, nr_out: 0, files: Vec::new() }
    }

    pub(super) fn kernel(real: Option<Arc<File>>) -> Answer {
        Answer { files: real.into_iter().collect(), ..Answer::of(Reply::status(Status::Kernel)) }
    }

    /// The answer that a call fails.
    pub(super) fn failed(errno: Errno) -> Answer {
        Answer::of(Reply::done(-i64::from(errno.raw_os_error())))
    }
}

/// A result alone.
pub(super) fn done(result: u64) -> Outcome {
    Ok(Answer::of(Reply::done(result as i64)))
}
