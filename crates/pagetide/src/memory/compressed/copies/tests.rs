//! Compares copies with a plain list of pages and bytes, oldest first.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(PageId, usize),
    Remove(PageId),
    RemoveRange(MappingId, Range<PageIndex>),
}

fn page() -> impl Strategy<Value = PageId> {
    (0..3_u32, 0..60_u64).prop_map(|(mapping, index)| {
        // Numbers as far apart as possible.
        PageId { mapping: MappingId(mapping), index: PageIndex(index << (mapping * 16)) }
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (page(), 0..3000_usize).prop_map(|(page, len)| Op::Insert(page, len)),
        2 => page().prop_map(Op::Remove),
        1 => (0..3_u32, 0..60_u64, 0..200_u64).prop_map(|(mapping, start, len)| {
            Op::RemoveRange(MappingId(mapping), PageIndex(start)..PageIndex(start + len))
        }),
        1 => (0..3_u32).prop_map(|mapping| {
            Op::RemoveRange(MappingId(mapping), PageIndex(0)..PageIndex(u64::MAX))
        }),
    ]
}

fn contents(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 3 + seed * 5) as u8).collect()
}

proptest! {
    #[test]
    fn copies_are_those_of_the_model(ops in prop::collection::vec(op(), 1..300)) {
        const LIMIT: u64 = 32 << 10;
        let mut copies = Copies::new(LIMIT);
        let mut model: Vec<(PageId, Vec<u8>)> = Vec::new();
        for (seed, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(page, len) => {
                    let bytes = contents(seed, len);
                    model.retain(|(other, _)| *other != page);
                    let nr_out = copies.insert(page, &bytes).expect("shorter than all of it");
                    model.drain(..nr_out as usize);
                    model.push((page, bytes));
                }
                Op::Remove(page) => {
                    copies.remove(page);
                    model.retain(|(other, _)| *other != page);
                }
                Op::RemoveRange(mapping, range) => {
                    copies.remove_range(mapping, range.clone());
                    let is_gone = |page: &PageId| {
                        page.mapping == mapping && range.contains(&page.index)
                    };
                    model.retain(|(page, _)| !is_gone(page));
                }
            }
            prop_assert!(copies.pages().eq(model.iter().map(|(page, _)| *page)));
            prop_assert!(copies.used_bytes() <= LIMIT);
            copies.validate();
        }
        for (page, bytes) in model {
            prop_assert_eq!(copies.read(page), Some(bytes));
        }
    }
}

#[test]
fn what_is_longer_than_all_of_it_is_refused_and_its_old_copy_gone() {
    let mut copies = Copies::new(1024);
    let page = PageId { mapping: MappingId(1), index: PageIndex(7) };
    assert_eq!(copies.insert(page, &[1; 500]), Some(0));
    assert_eq!(copies.insert(page, &[2; 2000]), None);
    assert_eq!((copies.read(page), copies.nr_pages()), (None, 0));
    // A limit of 0 holds nothing.
    assert_eq!(Copies::new(0).insert(page, &[1]), None);
}
