//! The pages and limits of a write-back pass.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnLocked {
    /// End the pass and report the page. The caller waits for it, and goes on.
    End,
    /// Leave the page dirty: its owner may wait for the pass, or be the caller.
    Skip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chosen {
    All,
    /// Pages that reclaim has met, and their neighbours. Pages in use stay dirty.
    Met,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PassScope {
    pub(crate) chosen: Chosen,
    pub(crate) on_locked: OnLocked,
    pub(crate) nr_max: u64,
}
