//! Tests of the machine on small configurations: by hand, by property, by seed.

use super::*;
use crate::machine::workload::{End, View, Want};
use pagetide_core::ids::{FrameId, Order};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Round prices, for schedules computed by hand.
const PRICES: Costs = Costs {
    list_hit: Nanos(10),
    acquire: Nanos(5),
    hand_off: Nanos(100),
    line_transfer: Nanos(50),
    zone_page: Nanos(20),
    zone_lines: Nanos(0),
    touch: Nanos(1000),
    wake: Nanos(500),
};

fn config(nr_cpus: u32, nr_frames: u32, tuning: PcpTuning) -> MachineConfig {
    MachineConfig {
        nr_cpus,
        nr_frames,
        tuning,
        costs: PRICES,
        seed: 1,
        sample_every: Nanos::from_micros(1),
    }
}

fn machine(nr_cpus: u32, nr_frames: u32, tuning: PcpTuning) -> Machine {
    Machine::new(&config(nr_cpus, nr_frames, tuning)).expect("the machine can be built")
}

/// Makes requests in order, and records the time of each.
struct Script {
    wants: VecDeque<Want>,
    asked: Rc<RefCell<Vec<u64>>>,
}

impl Workload for Script {
    fn step(&mut self, view: &mut View<'_>) -> Want {
        self.asked.borrow_mut().push(view.now.0);
        self.wants.pop_front().unwrap_or(Want::Done)
    }
}

fn start(machine: &mut Machine, cpu: u32, wants: &[Want]) -> Rc<RefCell<Vec<u64>>> {
    let asked = Rc::default();
    let script = Script { wants: wants.iter().copied().collect(), asked: Rc::clone(&asked) };
    machine.start(CpuId(cpu), Box::new(script));
    asked
}

fn alloc(nr_pages: u32) -> Want {
    Want::Alloc { nr_pages, each: Nanos::ZERO }
}

fn free(nr_pages: u32, end: End) -> Want {
    Want::Free { nr_pages, end, each: Nanos::ZERO }
}

fn run_out(machine: &mut Machine) {
    while machine.step() {
        machine.validate();
    }
}

/// 16 MiB: the batch is one frame, so each allocation visits the zone.
const SMALL: u32 = 4096;

#[test]
fn two_cpus_and_one_lock_keep_the_schedule_computed_by_hand() {
    let mut machine = machine(2, SMALL, PcpTuning::Fixed);
    assert_eq!(machine.batch(), 1);
    // Both check their empty lists until 10. CPU 0 gets the lock at 15 (its line is in no cache),
    // and moves one page until 35. CPU 1 queues at 10, enters at 135, leaves at 155. CPU 0's second
    // page: queues at 45, enters at 155 + 100 = 255, leaves at 275. CPU 1's second page: queues at
    // 165, enters at 375, leaves at 395.
    let first = start(&mut machine, 0, &[alloc(1), alloc(1)]);
    let second = start(&mut machine, 1, &[alloc(1), alloc(1)]);
    run_out(&mut machine);
    assert_eq!(*first.borrow(), [0, 35, 275]);
    assert_eq!(*second.borrow(), [0, 155, 395]);
    let measured = machine.measured();
    // Waits in the queue: 10 to 135, 45 to 255, 165 to 375.
    assert_eq!(measured.waited, Nanos(125 + 210 + 210));
    // The waits, four list checks, the first acquisition, and four pages.
    assert_eq!(measured.busy, Nanos(545 + 4 * 10 + 5 + 4 * 20));
    assert_eq!((measured.zone_pages, machine.now()), (4, Nanos(395)));
}

#[test]
fn a_lock_whose_line_is_elsewhere_costs_the_transfer() {
    let mut machine = machine(2, SMALL, PcpTuning::Fixed);
    let first = start(&mut machine, 0, &[alloc(1)]);
    let second = start(&mut machine, 1, &[Want::Sleep(Nanos(1000)), alloc(1)]);
    run_out(&mut machine);
    assert_eq!(*first.borrow(), [0, 35]);
    // 1000 + a list check of 10 + 5 + 50 + a page of 20.
    assert_eq!(*second.borrow(), [0, 1000, 1085]);
    assert_eq!(machine.measured().waited, Nanos::ZERO);
}

