//! The groups by name, and their counters outside core.
//!
//! Problem: a hit must count without a look-up. Idea: a handle counts in cells of its group. Cells
//! of a removed group stay until its handles are closed, and are then added to a plain sum.
//!
//! The directory's lock comes before the node's, and is held while a group is created or removed,
//! so that names, groups and the record agree.

use crate::engine::stats::counters::{Counters, Event};
use crate::memory::locks::lock;
use pagetide_core::ids::GroupId;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

const COUNTED: [Event; 4] = [Event::Hit, Event::Miss, Event::BypassRead, Event::WriteThrough];

pub(crate) struct Member {
    pub(crate) id: GroupId,
    pub(crate) name: String,
    pub(in crate::engine) parent: GroupId,
    pub(crate) counters: Arc<Counters>,
    /// Set once, under the lock of the lists.
    pub(crate) is_removed: AtomicBool,
}

/// All groups but the root, which has no name.
#[derive(Default)]
pub(crate) struct Directory {
    names: Mutex<Names>,
}

#[derive(Default)]
pub(in crate::engine) struct Names {
    pub(in crate::engine) members: Vec<Arc<Member>>,
    /// Counters of removed groups with open handles.
    retired: Vec<Arc<Counters>>,
    /// Sums over closed handles of removed groups, in the order of [`COUNTED`].
    gone: [u64; COUNTED.len()],
}

impl Names {
    pub(in crate::engine) fn remove(&mut self, member: &Member) {
        self.members.retain(|other| other.id != member.id);
        self.retired.push(Arc::clone(&member.counters));
    }

    /// Adds up the cells of closed handles.
    fn settle(&mut self) {
        let gone = &mut self.gone;
        self.retired.retain(|counters| {
            let is_used = Arc::strong_count(counters) > 1;
            if !is_used {
                let counts = COUNTED.map(|event| counters.collect(event));
                gone.iter_mut().zip(counts).for_each(|(sum, nr)| *sum += nr);
            }
            is_used
        });
    }
}

impl Directory {
    pub(in crate::engine) fn lock(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }

    pub(crate) fn members(&self) -> Vec<Arc<Member>> {
        self.lock().members.clone()
    }

    pub(crate) fn find(&self, id: GroupId) -> Option<Arc<Member>> {
        self.lock().members.iter().find(|member| member.id == id).cloned()
    }

    pub(crate) fn collect(&self, event: Event) -> u64 {
        let mut names = self.lock();
        names.settle();
        let nth = COUNTED.iter().position(|counted| *counted == event);
        let gone = nth.map_or(0, |nth| names.gone[nth]);
        let members = names.members.iter().map(|member| &member.counters);
        gone + members.chain(&names.retired).map(|counters| counters.collect(event)).sum::<u64>()
    }
}

/// Returns the path of a group, or the number of a removed one.
pub(in crate::engine) fn path_of(members: &[Arc<Member>], group: GroupId) -> String {
    if group == GroupId::ROOT {
        return "/".to_owned();
    }
    match members.iter().find(|member| member.id == group) {
        None => format!("/{group} (removed)"),
        Some(member) if member.parent == GroupId::ROOT => format!("/{}", member.name),
        Some(member) => format!("{}/{}", path_of(members, member.parent), member.name),
    }
}
