use super::*;
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, MappingId, PageId, PageIndex};
use crate::lru::page_table::LeafId;
use crate::lru::{
    AccessLog, LruConfig, Mechanism, ReclaimBatch, Scan, Switches, Verdict, parse_commands,
};
use crate::reclaim::{ReclaimPass, Step};
use crate::vmstat::Counter;
use alloc::string::String;
use alloc::sync::Arc;

const ID: LruvecId = LruvecId { group: 1, node: 0 };

struct World {
    lruvec: Lruvec,
    folios: Arc<Folios>,
    log: AccessLog,
    nr_walks: u64,
    wanted: bool,
}

impl World {
    fn new(policy: PolicyName, config: LruConfig) -> World {
        let folios = Arc::new(Folios::new(config.nr_frames));
        let lruvec = Lruvec::new(policy, &LruConfig { id: ID, ..config }, folios.clone());
        World { lruvec, folios, log: AccessLog::new(), nr_walks: 0, wanted: false }
    }

    fn add(&mut self, frames: core::ops::Range<u32>, flags: Flags) {
        for frame in frames {
            let page = PageId { mapping: MappingId(0), index: PageIndex(frame.into()) };
            self.folios[FrameId(frame)].bind(page, PageType::File, flags);
            let _ = self.log.add(&self.folios, FrameId(frame));
            self.lruvec.drain(&mut self.log);
        }
    }

    fn run(&mut self, mut pass: ReclaimPass) -> Scan {
        let mut batch = ReclaimBatch::new();
        loop {
            match self.lruvec.isolate(&mut pass, &mut batch) {
                Step::TryEvict => {
                    batch.victims_mut().iter_mut().for_each(|it| it.verdict = Verdict::Claimed);
                }
                Step::WalkTables => {
                    let mut walk = self.lruvec.start_walk();
                    self.wanted = walk.wants(LeafId { mapping: MappingId(0), number: 9 });
                    self.lruvec.report_walk(&mut walk);
                    self.nr_walks += 1;
                }
                Step::Look => panic!("nothing is looked at"),
                Step::Done => break,
            }
            self.lruvec.settle(&mut pass, &mut batch);
        }
        self.lruvec.validate();
        pass.scan
    }

    fn command(&mut self, text: &str) -> Result<u64, GenCommandError> {
        let mut nr_evicted = 0;
        for command in parse_commands(text) {
            let pass = ReclaimPass::on_command(&self.lruvec, &command?)?;
            nr_evicted += self.run(pass).reclaimed;
        }
        Ok(nr_evicted)
    }

    fn max_seq(&self) -> u64 {
        self.lruvec.multigen_summary().expect("generations").max_seq
    }

    fn text(&self, detail: Detail) -> String {
        let mut text = String::new();
        self.lruvec.write_lru_gen(&mut text, "/job", detail).expect("room");
        text
    }
}

fn file_only() -> LruConfig {
    LruConfig::file_only(256)
}

/// Creates three generations of file folios: ages 3000, 2000 and 500, max_seq 5, min_seq 3.
fn aged() -> World {
    let mut world = World::new(PolicyName::Mglru, file_only());
    world.lruvec.tell_time(Millis(1000));
    world.command("+ 1 0 3").expect("aged");
    world.lruvec.tell_time(Millis(3500));
    world.command("+ 1 0 4").expect("aged");
    world.lruvec.tell_time(Millis(4000));
    world.add(0..90, Flags::NONE);
    world.add(90..102, Flags::ACTIVE);
    world.add(102..105, Flags::ACTIVE.with(Flags::WORKINGSET));
    world
}

#[test]
fn generations_are_written_as_the_kernel_writes_them() {
    let expected = "\
memcg     1 /job
 node     0
          2       4000          0          90
          3       4000          0           0
          4       3000          0          12
          5        500          0           3
";
    assert_eq!(aged().text(Detail::Sizes), expected);
}

#[test]
fn the_full_form_adds_tiers_and_marks_what_is_gone() {
    let mut world = aged();
    assert_eq!(world.command("- 1 0 2"), Ok(90));
    let expected = "\
memcg     1 /job
 node     0
          2       4000          0           0x
                     0          0r          0e          0p          0x          0x          0x
                     1          0r          0e          0p          0x          0x          0x
                     2          0r          0e          0p          0x          0x          0x
                     3          0r          0e          0p          0x          0x          0x
                                0x          0x          0x          0x
          3       4000          0           0x
                     0          0x          0x          0x          0x          0x          0x
                     1          0x          0x          0x          0x          0x          0x
                     2          0x          0x          0x          0x          0x          0x
                     3          0x          0x          0x          0x          0x          0x
                                0x          0x          0x          0x
          4       3000          0          12
                     0          0x          0x          0x          0r         26e          0p
                     1          0x          0x          0x          0r          0e          0p
                     2          0x          0x          0x          0r          0e          0p
                     3          0x          0x          0x          0r          0e          0p
                                0x          0x          0x          0x
          5        500          0           3
                     0          0R          0T          0x          0R         32T          0x
                     1          0R          0T          0x          0R          0T          0x
                     2          0R          0T          0x          0R          0T          0x
                     3          0R          0T          0x          0R          0T          0x
                                0T          0Y          0F          0A
";
    assert_eq!(world.text(Detail::Full), expected, "64 of 90 counted in the generation before");
    let empty = World::new(PolicyName::Lru, file_only());
    assert_eq!(empty.text(Detail::Full), "", "no generations");
}

