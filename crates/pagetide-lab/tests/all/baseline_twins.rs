//! Core's baselines against slow twins written from the papers: the same misses on every trace.
//!
//! The twins share no code with core. A queue is a vector, oldest first. A ghost is a page number
//! in a vector. W-TinyLFU would need the same sketch, so `golden_policies.rs` pins its misses.

use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{self, Contender};
use pagetide_lab::trace::DenseTrace;
use proptest::prelude::*;

/// A twin takes each access, and returns true for a miss.
trait Twin {
    fn access(&mut self, page: u32) -> bool;
}

fn take(queue: &mut Vec<u32>, page: u32) -> bool {
    let at = queue.iter().position(|other| *other == page);
    at.map(|at| queue.remove(at)).is_some()
}

struct Sieve {
    frames: usize,
    /// Page and visited bit.
    queue: Vec<(u32, bool)>,
    hand: usize,
}

impl Twin for Sieve {
    fn access(&mut self, page: u32) -> bool {
        if let Some(slot) = self.queue.iter_mut().find(|slot| slot.0 == page) {
            slot.1 = true;
            return false;
        }
        if self.queue.len() == self.frames {
            while std::mem::take(&mut self.queue[self.hand].1) {
                self.hand = (self.hand + 1) % self.frames;
            }
            self.queue.remove(self.hand);
            // Past the youngest page the hand wraps to the oldest, before the newcomer joins.
            self.hand = if self.hand == self.queue.len() { 0 } else { self.hand };
        }
        self.queue.push((page, false));
        true
    }
}

struct S3Fifo {
    frames: usize,
    /// Page and hits.
    small: Vec<(u32, u32)>,
    main: Vec<(u32, u32)>,
    ghosts: Vec<u32>,
    is_warm: bool,
}

impl S3Fifo {
    fn evict(&mut self, small_max: usize) {
        if self.main.len() <= self.frames - small_max {
            while !self.small.is_empty() {
                let (page, hits) = self.small.remove(0);
                if hits < 2 {
                    self.ghosts.push(page);
                    if self.ghosts.len() > self.frames * 9 / 10 {
                        self.ghosts.remove(0);
                    }
                    return;
                }
                self.main.push((page, 0));
            }
        }
        while let (page, hits @ 1..) = self.main.remove(0) {
            self.main.push((page, hits.min(3) - 1));
        }
    }
}

impl Twin for S3Fifo {
    fn access(&mut self, page: u32) -> bool {
        if let Some(slot) = self.small.iter_mut().chain(&mut self.main).find(|slot| slot.0 == page)
        {
            slot.1 += 1;
            return false;
        }
        let small_max = (self.frames / 10).max(1);
        let is_ghost = take(&mut self.ghosts, page);
        if self.small.len() + self.main.len() == self.frames {
            self.evict(small_max);
            self.is_warm = true;
        }
        let is_overflow = !self.is_warm && self.small.len() >= small_max;
        if is_ghost || is_overflow { &mut self.main } else { &mut self.small }.push((page, 0));
        true
    }
}

struct Clock2QPlus {
    frames: usize,
    /// Page, number of pages admitted before, and the bit.
    small: Vec<(u32, usize, bool)>,
    main: Vec<(u32, bool)>,
    ghosts: Vec<u32>,
    admitted: usize,
    is_warm: bool,
}

impl Clock2QPlus {
    fn evict(&mut self, small_max: usize) {
        loop {
            if self.main.len() > self.frames - small_max || self.small.is_empty() {
                match self.main.remove(0) {
                    (page, true) => self.main.push((page, false)),
                    (_, false) => return,
                }
                continue;
            }
            match self.small.remove(0) {
                (page, _, true) => self.main.push((page, false)),
                (page, _, false) => {
                    self.ghosts.push(page);
                    if self.ghosts.len() > (self.frames / 2).max(1) {
                        self.ghosts.remove(0);
                    }
                    return;
                }
            }
        }
    }
}

