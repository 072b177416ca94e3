//! Page faults that we serve: userfaultfd, and regions whose faults they are.

pub(crate) mod region;
pub(crate) mod uffd;
