//! The virtual machine of several groups.

use pagetide_core::folio::Folios;
use pagetide_core::group::{
    CreateGroupError, GlobalOrder, GroupConfig, GroupPass, Groups, GroupsConfig, UNLIMITED,
};
use pagetide_core::ids::{FrameId, GroupId, PageId, PageType};
use pagetide_core::lru::{
    AccessLog, AccessPath, AccessRule, LruConfig, Marked, PolicyName, ReclaimBatch, ReclaimKind,
    Refusal, Room, Settled, ShadowEntry, Switches, Verdict,
};
use pagetide_core::reclaim::Step;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reclaim attempts of an access for a limit, as in the kernel's charge.
const RETRIES_MAX: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct GroupsSetup {
    pub(super) policy: PolicyName,
    pub(super) switches: Switches,
    pub(super) nr_frames: u32,
    pub(super) can_swap: bool,
    /// Order of group visits in global reclaim.
    pub(super) global_order: GlobalOrder,
    pub(super) seed: u64,
}

impl GroupsSetup {
    /// Returns the default policy without swap.
    pub(super) fn new(policy: PolicyName, nr_frames: u32) -> GroupsSetup {
        GroupsSetup {
            policy,
            switches: Switches::default(),
            nr_frames,
            can_swap: false,
            global_order: GlobalOrder::Rotation,
            seed: 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum AccessOutcome {
    Hit,
    Miss,
    /// No page could be evicted. `group` is out of memory (the root: the machine).
    OutOfMemory {
        /// The group with the exceeded limit.
        group: GroupId,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct GroupCounts {
    pub(super) accesses: u64,
    pub(super) misses: u64,
    /// Evicted pages that the group paid for.
    pub(super) evictions: u64,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Shadow(ShadowEntry),
    Resident(FrameId),
}

pub(super) struct GroupsWorld {
    folios: Arc<Folios>,
    groups: Groups,
    rule: AccessRule,
    log: AccessLog,
    batch: ReclaimBatch,
    words: BTreeMap<PageId, Word>,
    free: Vec<FrameId>,
    /// By frame: accessed through a page table since the last scan.
    young: Vec<bool>,
    counts: BTreeMap<GroupId, GroupCounts>,
}

impl GroupsWorld {
    pub(super) fn new(setup: GroupsSetup) -> GroupsWorld {
        let GroupsSetup { policy, switches, nr_frames, can_swap, global_order, seed } = setup;
        let folios = Arc::new(Folios::for_one_thread(nr_frames));
        let lru = LruConfig { can_swap, switches, ..LruConfig::file_only(nr_frames) };
        let config =
            GroupsConfig { policy: policy.into(), lru, limit: UNLIMITED, global_order, seed };
        let groups = Groups::new(config, folios.clone());
        GroupsWorld {
            rule: groups.access_rule(),
            groups,
            folios,
            log: AccessLog::new(),
            batch: ReclaimBatch::new(),
            words: BTreeMap::new(),
            free: (0..nr_frames).rev().map(FrameId).collect(),
            young: vec![false; nr_frames as usize],
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn create(
        &mut self,
        parent: GroupId,
        config: GroupConfig,
    ) -> Result<GroupId, CreateGroupError> {
        self.groups.create(parent, config)
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn counts(&self, group: GroupId) -> GroupCounts {
        self.counts.get(&group).copied().unwrap_or_default()
    }

    pub(super) fn is_resident(&self, page: PageId) -> bool {
        matches!(self.words.get(&page), Some(Word::Resident(_)))
    }

    /// Accesses a page. The group that brings in a page pays for it for good.
    ///
    /// # Panics
    /// Panics if the group was removed.
    pub(super) fn access(
        &mut self,
        group: GroupId,
        page: PageId,
        page_type: PageType,
        kind: AccessPath,
    ) -> AccessOutcome {
        let counts = self.counts.entry(group).or_default();
        counts.accesses += 1;
        if let Some(Word::Resident(frame)) = self.words.get(&page).copied() {
            self.reach(frame, kind, false);
            return AccessOutcome::Hit;
        }
        counts.misses += 1;
        let shadow = match self.words.get(&page) {
            Some(Word::Shadow(shadow)) => Some(*shadow),
            Some(Word::Resident(_)) | None => None,
        };
        let frame = match self.alloc(group) {
            Ok(frame) => frame,
            Err(group) => return AccessOutcome::OutOfMemory { group },
        };
        self.folios[frame].bind(page, page_type, self.rule.flags_on_fill(kind));
        self.groups.own(frame, group);
        if let Some(shadow) = shadow {
            self.groups.refault(&mut self.log, frame, shadow, kind);
        }
        self.words.insert(page, Word::Resident(frame));
        if self.log.add(&self.folios, frame) == Room::Full {
            self.groups.drain(&mut self.log);
        }
        self.reach(frame, kind, true);
        AccessOutcome::Miss
    }

    /// Marks a resident page as accessed.
    fn reach(&mut self, frame: FrameId, kind: AccessPath, is_fill: bool) {
        let marked = match kind {
            AccessPath::Table => {
                self.young[frame.0 as usize] = true;
                return;
            }
            AccessPath::Readahead | AccessPath::Around => return,
            AccessPath::Descriptor | AccessPath::Run if is_fill => {
                self.rule.mark_fill(&self.folios, frame)
            }
            AccessPath::Descriptor | AccessPath::Run => self.rule.mark(&self.folios, frame),
        };
        if marked == Marked::Log && self.log.touch(frame) == Room::Full {
            self.groups.drain(&mut self.log);
        }
    }

    /// Charges and allocates a frame. Fails with the exhausted group.
    fn alloc(&mut self, group: GroupId) -> Result<FrameId, GroupId> {
        for nr_tries in 0.. {
            let Err(full) = self.groups.charge(group) else { break };
            if nr_tries == RETRIES_MAX {
                return Err(full.group);
            }
            let pass = GroupPass::for_limit(&mut self.groups, full.group);
            self.reclaim(pass);
        }
        for _ in 0..RETRIES_MAX {
            if !self.free.is_empty() {
                break;
            }
            let pass = GroupPass::global(&mut self.groups, ReclaimKind::Direct, None);
            self.reclaim(pass);
        }
        self.free.pop().ok_or_else(|| {
            self.groups.cancel_charge(group);
            GroupId::ROOT
        })
    }

    fn reclaim(&mut self, mut pass: GroupPass) -> u64 {
        self.groups.drain(&mut self.log);
        loop {
            match self.groups.isolate(&mut pass, &mut self.batch) {
                Step::TryEvict => self.look_at_victims(Verdict::Claimed),
                Step::Look => self.look_at_victims(Verdict::Refused(Refusal::Busy)),
                Step::WalkTables => self.walk_tables(),
                Step::Done => return pass.nr_reclaimed(),
            }
            self.groups.settle(&mut pass, &mut self.batch);
            self.publish();
        }
    }

    fn publish(&mut self) {
        for settled in self.batch.settled.drain(..) {
            let Settled::Evicted { page, frame, shadow } = settled else {
                unreachable!("memory of one tier")
            };
            match shadow {
                Some(shadow) => self.words.insert(page, Word::Shadow(shadow)),
                None => self.words.remove(&page),
            };
            self.counts.entry(self.folios[frame].group()).or_default().evictions += 1;
            self.free.push(frame);
        }
    }

    /// Takes the victims' young bits. Sets `verdict` for the rest.
    fn look_at_victims(&mut self, verdict: Verdict) {
        for victim in self.batch.victims_mut() {
            let is_young = std::mem::take(&mut self.young[victim.frame.0 as usize]);
            victim.verdict = if is_young { Verdict::Refused(Refusal::Young) } else { verdict };
        }
    }

    fn walk_tables(&mut self) {
        let frames = (0..).map(FrameId).zip(&mut self.young);
        let young: Vec<FrameId> = frames
            .filter_map(|(frame, is_young)| std::mem::take(is_young).then_some(frame))
            .collect();
        self.groups.report_young(&young);
    }

    /// Panics on a broken invariant. O(pages + frames).
    pub(super) fn validate(&self) {
        self.groups.validate();
        let is_resident = |word: &&Word| matches!(word, Word::Resident(_));
        let nr_resident = self.words.values().filter(is_resident).count();
        assert_eq!(nr_resident + self.free.len(), self.young.len(), "frames lost");
        let usage = self.groups.tree().usage(GroupId::ROOT);
        assert_eq!(usage, nr_resident as u64, "pages charged and resident");
    }
}
