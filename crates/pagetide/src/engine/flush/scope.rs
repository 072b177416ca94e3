//! What a pass of write-back takes: which dirty pages, how many, and what of locked ones.

/// What a pass does about a page that is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnLocked {
    /// Ends there, and says where: the caller waits for the page, and goes on.
    End,
    /// Leaves it dirty: the thread that has locked it may wait for the pass, or be the caller.
    Skip,
}

/// Which dirty pages a pass writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chosen {
    /// All.
    All,
    /// Those that reclaim has met, and their neighbours: what is in use stays as it is.
    Met,
}

/// What a pass takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassScope {
    pub(crate) chosen: Chosen,
    pub(crate) on_locked: OnLocked,
    /// Pages, at most.
    pub(crate) nr_max: u64,
}