#[test]
fn commands_are_checked_against_the_window() {
    use GenCommandError::{Future, NoLruvec, Syntax, Young};
    let mut world = aged();
    assert_eq!(world.command("- 1 0 4"), Err(Young(4)));
    assert_eq!(world.command("+ 1 0 6"), Err(Future(6)));
    assert_eq!(world.command("- 1 0 6"), Err(Future(6)));
    assert_eq!(world.command("+ 2 0 5"), Err(NoLruvec));
    assert_eq!(world.command("+ 1 1 5"), Err(NoLruvec));
    for wrong in ["* 1 0 5", "+ 1 0", "- 1 0 3 202", "+ 1 0 5 60 1 9", "+ 1 0 x", "+", "- 1 0 -3"] {
        assert_eq!(world.command(wrong), Err(Syntax), "{wrong}");
    }
    assert_eq!(world.max_seq(), 5);
    assert_eq!(world.command("- 1 0 3"), Ok(90));
    assert_eq!((world.command("+ 1 0 5"), world.max_seq()), (Ok(0), 6));
    assert_eq!((world.command("+ 1 0 4"), world.max_seq()), (Ok(0), 7), "acts on the youngest");
    assert_eq!((world.command(" + 1 0 7 ;+ 1 0 8\n"), world.max_seq()), (Ok(0), 9));
    let mut older = World::new(PolicyName::Mglru61, file_only());
    assert_eq!((older.command("+ 1 0 2"), older.max_seq()), (Ok(0), 3), "6.1: nothing to do");
    assert_eq!((older.command("+ 1 0 3"), older.max_seq()), (Ok(0), 4));
    let mut other = World::new(PolicyName::Lru, file_only());
    assert_eq!(other.command("+ 1 0 3"), Err(NoLruvec));
}

#[test]
fn eviction_on_request_stops_at_its_number_and_its_generation() {
    let mut world = aged();
    assert_eq!(world.command("- 1 0 2 60 10"), Ok(10));
    assert_eq!(world.lruvec.vmstat().read(Counter::PgstealProactive), 10);
    assert_eq!(world.command("- 1 0 2"), Ok(80));
    assert_eq!(world.command("- 1 0 3"), Ok(0), "the next to the youngest stay");
    assert_eq!(world.lruvec.nr_folios(), 15);
}

#[test]
fn aging_on_request_walks_tables_first_and_all_of_them_if_forced() {
    let mut world = aged();
    assert_eq!(world.nr_walks, 2);
    assert!(!world.wanted, "found empty by the first walk");
    world.command("+ 1 0 5 60 1").expect("aged");
    assert!(world.wanted);
    let switches = Switches::default().without(Mechanism::TableWalks);
    let mut world = World::new(PolicyName::Mglru, LruConfig { switches, ..file_only() });
    assert_eq!((world.command("+ 1 0 3"), world.max_seq(), world.nr_walks), (Ok(0), 4, 0));
}

#[test]
fn young_generations_are_kept() {
    let born = |ago: u64| {
        let min_ttl = Millis(1000);
        let mut world = World::new(PolicyName::Mglru, LruConfig { min_ttl, ..file_only() });
        world.lruvec.tell_time(Millis(10_000 - ago));
        // Retires the generations that started with the lruvec.
        (0..4)
            .for_each(|nth| assert_eq!(world.command(&alloc::format!("+ 1 0 {}", nth + 3)), Ok(0)));
        world.add(0..64, Flags::NONE);
        world.lruvec.tell_time(Millis(10_000));
        world
    };
    for kind in [ReclaimPass::direct, |lruvec: &Lruvec| ReclaimPass::background(lruvec, 32)] {
        let mut world = born(400);
        let pass = kind(&world.lruvec);
        let scan = world.run(pass);
        assert_eq!((scan.reclaimed, scan.too_young), (0, true));
        assert_eq!(world.lruvec.vmstat().read(Counter::LruGenTooYoung), 1);
        let mut pass = kind(&world.lruvec);
        pass.scan.ignores_age = true;
        assert!(world.run(pass).reclaimed >= 32, "the command insists");
        let mut world = born(1500);
        let pass = kind(&world.lruvec);
        assert!(world.run(pass).reclaimed >= 32);
    }
}
