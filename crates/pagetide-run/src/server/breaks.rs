//! Hands a managed file over to the kernel when another process opens the file.
//!
//! ```text
//!   outsider   open(..) ------------- waits ---------------> continues, sees every byte
//!   kernel       signal to the server            ^
//!   server                 written back, dropped, lease released
//! ```
//!
//! A failed write-back is repeated while the kernel's lease timeout allows. After that the bytes
//! are lost, because the server and the other process must not use the file at the same time. The
//! user gets a message.

use super::Server;
use super::identity::lock;
use super::served_file::{Ownership, ServedFile};
use crate::wire::Reason;
use pagetide_sys::lease::{self, Break, Breaks, LeaseKind, LeaseListener};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time of repeated write-backs. The kernel's default timeout of a lease is 45 seconds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// The leases of the run.
#[derive(Default)]
pub(super) struct Leases {
    by_descriptor: Mutex<HashMap<RawFd, Weak<ServedFile>>>,
    /// The signal listener of [`watch`], once ready.
    listener: OnceLock<LeaseListener>,
}

impl Leases {
    /// Takes a lease on `real`, a descriptor of `file`.
    ///
    /// # Errors
    /// Fails with the reason if the kernel grants no lease.
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

    /// Wakes [`watch`] after a stop of the server.
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

/// Waits for broken leases until the server stops. A new thread answers each break, so that a slow
/// device delays no other file.
pub(super) fn watch(server: &Arc<Server>, ready: &Sender<std::io::Result<()>>) {
    let breaks = match Breaks::new() {
        Ok(breaks) => breaks,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = server.leases.listener.set(breaks.listener());
    let _ = server.copies.listener.set(breaks.listener());
    let _ = ready.send(Ok(()));
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !server.is_stopping() {
        let files = match breaks.wait() {
            Break::Of(real) => server.leases.find(real).into_iter().collect(),
            Break::Unknown => server.leases.all(),
        };
        if server.is_stopping() {
            // The server stops. [`Server::finish`] releases all files.
            break;
        }
        threads.retain(|thread| !thread.is_finished());
        for file in files {
            let own = Arc::clone(server);
            let for_thread = Arc::clone(&file);
            let thread = std::thread::Builder::new().name("pagetide-lease".into());
            match thread.spawn(move || hand_to_opener(&own, &for_thread)) {
                Ok(thread) => threads.push(thread),
                Err(_) => hand_to_opener(server, &file),
            }
        }
    }
    for thread in threads {
        // The page cache and its record end with the last user, so no thread may outlive the run. A
        // panic has printed its message.
        let _ = thread.join();
    }
}

/// Hands the file over to the waiting opener.
fn hand_to_opener(server: &Server, file: &ServedFile) {
    let began = Instant::now();
    loop {
        let mut state = file.state.write().expect("no holder panics");
        let Ownership::Cache(opened) = &*state else { return };
        if lease::is_whole(opened.real.as_fd(), opened.kind) {
            // The broken lease belonged to an earlier descriptor with the same number.
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
