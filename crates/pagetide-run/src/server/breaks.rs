//! Another opener of a file of ours waits: the file is written back, and the kernel's.
//!
//! ```text
//!   outsider   open(..) ------------- waits -------------> goes on, sees every byte
//!   kernel       signal to us                      ^
//!   here                 written back, dropped, lease given up
//! ```
//!
//! What cannot be written back is tried again for as long as the kernel lets us, and is lost after
//! that: the other process would otherwise have the file beside us. The user is told how much.

use super::Server;
use super::identity::lock;
use super::served_file::{Hands, ServedFile};
use crate::wire::Reason;
use pagetide_sys::lease::{self, Break, Breaks, LeaseKind, LeaseListener};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The kernel takes the lease away after 45 seconds, unless the machine is set otherwise.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Which file each lease is on.
#[derive(Default)]
pub(super) struct Leases {
    by_descriptor: Mutex<HashMap<RawFd, Weak<ServedFile>>>,
    /// The thread of [`watch`], once it listens.
    listener: OnceLock<LeaseListener>,
}

impl Leases {
    /// Takes a lease on `real`, which is of `file`.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn take(
        &self,
        real: &File,
        kind: LeaseKind,
        file: &Arc<ServedFile>,
    ) -> Result<(), Reason> {
        let listener = *self.listener.get().ok_or(Reason::Unleased)?;
        lock(&self.by_descriptor).insert(real.as_raw_fd(), Arc::downgrade(file));
        lease::take(real.as_fd(), kind, listener).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Reason::Outside,
            _ => Reason::Unleased,
        })
    }

    /// Has [`watch`] look whether it is to go on.
    pub(super) fn wake(&self) {
        if let Some(listener) = self.listener.get() {
            listener.wake();
        }
    }

    fn find(&self, real: RawFd) -> Option<Arc<ServedFile>> {
        lock(&self.by_descriptor).get(&real).and_then(Weak::upgrade)
    }

    fn all(&self) -> Vec<Arc<ServedFile>> {
        let mut by_descriptor = lock(&self.by_descriptor);
        by_descriptor.retain(|_, file| file.strong_count() > 0);
        by_descriptor.values().filter_map(Weak::upgrade).collect()
    }
}

/// Hears of broken leases until the server stops; each is answered by a thread of its own, so
/// that one slow device does not keep others waiting.
pub(super) fn watch(server: &Arc<Server>, ready: &Sender<std::io::Result<()>>) {
    let breaks = match Breaks::new() {
        Ok(breaks) => breaks,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = server.leases.listener.set(breaks.listener());
    let _ = ready.send(Ok(()));
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !server.is_stopping() {
        let files = match breaks.wait() {
            Break::Of(real) => server.leases.find(real).into_iter().collect(),
            Break::Unknown => server.leases.all(),
        };
        if server.is_stopping() {
            // That was why: whatever is still ours is let go of with all the rest.
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        for file in files {
            let own = Arc::clone(server);
            let for_thread = Arc::clone(&file);
            let thread = std::thread::Builder::new().name("pagetide-lease".into());
            match thread.spawn(move || give_up(&own, &for_thread)) {
                Ok(thread) => threads.push(thread),
                Err(_) => give_up(server, &file),
            }
        }
    }
    for thread in threads {
        // The page cache ends with its last user, and the record with the page cache: none may be
        // left when the run ends. One that panicked has said so.
        let _ = thread.join();
    }
}

/// Lets the opener of the file go on.
fn give_up(server: &Server, file: &ServedFile) {
    let began = Instant::now();
    loop {
        let mut state = file.state.write().expect("no holder panics");
        let Hands::Ours(opened) = &*state else { return };
        if lease::is_whole(opened.real.as_fd(), opened.kind) {
            // It was another's, of a descriptor that had the number before.
            return;
        }
        let Err(errno) = file.hand_over(&mut state) else {
            server.count_kernel_file(file, Reason::Outside);
            return;
        };
        if began.elapsed() >= PATIENCE {
            let name = server.name_of(file);
            file.hand_over_at_once(&mut state);
            server.note_lost(&format!(
                "pagetide: what was not written back of {name} is lost: {errno}, for {} s, while \
                 another program waited to open the file; make room, and check the file",
                PATIENCE.as_secs()
            ));
            return;
        }
        drop(state);
        std::thread::sleep(PAUSE);
    }
}
