//! A private instance of the kernel's tracing, for one process and its children.
//!
//! An instance has its own events, filters and buffers, so other tracing is undisturbed. Drop
//! removes the instance. The next run removes leftovers of a killed one.
//!
//! Source: the kernel's documentation, "ftrace" and "Event Tracing".

use crate::failure::Failure;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The current and the old mount point.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENTS: [&str; 4] = [
    "mm_filemap_get_pages",
    "mm_filemap_fault",
    "mm_filemap_add_to_page_cache",
    "mm_filemap_delete_from_page_cache",
];
/// Size per CPU: some 300 000 events.
const BUFFER_KIB: u32 = 16 << 10;
const PREFIX: &str = "pagetide-";

pub(super) struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Makes an instance without a traced process. Fails with a usage error if the user or the
    /// kernel cannot trace.
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

    /// Includes future children.
    pub(super) fn follow(&self, process: u32) -> Result<(), Failure> {
        self.set("set_event_pid", &process.to_string())?;
        self.set("tracing_on", "1")
    }

    /// Opens the nonblocking text pipe.
    pub(super) fn open_pipe(&self) -> Result<File, Failure> {
        let path = self.folder.join("trace_pipe");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(&path, flags, Mode::empty());
        pipe.map(File::from).map_err(|error| Failure::on_path("read", &path, &error.into()))
    }

    /// Stops tracing. Recorded events stay readable.
    pub(super) fn stop(&self) {
        // A failure is harmless: drop removes the instance anyway.
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

/// Removes instances of dead processes.
fn remove_left_over(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.filter_map(io::Result::ok) {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_gone = |process: &str| {
            process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists()
        };
        if process.is_some_and(is_gone) {
            // Another pagetide may have removed the instance.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