impl Twin for Clock2QPlus {
    fn access(&mut self, page: u32) -> bool {
        let small_max = (self.frames / 10).max(1);
        if let Some(slot) = self.small.iter_mut().find(|slot| slot.0 == page) {
            let nr_since = self.admitted - slot.1 - 1;
            slot.2 |= nr_since >= small_max / 2;
            return false;
        }
        if let Some(slot) = self.main.iter_mut().find(|slot| slot.0 == page) {
            slot.1 = true;
            return false;
        }
        let is_ghost = take(&mut self.ghosts, page);
        if self.small.len() + self.main.len() == self.frames {
            self.evict(small_max);
            self.is_warm = true;
        }
        if is_ghost || !self.is_warm && self.small.len() >= small_max {
            self.main.push((page, false));
        } else {
            self.small.push((page, self.admitted, false));
            self.admitted += 1;
        }
        true
    }
}

struct TwoQueue {
    frames: usize,
    a1in: Vec<u32>,
    a1out: Vec<u32>,
    am: Vec<u32>,
}

impl Twin for TwoQueue {
    fn access(&mut self, page: u32) -> bool {
        if take(&mut self.am, page) {
            self.am.push(page);
            return false;
        }
        if self.a1in.contains(&page) {
            return false;
        }
        let is_ghost = take(&mut self.a1out, page);
        if self.a1in.len() + self.am.len() == self.frames {
            if self.a1in.len() > (self.frames / 4).max(1) || self.am.is_empty() {
                self.a1out.push(self.a1in.remove(0));
                if self.a1out.len() > (self.frames / 2).max(1) {
                    self.a1out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }
        if is_ghost { &mut self.am } else { &mut self.a1in }.push(page);
        true
    }
}

struct Arc {
    frames: usize,
    /// In units of 2^-32 pages.
    p: u64,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
}

impl Arc {
    fn replace(&mut self, is_in_b2: bool) {
        let length = (self.t1.len() as u64) << 32;
        let is_over = length > self.p || (is_in_b2 && length == self.p);
        if !self.t1.is_empty() && is_over || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }

    fn make_room_for_a_stranger(&mut self) {
        if self.t1.len() + self.b1.len() == self.frames {
            if self.t1.len() == self.frames {
                self.t1.remove(0);
                return;
            }
            self.b1.remove(0);
        } else if self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() == 2 * self.frames {
            self.b2.remove(0);
        }
        self.replace(false);
    }
}

impl Twin for Arc {
    fn access(&mut self, page: u32) -> bool {
        if take(&mut self.t1, page) || take(&mut self.t2, page) {
            self.t2.push(page);
            return false;
        }
        let (b1, b2) = (self.b1.len() as u64, self.b2.len() as u64);
        if take(&mut self.b1, page) {
            self.p = (self.p + ((b2 << 32) / b1).max(1 << 32)).min((self.frames as u64) << 32);
            self.replace(false);
            self.t2.push(page);
        } else if take(&mut self.b2, page) {
            self.p = self.p.saturating_sub(((b1 << 32) / b2).max(1 << 32));
            self.replace(true);
            self.t2.push(page);
        } else {
            if self.t1.len() + self.t2.len() == self.frames {
                self.make_room_for_a_stranger();
            }
            self.t1.push(page);
        }
        true
    }
}

/// LIRS by the sum of this many distances.
struct Lirs {
    distances: usize,
    frames: usize,
    /// Last accesses from bottom to top, one per distance for each page.
    stack: Vec<u32>,
    lir: Vec<u32>,
    queue: Vec<u32>,
    /// Evicted pages in the stack, with their eviction numbers.
    ghosts: Vec<(u64, u32)>,
    evictions: u64,
}

impl Lirs {
    fn new(distances: usize, frames: usize) -> Lirs {
        let (stack, lir, queue) = (vec![], vec![], vec![]);
        Lirs { distances, frames, stack, lir, queue, ghosts: vec![], evictions: 0 }
    }

    fn is_near(&self, page: u32) -> bool {
        let nr_stacked = self.stack.iter().filter(|stacked| **stacked == page).count();
        nr_stacked == self.distances || self.lir.len() < self.lir_max()
    }

    fn push(&mut self, page: u32) {
        if self.stack.iter().filter(|stacked| **stacked == page).count() == self.distances {
            take(&mut self.stack, page);
        }
        self.stack.push(page);
    }

    fn forget_oldest_ghost(&mut self) {
        let (_, page) = self.ghosts.remove(0);
        self.stack.retain(|stacked| *stacked != page);
    }

    fn prune(&mut self) {
        while let Some(&bottom) = self.stack.first()
            && !self.lir.contains(&bottom)
        {
            self.stack.remove(0);
            if !self.stack.contains(&bottom) {
                self.ghosts.retain(|ghost| ghost.1 != bottom);
            }
        }
    }

    fn evict(&mut self) {
        let page = if self.queue.is_empty() {
            let bottom = self.stack[0];
            take(&mut self.lir, bottom);
            self.prune();
            bottom
        } else {
            self.queue.remove(0)
        };
        if self.stack.contains(&page) {
            self.ghosts.push((self.evictions, page));
            self.evictions += 1;
            while self.evictions > self.ghosts[0].0 + self.history_max() {
                self.forget_oldest_ghost();
            }
        }
    }

    fn enter(&mut self, page: u32, is_lir: bool) {
        self.push(page);
        if is_lir {
            self.lir.push(page);
            if self.lir.len() > self.lir_max() {
                let bottom = self.stack[0];
                take(&mut self.lir, bottom);
                self.queue.push(bottom);
            }
        } else {
            self.queue.push(page);
        }
        self.prune();
        self.limit_stack();
    }

    fn limit_stack(&mut self) {
        while self.stack.len() as u64 > self.history_max() {
            self.forget_oldest_ghost();
        }
    }

    fn history_max(&self) -> u64 {
        (2 * self.distances * self.frames) as u64
    }

    fn lir_max(&self) -> usize {
        self.frames - (self.frames / 100).max(1)
    }
}

impl Twin for Lirs {
    fn access(&mut self, page: u32) -> bool {
        if self.lir.contains(&page) {
            self.push(page);
            self.prune();
            self.limit_stack();
            return false;
        }
        let is_hit = take(&mut self.queue, page);
        if !is_hit && self.lir.len() + self.queue.len() == self.frames {
            self.evict();
        }
        self.ghosts.retain(|ghost| ghost.1 != page);
        let is_lir = self.is_near(page);
        self.enter(page, is_lir);
        !is_hit
    }
}

fn twins(frames: usize) -> [(PolicyName, Box<dyn Twin>); 7] {
    let sieve = Sieve { frames, queue: vec![], hand: 0 };
    let s3fifo = S3Fifo { frames, small: vec![], main: vec![], ghosts: vec![], is_warm: false };
    let (small, main, ghosts) = (vec![], vec![], vec![]);
    let clock2q_plus = Clock2QPlus { frames, small, main, ghosts, admitted: 0, is_warm: false };
    let two_queue = TwoQueue { frames, a1in: vec![], a1out: vec![], am: vec![] };
    let arc = Arc { frames, p: 0, t1: vec![], t2: vec![], b1: vec![], b2: vec![] };
    [
        (PolicyName::Sieve, Box::new(sieve)),
        (PolicyName::S3Fifo, Box::new(s3fifo)),
        (PolicyName::Clock2QPlus, Box::new(clock2q_plus)),
        (PolicyName::TwoQueue, Box::new(two_queue)),
        (PolicyName::Arc, Box::new(arc)),
        (PolicyName::Lirs, Box::new(Lirs::new(1, frames))),
        (PolicyName::Lirs2, Box::new(Lirs::new(2, frames))),
    ]
}

fn check(name: &str, trace: &DenseTrace, frames: u32) {
    for (policy, mut twin) in twins(frames as usize) {
        let expected = trace.access_ranks().filter(|page| twin.access(*page)).count() as u64;
        let outcome = replay::run(Contender::Policy(policy), trace, frames);
        assert_eq!(outcome.misses, expected, "{policy} on {name} with {frames} frames");
    }
}

#[test]
fn baselines_miss_exactly_as_their_twins() {
    for (name, trace) in crate::synthetic::reads() {
        for frames in [1, 2, 3, 10, 33, 100, 333] {
            check(name, &trace, frames);
        }
    }
}

proptest! {
    #[test]
    fn baselines_match_their_twins_on_any_reads(
        reads in prop::collection::vec(0..24u64, 0..400),
        frames in 1..20u32,
    ) {
        check("random reads", &DenseTrace::from_reads(reads), frames);
    }
}
