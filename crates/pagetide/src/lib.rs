//! pagetide
