use super::*;
use crate::tiers::run::{Ratio, TierSetup};
use pagetide_core::tiering::Stage;
use pagetide_core::vmstat::Counter;

const NR_PAGES: u32 = 1200;

fn world(switches: Option<TieringSwitches>, policy: PolicyName) -> World {
    let setup = TierSetup { nr_frames: [512, 1024], ..TierSetup::scaled(1024) };
    let config = WorldConfig {
        prices: TierPrices::OPTANE,
        policy,
        knobs: TieringKnobs { scan_pages: 32, scan_rate_max: 640, ..setup.knobs },
        switches,
        nr_pages: NR_PAGES,
        nr_frames: setup.nr_frames,
        threads: 1,
        scale: 64,
    };
    World::new(&config, setup.topology().expect("slow memory is slower"))
}

fn stage(stage: Stage) -> World {
    world(Some(stage.switches()), PolicyName::ActiveInactive)
}

impl World {
    fn pages_on(&self, node: Node) -> impl Iterator<Item = u32> {
        (0..NR_PAGES).filter(move |page| self.access_loop.word(*page).node() == node)
    }

    fn wait_on(&mut self, page: u32, until_ns: u64) {
        while self.access_loop.now_ns() < until_ns {
            self.play(&[TierAccess::read(page); 64]);
        }
    }
}

#[test]
fn first_come_has_fast_memory_and_the_rest_is_slow() {
    let world = world(None, PolicyName::ActiveInactive);
    world.validate();
    let nr_fast = world.pages_on(Node::Fast).count() as u32;
    assert!((430..512).contains(&nr_fast), "{nr_fast}, less what LOW keeps");
    assert!(world.pages_on(Node::Fast).eq(0..nr_fast));
    assert!(world.access_loop.now_ns() > 64 * 1500 * u64::from(NR_PAGES));
}

#[test]
fn without_a_scan_nothing_moves() {
    let mut world = world(None, PolicyName::ActiveInactive);
    world.wait_on(NR_PAGES - 1, 3_000_000_000);
    let Migrations { nr_hint_faults, nr_promoted, nr_demoted, .. } = world.migrations();
    assert_eq!((nr_hint_faults, nr_promoted, nr_demoted), (0, 0, 0));
    world.validate();
}

#[test]
fn a_touched_page_of_slow_memory_is_promoted_and_a_cold_one_demoted_for_it() {
    let mut world = stage(Stage::Base);
    let hot = NR_PAGES - 1;
    assert_eq!(world.access_loop.word(hot).node(), Node::Slow);
    world.wait_on(hot, 8_000_000_000);
    assert_eq!(world.access_loop.word(hot).node(), Node::Fast);
    // Touched again and again, pages of slow memory press the untouched ones out.
    let slow: Vec<TierAccess> = (800..1000).map(TierAccess::read).collect();
    while world.access_loop.now_ns() < 30_000_000_000 {
        world.play(&slow);
    }
    world.validate();
    let moved = world.migrations();
    assert!(moved.nr_promoted > 190 && moved.nr_demoted > 100, "{moved:?}");
    assert!((800..1000).all(|page| world.access_loop.word(page).node() == Node::Fast));
    let demoted = world.lists[0].vmstat();
    assert!(demoted.read(Counter::PgdemoteBackground) >= moved.nr_demoted - 64);
    let counts = world.promotion.vmstat();
    assert_eq!(counts.read(Counter::PgpromoteSuccess), moved.nr_promoted);
    assert_eq!(counts.read(Counter::NumaHintFaults), moved.nr_hint_faults);
}

#[test]
fn only_what_is_touched_soon_after_the_scan_is_hot() {
    for (stage_now, is_promoted) in [(Stage::Base, true), (Stage::HotSelection, false)] {
        let mut world = stage(stage_now);
        let (hot, cold) = (NR_PAGES - 1, 700);
        // A pass takes some two seconds; the cold page is touched once in twenty.
        for round in 1..=6 {
            world.wait_on(hot, round * 20_000_000_000);
            world.play(&[TierAccess::read(cold)]);
        }
        assert_eq!(world.access_loop.word(hot).node(), Node::Fast, "{stage_now}");
        let node = world.access_loop.word(cold).node();
        assert_eq!(node == Node::Fast, is_promoted, "{stage_now}");
    }
}

#[test]
fn every_policy_demotes_and_the_same_run_gives_the_same_counts() {
    for &policy in PolicyName::ALL {
        let play = || {
            let mut world = world(Some(TieringSwitches::BASE), policy);
            let mut random = crate::random::Random::new(1);
            let mut touches: Vec<TierAccess> = Vec::new();
            while world.access_loop.now_ns() < 12_000_000_000 {
                touches.clear();
                touches.extend((0..4096).map(|_| TierAccess::read(random.index(NR_PAGES))));
                world.play(&touches);
                world.validate();
            }
            (world.migrations(), world.access_loop.now_ns(), *world.access_loop.counts())
        };
        let played = play();
        assert!(played.0.nr_demoted > 0 && played.0.nr_promoted > 0, "{policy}: {:?}", played.0);
        assert_eq!(played, play(), "{policy}");
    }
}

#[test]
fn ratios_divide_the_same_memory() {
    let setup = TierSetup::published();
    for ratio in Ratio::ALL {
        let [fast, slow] = setup.with_ratio(ratio).nr_frames;
        assert_eq!(fast + slow, 20_480);
        assert!(slow / fast >= ratio.0 && fast <= slow, "{ratio}");
        assert_eq!(ratio.to_string().parse(), Ok(ratio));
    }
    for wrong in ["4", "2:1", "1:0", "1:65", "1:", "1:x"] {
        assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
    }
}
