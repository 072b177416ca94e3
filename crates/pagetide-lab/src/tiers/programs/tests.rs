use super::*;
use crate::trace::{Access, AccessKind, DenseTrace};
use pagetide_core::ids::{PageId, PageIndex};

fn touches(program: &mut dyn AccessStream, nr: usize) -> Vec<TierAccess> {
    let mut touches = Vec::new();
    program.touch(nr, &mut touches);
    touches
}

fn counts(touches: &[TierAccess], nr_pages: u32) -> Vec<u32> {
    let mut counts = vec![0; nr_pages as usize];
    touches.iter().for_each(|touch| counts[touch.page() as usize] += 1);
    counts
}

fn share(part: impl Iterator<Item = u32>, counts: &[u32]) -> f64 {
    let sum: u32 = counts.iter().sum();
    f64::from(part.map(|page| counts[page as usize]).sum::<u32>()) / f64::from(sum)
}

#[test]
fn every_program_repeats_by_its_seed_and_stays_in_its_pages() {
    for workload in TierWorkload::ALL {
        let play = |seed, pieces: &[usize]| -> Vec<TierAccess> {
            let mut program = workload.program(1024, seed);
            let mut all = Vec::new();
            pieces.iter().for_each(|nr| program.touch(*nr, &mut all));
            assert!(program.nr_pages() <= 1024 && program.nr_pages() > 900, "{workload}");
            assert!(all.iter().all(|touch| touch.page() < program.nr_pages()), "{workload}");
            all
        };
        let whole = play(1, &[30_000]);
        assert_eq!(whole, play(1, &[1, 9_999, 20_000]), "{workload}, in pieces");
        let other: Vec<TierAccess> = play(2, &[200_000]);
        assert_ne!(play(1, &[200_000]), other, "{workload}, another seed");
        assert_eq!(workload.as_str().parse(), Ok(workload));
    }
    assert!(UnknownTierWorkload.to_string().contains("tier-oltp"));
}

#[test]
fn pmbench_is_a_bell_over_all_memory_and_writes_a_fifth() {
    let touches = touches(&mut DrawnPages::bell(8000, 1), 400_000);
    let counts = counts(&touches, 8000);
    assert!((share(3000..5000, &counts) - 0.6827).abs() < 0.01, "one sigma");
    assert!((share(2000..6000, &counts) - 0.9545).abs() < 0.01, "two");
    let writes = touches.iter().filter(|touch| touch.is_write()).count();
    assert!((writes as f64 / 400_000.0 - 0.2).abs() < 0.01, "{writes}");
}

#[test]
fn transactions_go_through_few_inner_pages_and_to_popular_rows() {
    let touches = touches(&mut Oltp::new(20_000, 1), 300_000);
    let mut counts = counts(&touches, 20_000);
    let log: u32 = counts.drain(19_600..).sum();
    let share_of_log = f64::from(log) / 300_000.0;
    assert!((share_of_log - 4.0 / 70.0).abs() < 0.005, "4 of 70 touches: {share_of_log}");
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let hottest: u32 = counts[..600].iter().sum();
    // Root and inner page of each of 200 tables, and the popular leaf.
    assert!(f64::from(hottest) > 0.8 * f64::from(300_000 - log), "{hottest}");
}

#[test]
fn a_recorded_program_plays_its_accesses_round_and_round() {
    let mut trace = DenseTrace::default();
    for (index, kind) in [
        (7, AccessKind::Read),
        (9, AccessKind::Readahead),
        (3, AccessKind::Write),
        (7, AccessKind::Table),
    ] {
        let page = PageId { index: PageIndex(index), ..PageId::default() };
        trace.push(Access { page, kind, thread: 0 });
    }
    let mut program = Recorded::new(&trace).expect("three accesses");
    let round = [TierAccess::read(0), TierAccess::write(2), TierAccess::read(0)];
    assert_eq!(touches(&mut program, 2), round[..2]);
    assert_eq!(touches(&mut program, 4), [round[2], round[0], round[1], round[2]]);
    assert_eq!((program.len(), program.nr_pages()), (3, 3));
    assert!(Recorded::new(&DenseTrace::default()).is_none());
}
