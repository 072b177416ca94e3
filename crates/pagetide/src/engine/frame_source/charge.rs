//! Charges to groups, and changes of groups.
//!
//! Lock order: directory, registry, lists. A miss takes only the lists, under which it looks up the
//! mapping's group. Groups are removed under the same lock.

use crate::engine::errors::{GroupError, ResizeError};
use crate::engine::frame_source::{FrameSource, NoFrame};
use crate::engine::groups::directory::{Directory, Member, Names, path_of};
use crate::engine::groups::options::GroupOptions;
use crate::engine::mapping::Mapping;
use crate::engine::stats::counters::Counters;
use pagetide_core::driver;
use pagetide_core::group::{CreateGroupError, GroupConfig, Groups, NodeLists, RemoveGroupError};
use pagetide_core::ids::{CpuId, GroupId};
use pagetide_core::record::{GroupNote, Note};
use pagetide_core::units::Bytes;
use pagetide_sys::current_cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn groups_of(lists: &mut NodeLists) -> &mut Groups {
    lists.groups_mut().expect("invariant: a cache with a directory has groups")
}

impl FrameSource {
    /// Charges a page to the mapping's group, with reclaim below a limit. Returns the payer. A page
    /// without a frame must be [refunded](FrameSource::refund).
    #[inline]
    pub(crate) fn charge(&self, cpu: CpuId, mapping: &Mapping) -> Result<GroupId, NoFrame> {
        if self.groups.is_none() {
            return Ok(GroupId::ROOT);
        }
        self.charge_group(cpu, mapping)
    }

    #[inline(never)]
    fn charge_group(&self, cpu: CpuId, mapping: &Mapping) -> Result<GroupId, NoFrame> {
        let payer = driver::charge_group(&mut self.reclaimer(cpu), || mapping.group());
        payer.ok_or(NoFrame)
    }

    /// Returns the pages the group can have before protected memory is reclaimed. `None` without
    /// groups.
    pub(crate) fn group_room(&self, mapping: &Mapping) -> Option<u64> {
        self.groups.as_ref()?;
        let memory = self.pages.nodes.nr_frames();
        let mut lists = self.pages.nodes.first().lock_lists();
        Some(groups_of(&mut lists).tree().room(mapping.group(), memory))
    }

    pub(crate) fn room_of(&self, mapping: &Mapping) -> u64 {
        self.group_room(mapping).unwrap_or_else(|| self.pages.nodes.nr_frames())
    }

    pub(crate) fn refund(&self, payer: GroupId) {
        if self.groups.is_some() {
            groups_of(&mut self.pages.nodes.first().lock_lists()).cancel_charge(payer);
        }
    }

    pub(crate) fn counters_of(&self, mapping: &Mapping) -> Arc<Counters> {
        let member = self.groups.as_ref().and_then(|directory| directory.find(mapping.group()));
        Arc::clone(member.as_ref().map_or(&self.pages.counters, |member| &member.counters))
    }

    /// Sums the guarantees of all top-level groups except `but`.
    fn promised(groups: &Groups, but: Option<GroupId>) -> u64 {
        let tree = groups.tree();
        let is_top = |group: &GroupId| tree.parent(*group) == Some(GroupId::ROOT);
        let others = tree.subtree(GroupId::ROOT).filter(is_top).filter(|it| Some(*it) != but);
        others.map(|group| tree.config(group).min).fold(0, u64::saturating_add)
    }

    pub(crate) fn check_promised(&self, given: Bytes) -> Result<(), ResizeError> {
        let promised = |groups| Bytes::from_pages(FrameSource::promised(groups, None));
        let min = self.pages.nodes.first().lock_lists().groups().map_or(Bytes(0), promised);
        if given < min { Err(ResizeError::Promised { given, min }) } else { Ok(()) }
    }

    fn directory(&self) -> Result<&Directory, GroupError> {
        self.groups.as_deref().ok_or(GroupError::Off)
    }

    /// Rejects a guarantee to a top-level group that exceeds the memory.
    fn check_promise(
        &self,
        groups: &Groups,
        parent: GroupId,
        group: Option<GroupId>,
        config: &GroupConfig,
    ) -> Result<(), GroupError> {
        if parent != GroupId::ROOT {
            return Ok(());
        }
        let given = Bytes::from_pages(config.min);
        let others = Bytes::from_pages(FrameSource::promised(groups, group));
        let memory = Bytes(self.pages.nodes.managed_bytes());
        if config.min > 0 && given.0.saturating_add(others.0) > memory.0 {
            return Err(GroupError::Overcommitted { given, others, memory });
        }
        Ok(())
    }