#[test]
fn a_zone_that_another_cpu_had_costs_its_lines_once_a_hold() {
    let costs = Costs { zone_lines: Nanos(1000), ..PRICES };
    let config = MachineConfig { costs, ..config(2, SMALL, PcpTuning::Fixed) };
    let mut machine = Machine::new(&config).expect("the machine can be built");
    let first = start(&mut machine, 0, &[alloc(2)]);
    let later = Want::Sleep(Nanos(1000));
    let second = start(&mut machine, 1, &[later, alloc(1), later, alloc(1)]);
    run_out(&mut machine);
    // Never held before: two visits of 10 + 5 + 20.
    assert_eq!(*first.borrow(), [0, 70]);
    // 10 + 5 + 50, the lines and a page. The second time the lines are local.
    assert_eq!(*second.borrow(), [0, 1000, 2085, 3085, 3120]);
}

#[test]
fn blocks_are_taken_and_returned_whole() {
    let mut machine = machine(1, 1 << 18, PcpTuning::Fixed);
    let blocks = Want::AllocBlocks { nr_blocks: 16, order: Order(2), each: Nanos::ZERO };
    let asked = start(&mut machine, 0, &[blocks, free(16, End::Oldest)]);
    run_out(&mut machine);
    // Two refills of 63 pages in 15 blocks, each at the price of a page, with 14 hits in between.
    let refill = 10 + 5 + 15 * 20;
    assert_eq!(*asked.borrow(), [0, 2 * refill + 14 * 10, 2 * refill + 30 * 10]);
    let measured = machine.measured();
    assert_eq!((measured.nr_taken, measured.nr_freed), (64, 64));
    assert_eq!(measured.zone_pages, 120);
}

#[test]
fn a_list_hit_needs_no_lock() {
    let mut machine = machine(1, SMALL, PcpTuning::Fixed);
    let asked = start(&mut machine, 0, &[alloc(2), free(2, End::Oldest), alloc(2)]);
    run_out(&mut machine);
    // Two visits of 35, two frees, then two allocations at 10 each.
    assert_eq!(*asked.borrow(), [0, 70, 90, 110]);
    assert_eq!(machine.measured().zone_pages, 2);
}

#[test]
fn pages_are_sent_and_waited_for() {
    let mut machine = machine(2, SMALL, PcpTuning::Fixed);
    let receiver = start(&mut machine, 1, &[Want::Receive { nr_pages: 2 }, free(2, End::Oldest)]);
    let to = TaskId(0);
    let send = Want::Send { to, nr_pages: 1 };
    let sender = start(&mut machine, 0, &[alloc(2), send, send]);
    run_out(&mut machine);
    // Sent one by one at 70. The second page wakes the receiver, which frees at 10 each.
    assert_eq!(*sender.borrow(), [0, 70, 70, 70]);
    assert_eq!(*receiver.borrow(), [0, 570, 590]);
    assert_eq!(machine.nr_listed_on(CpuId(1)), 2);
}

#[test]
fn a_full_inbox_stops_the_sender_until_there_is_room() {
    let mut machine = machine(2, SMALL, PcpTuning::Fixed);
    let to = TaskId(0);
    let late = [Want::Sleep(Nanos::from_millis(5)), Want::Receive { nr_pages: 1000 }];
    start(&mut machine, 1, &late);
    let send = Want::Send { to, nr_pages: 600 };
    let sender = start(&mut machine, 0, &[alloc(1800), send, send, send]);
    run_out(&mut machine);
    let asked = sender.borrow();
    assert_eq!(asked[1], asked[3], "two messages fit");
    assert_eq!(asked[4], 5_000_500, "the third waits for the receiver, and a wake-up");
}

#[test]
fn a_device_makes_its_tasks_wait_in_order() {
    let mut machine = machine(2, SMALL, PcpTuning::Fixed);
    let device = machine.attach(Device::new(Nanos(70), 1_000_000_000));
    let wait = Want::Device { device, bytes: 1000 };
    let first = start(&mut machine, 0, &[wait]);
    let second = start(&mut machine, 1, &[wait]);
    run_out(&mut machine);
    assert_eq!((&*first.borrow(), &*second.borrow()), (&vec![0, 1070], &vec![0, 2070]));
    assert_eq!(machine.measured().busy, Nanos::ZERO, "waiting is idle");
}

