//! The kernel's policies: two lists with refault distance, and the multi-gen LRU.

pub mod active_inactive;
pub mod multigen;
