//! pagetide-lab
