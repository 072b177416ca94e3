//! Files named in a trace, numbered in order of first appearance.

use pagetide_core::ids::MappingId;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Mappings {
    numbers: BTreeMap<String, MappingId>,
}

impl Mappings {
    pub(super) fn number(&mut self, name: &str) -> MappingId {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let next = u32::try_from(self.numbers.len()).expect("names of 2^32 files fit no memory");
        self.numbers.insert(name.to_owned(), MappingId(next));
        MappingId(next)
    }
}