#[test]
fn a_tick_lets_a_list_shrink() {
    let mut machine = machine(1, 1 << 20, PcpTuning::Refill);
    let pages = 20_000;
    let mut wants = vec![alloc(pages), free(pages, End::Oldest)];
    wants.extend([Want::Tick; 40]);
    start(&mut machine, 0, &wants);
    run_out(&mut machine);
    let samples = machine.samples();
    let most = samples.iter().map(|sample| sample.count).max().expect("there are samples");
    let left = machine.nr_listed_on(CpuId(0));
    assert!(most > 10_000 && left < most / 4, "{most} at most, {left} left");
}

#[test]
fn what_cannot_be_built_is_refused() {
    let usual = config(2, SMALL, PcpTuning::Fixed);
    let refused = |config: MachineConfig| Machine::new(&config).err();
    assert_eq!(refused(MachineConfig { nr_cpus: 0, ..usual }), Some(MachineError::NoCpus));
    let none = MachineConfig { nr_frames: 0, ..usual };
    assert_eq!(refused(none), Some(MachineError::Frames { nr_frames: 0 }));
    let nr_frames = (1 << 28) + 1;
    let many = MachineConfig { nr_frames, ..usual };
    assert_eq!(refused(many), Some(MachineError::Frames { nr_frames }));
    let always = MachineConfig { sample_every: Nanos::ZERO, ..usual };
    assert_eq!(refused(always), Some(MachineError::NoInterval));
    assert!(refused(usual).is_none());
}

#[test]
#[should_panic(expected = "no such CPU")]
fn a_task_needs_a_cpu_that_exists() {
    start(&mut machine(2, SMALL, PcpTuning::Fixed), 2, &[]);
}

#[test]
fn pages_that_are_not_there_are_given_up_on_only_when_every_list_is_empty() {
    for tuning in PcpTuning::ALL {
        // CPU 1 leaves its lists full and stops. CPU 0 wants more than all pages.
        let mut machine = machine(2, 1024, tuning);
        start(&mut machine, 1, &[alloc(200), free(200, End::Newest)]);
        let greedy = [Want::Sleep(Nanos::from_millis(1)), alloc(2000)];
        start(&mut machine, 0, &greedy);
        let mut nr_failed = 0;
        while machine.step() {
            machine.validate();
            let now = machine.measured().nr_failed;
            if now > nr_failed {
                nr_failed = now;
                assert_eq!(machine.memory.nr_listed() + machine.memory.zone().nr_free(), 0);
            }
        }
        assert_eq!(nr_failed, 2000 - 1024, "{tuning}: all frames were had, then none");
    }
}

/// Random finite programs.
fn wants(nr_tasks: u32) -> impl Strategy<Value = Vec<Want>> {
    let want = prop_oneof![
        4 => (0_u32..200).prop_map(alloc),
        4 => (0_u32..300, any::<bool>()).prop_map(|(nr_pages, oldest)| {
            free(nr_pages, if oldest { End::Oldest } else { End::Newest })
        }),
        1 => (0_u64..5000).prop_map(|nanos| Want::Sleep(Nanos(nanos))),
        1 => (0_u64..5000).prop_map(|nanos| Want::Compute(Nanos(nanos))),
        2 => (0..nr_tasks, 0_u32..100)
            .prop_map(|(to, nr_pages)| Want::Send { to: TaskId(to), nr_pages }),
        1 => Just(Want::Tick),
        1 => (0_u64..1500).prop_map(|nr_free| Want::Balloon { nr_free }),
    ];
    prop::collection::vec(want, 1..25)
}

type Programs = Vec<Vec<Want>>;

fn programs() -> impl Strategy<Value = (Programs, u32, PcpTuning)> {
    let tunings = prop::sample::select(PcpTuning::ALL.to_vec());
    (prop::collection::vec(wants(4), 4), 1_u32..4, tunings)
}