    pub(crate) fn create_group(
        &self,
        parent: Option<&Member>,
        name: &str,
        options: GroupOptions,
    ) -> Result<Arc<Member>, GroupError> {
        let mut names = self.directory()?.lock();
        if names.members.iter().any(|member| member.name == name) {
            return Err(GroupError::NameTaken { name: name.to_owned() });
        }
        let config = options.check()?;
        let above = parent.map_or(GroupId::ROOT, |parent| parent.id);
        let id = {
            let mut lists = self.pages.nodes.first().lock_lists();
            let groups = groups_of(&mut lists);
            parent.map_or(Ok(()), check_online)?;
            self.check_promise(groups, above, None, &config)?;
            groups.create(above, config).map_err(|error| match (error, parent) {
                (CreateGroupError::NoParent { .. }, Some(parent)) => removed(parent),
                _ => GroupError::TooMany,
            })?
        };
        self.note_group(GroupNote::Set { group: id, parent: above, config });
        let member = Arc::new(Member {
            id,
            name: name.to_owned(),
            parent: above,
            counters: Arc::default(),
            is_removed: AtomicBool::new(false),
        });
        names.members.push(Arc::clone(&member));
        Ok(member)
    }

    pub(crate) fn set_group(
        &self,
        member: &Member,
        options: GroupOptions,
    ) -> Result<(), GroupError> {
        let names = self.directory()?.lock();
        let config = options.check()?;
        let group = member.id;
        {
            let mut lists = self.pages.nodes.first().lock_lists();
            let groups = groups_of(&mut lists);
            check_online(member)?;
            self.check_promise(groups, member.parent, Some(group), &config)?;
            groups.set_config(group, config);
        }
        self.note_group(GroupNote::Set { group, parent: member.parent, config });
        drop(names);
        driver::shrink_group(&mut self.reclaimer(current_cpu()), group);
        Ok(())
    }

    pub(crate) fn reclaim_group(
        &self,
        member: &Member,
        wanted: Bytes,
    ) -> Result<Bytes, GroupError> {
        let (group, nr_pages) = (member.id, wanted.whole_pages());
        {
            let _names = self.directory()?.lock();
            check_online(member)?;
            self.note_group(GroupNote::Reclaim { group, nr_pages });
        }
        let mut world = self.reclaimer(current_cpu());
        Ok(Bytes::from_pages(driver::reclaim_from_group(&mut world, group, nr_pages)))
    }

    pub(crate) fn remove_group(&self, member: &Member) -> Result<(), GroupError> {
        let mut names = self.directory()?.lock();
        let mappings = self.mappings.read();
        let mut lists = self.pages.nodes.first().lock_lists();
        check_online(member)?;
        groups_of(&mut lists).remove(member.id).map_err(|error| match error {
            RemoveGroupError::HasChildren { nr_children, .. } => {
                GroupError::HasChildren { name: member.name.clone(), nr_children }
            }
            _ => removed(member),
        })?;
        member.is_removed.store(true, Ordering::SeqCst);
        mappings.iter().for_each(|mapping| mapping.leave_group(member.id, member.parent));
        self.note_group(GroupNote::Remove(member.id));
        Names::remove(&mut names, member);
        Ok(())
    }

    /// Calls `look` with the groups, if `member` is not removed.
    pub(crate) fn with_group<T>(
        &self,
        member: &Member,
        look: impl FnOnce(&Groups) -> T,
    ) -> Result<T, GroupError> {
        let mut lists = self.pages.nodes.first().lock_lists();
        check_online(member)?;
        Ok(look(groups_of(&mut lists)))
    }

    /// Moves the mapping to this group, or to none, with its first handle.
    pub(crate) fn join(&self, mapping: &Mapping, member: Option<&Member>) {
        let group = member.map_or(GroupId::ROOT, |member| member.id);
        if !mapping.add_handle_in(group) || self.groups.is_none() {
            return;
        }
        if member.is_some_and(|member| member.is_removed.load(Ordering::SeqCst)) {
            // The group's removal may have missed the mapping.
            mapping.leave_group(group, GroupId::ROOT);
        }
        self.note_group(GroupNote::Join { mapping: mapping.id, group: mapping.group() });
    }

    pub(crate) fn group_paths(&self) -> impl Fn(GroupId) -> String + use<> {
        let members = self.groups.as_ref().map_or(Vec::new(), |directory| directory.members());
        move |group| path_of(&members, group)
    }

    fn note_group(&self, note: GroupNote) {
        if let Some(recorder) = &self.pages.recorder {
            recorder.note(&Note::Group(note));
        }
    }
}

fn removed(member: &Member) -> GroupError {
    GroupError::Removed { name: member.name.clone() }
}

/// Call with the lists or all names locked.
fn check_online(member: &Member) -> Result<(), GroupError> {
    if member.is_removed.load(Ordering::SeqCst) { Err(removed(member)) } else { Ok(()) }
}
