//! An instance of the kernel's trace, for one process and its children.
//!
//! An instance has events, filters and buffers of its own: other tracing on this machine is not
//! disturbed. It is removed when it goes out of scope; one whose pagetide was killed is removed
//! by the next.
//!
//! Source: the kernel's documentation, "ftrace" and "Event Tracing".

use crate::failure::Failure;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where tracefs is mounted: its own place, and the one of old.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENTS: [&str; 4] = [
    "mm_filemap_get_pages",
    "mm_filemap_fault",
    "mm_filemap_add_to_page_cache",
    "mm_filemap_delete_from_page_cache",
];
/// The buffer of each CPU: some 300 000 events.
const BUFFER_KIB: u32 = 16 << 10;
const PREFIX: &str = "pagetide-";

/// An instance, until it is dropped.
pub(super) struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Makes an instance that traces no process yet.
    ///
    /// # Errors
    /// Usage, where this user or this kernel cannot trace.
    pub(super) fn create() -> Result<Instance, Failure> {
        let root = ROOTS.iter().map(Path::new).find(|root| root.join("events/filemap").is_dir());
        let Some(root) = root else {
            return Err(Failure::Usage(
                "cannot see the kernel's filemap tracepoints: it takes root, and tracefs mounted \
                 at /sys/kernel/tracing"
                    .to_owned(),
            ));
        };
        let instances = root.join("instances");
        remove_left_over(&instances);
        let folder = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| {
            Failure::Usage(format!("cannot trace: {}: {error}", folder.display()))
        })?;
        let instance = Instance { folder };
        instance.set("tracing_on", "0")?;
        instance.set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        instance.set("trace_clock", "mono")?;
        instance.set("options/event-fork", "1")?;
        for event in EVENTS {
            instance.set(&format!("events/filemap/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    /// Traces the process and its children from here on.
    pub(super) fn follow(&self, process: u32) -> Result<(), Failure> {
        self.set("set_event_pid", &process.to_string())?;
        self.set("tracing_on", "1")
    }

    /// The events, as text; reading never waits.
    pub(super) fn open_pipe(&self) -> Result<File, Failure> {
        let path = self.folder.join("trace_pipe");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(&path, flags, Mode::empty());
        pipe.map(File::from).map_err(|error| Failure::on_path("read", &path, &error.into()))
    }

    /// Nothing more is traced; what was stays to be read.
    pub(super) fn stop(&self) {
        // It would be removed all the same.
        let _ = self.set("tracing_on", "0");
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Failure> {
        let path = self.folder.join(file);
        fs::write(&path, value)
            .map_err(|error| Failure::Usage(format!("cannot trace: {}: {error}", path.display())))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            let folder = self.folder.display();
            crate::terminal::note(&format!("pagetide: {folder} is left behind: {error}"));
        }
    }
}

/// Removes instances of processes that are gone.
fn remove_left_over(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.filter_map(io::Result::ok) {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_gone = |process: &str| {
            process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists()
        };
        if process.is_some_and(is_gone) {
            // Another pagetide may have been faster.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