/// Plays programs on a small machine, with a check after every step.
fn play((programs, nr_cpus, tuning): &(Programs, u32, PcpTuning)) -> (Machine, Vec<Vec<u64>>) {
    let mut machine = machine(*nr_cpus, 2048, *tuning);
    let tasks = (0..).zip(programs);
    let asked: Vec<_> =
        tasks.map(|(task, wants)| start(&mut machine, task % nr_cpus, wants)).collect();
    let mut before = Nanos::ZERO;
    while machine.step() {
        assert!(machine.now() >= before, "time went back");
        before = machine.now();
        machine.validate();
    }
    let asked = asked.iter().map(|times| times.borrow().clone()).collect();
    (machine, asked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Frames are conserved after every step, no lock is held at the end, and runs repeat.
    #[test]
    fn frames_are_conserved_and_runs_repeat(case in programs()) {
        let (machine, asked) = play(&case);
        prop_assert!(!machine.zone_lock.is_held());
        prop_assert!(machine.list_locks.iter().all(|lock| !lock.is_held()));
        let (again, asked_again) = play(&case);
        prop_assert_eq!(asked, asked_again);
        prop_assert_eq!(machine.measured(), again.measured());
        prop_assert_eq!(machine.samples(), again.samples());
        let held = |machine: &Machine| -> Vec<Vec<FrameId>> {
            machine.tasks.iter().map(|task| task.held.iter().copied().collect()).collect()
        };
        prop_assert_eq!(held(&machine), held(&again));
    }

    /// An allocation fails only after its drain emptied every list. Listed frames came back later.
    #[test]
    fn no_allocation_fails_while_frames_lie_idle(case in programs()) {
        let (programs, nr_cpus, tuning) = case;
        // One task allocates and frees. The rest hold their pages idle.
        let mut machine = machine(nr_cpus, 1024, tuning);
        for (cpu, wants) in (0..nr_cpus).zip(&programs) {
            let local = |want: &&Want| matches!(want, Want::Alloc { .. } | Want::Free { .. });
            let local: Vec<Want> = wants.iter().filter(local).copied().collect();
            start(&mut machine, cpu, &local);
        }
        run_out(&mut machine);
        let nr_idle = machine.memory.nr_listed() + machine.memory.zone().nr_free();
        machine.start_measuring();
        let want = alloc(u32::try_from(nr_idle).expect("a small machine"));
        let last = start(&mut machine, 0, &[want]);
        run_out(&mut machine);
        prop_assert_eq!(last.borrow().len(), 2, "it came to its end");
        prop_assert_eq!(machine.measured().nr_failed, 0);
        prop_assert_eq!(machine.memory.nr_listed() + machine.memory.zone().nr_free(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With all CPUs active, an allocation fails only if zone and lists are empty, except for a
    /// frame that a free is passing to the zone.
    #[test]
    fn no_allocation_fails_while_other_cpus_free_to_their_lists(case in programs()) {
        let (programs, nr_cpus, tuning) = case;
        let mut machine = machine(nr_cpus + 1, 600, tuning);
        for (task, wants) in (0..).zip(&programs) {
            let local = |want: &&Want| !matches!(want, Want::Send { .. } | Want::Balloon { .. });
            let local: Vec<Want> = wants.iter().filter(local).copied().collect();
            start(&mut machine, task % nr_cpus, &local);
        }
        // A task that always wants more.
        let greedy = [alloc(400), free(50, End::Oldest)].repeat(20);
        start(&mut machine, nr_cpus, &greedy);
        let mut nr_failed = 0;
        while machine.step() {
            let now = machine.measured().nr_failed;
            if now == nr_failed {
                continue;
            }
            nr_failed = now;
            machine.validate();
            prop_assert_eq!(machine.memory.zone().nr_free(), 0);
            for (cpu, lock) in (0..).map(CpuId).zip(&machine.list_locks) {
                prop_assert!(
                    machine.nr_listed_on(cpu) == 0 || lock.is_held(),
                    "{tuning}: {cpu} had {} frames and no lock held",
                    machine.nr_listed_on(cpu)
                );
            }
        }
        prop_assert!(nr_failed > 0, "it is about failing");
    }
}
