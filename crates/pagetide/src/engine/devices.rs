//! Readahead windows by device, cached.

use crate::engine::limits::Limits;
use crate::engine::mapping::Mapping;
use crate::memory::locks::lock;
use crate::memory::store::Identity;
use pagetide_sys::device::read_ahead_of;
use std::sync::Mutex;

#[derive(Default)]
pub(crate) struct Devices {
    windows: Mutex<Vec<(u64, u64)>>,
}

impl Devices {
    /// Returns the largest readahead window for a file, pages.
    pub(crate) fn window_of(&self, mapping: &Mapping, limits: &Limits) -> u64 {
        let Some(Identity { dev, .. }) = mapping.identity else {
            return limits.readahead_pages(None);
        };
        let mut windows = lock(&self.windows);
        if let Some((_, window)) = windows.iter().find(|(known, _)| *known == dev) {
            return *window;
        }
        let window = limits.readahead_pages(read_ahead_of(dev));
        windows.push((dev, window));
        window
    }
}
