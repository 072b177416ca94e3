//! pagetide-sys
