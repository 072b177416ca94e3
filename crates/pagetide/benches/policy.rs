//! The cost of an access to a policy of `pagetide::policy`, with a million keys.
//!
//! ```text
//!   NAME hits, zipf 0.9         all keys are present, a few are hot
//!   NAME hits, uniform          all keys are present, and each access misses the CPU's caches
//! NAME a tenth, zipf 0.9      the policy has room for a tenth: an insert with an eviction per miss
//! ```
//!
//! `cargo bench -p pagetide --bench policy -- NAME` measures one policy. The keys are made before.
//! They are scattered, so neighbours in the index are no neighbours in time.
//!
//! Times are of the CPU. Ignored: the sharded policy.

#[expect(dead_code, reason = "the bench of the lock uses the rest")]
mod harness;

use harness::{Mode, interleave};
use pagetide::policy::{Capacity, Policy, PolicyName, key_of};
use pagetide_lab::made::Made;

const NR_KEYS: u64 = 1_000_000;
const NR_ACCESSES: usize = 2_000_000;
const SMOKE_KEYS: u64 = 1000;

fn main() {
    let mode = Mode::from_arguments();
    let wanted: Vec<PolicyName> =
        std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let keys = Keys::new(mode.pick(NR_KEYS, SMOKE_KEYS), mode.pick(NR_ACCESSES, 2000));
    let names = PolicyName::ALL.iter().copied();
    let checksum = names
        .filter(|name| wanted.is_empty() || wanted.contains(name))
        .map(|name| measure(name, &keys, mode))
        .fold(0_u64, |sum, nr_hits| sum.rotate_left(7) ^ nr_hits);
    println!("checksum {checksum:#018x}");
}

struct Keys {
    all: Vec<u64>,
    zipf: Vec<u64>,
    uniform: Vec<u64>,
}

impl Keys {
    fn new(nr_keys: u64, nr_accesses: usize) -> Keys {
        let scattered = |rank: u64| key_of(&rank.to_le_bytes());
        let ranks = Made::Zipf { skew: 0.9 }.reads().map(|rank| rank % nr_keys);
        let draws = (0..nr_accesses as u64).map(|at| scattered(at ^ 1 << 40) % nr_keys);
        Keys {
            all: (0..nr_keys).map(scattered).collect(),
            zipf: ranks.take(nr_accesses).map(scattered).collect(),
            uniform: draws.map(scattered).collect(),
        }
    }
}

fn measure(name: PolicyName, keys: &Keys, mode: Mode) -> u64 {
    let nr_keys = keys.all.len() as u64;
    let policy =
        |nr_entries| Policy::new(name, Capacity::entries(nr_entries)).expect("it has room");
    let [mut full, mut also_full, mut small] = [nr_keys, nr_keys, nr_keys / 10].map(policy);
    for key in &keys.all {
        for policy in [&mut full, &mut also_full] {
            policy.insert(*key).expect("it fits");
        }
    }
    let mut nr_hits = play(&mut small, &keys.zipf).1;
    let [zipf, uniform, tenth] = interleave(
        mode.pick(5, 1),
        [
            Box::new(|| play(&mut full, &keys.zipf).0),
            Box::new(|| play(&mut also_full, &keys.uniform).0),
            Box::new(|| play(&mut small, &keys.zipf).0),
        ],
    );
    zipf.print(&format!("{name} hits, zipf 0.9"));
    uniform.print(&format!("{name} hits, uniform"));
    tenth.print(&format!("{name} a tenth, zipf 0.9"));
    nr_hits ^= full.stats().hits ^ also_full.stats().hits ^ small.stats().hits;
    nr_hits
}

/// Reads all keys. Returns the nanoseconds for each, and the hits.
fn play(policy: &mut Policy, keys: &[u64]) -> (f64, u64) {
    let started = cpu_nanos();
    let mut nr_hits = 0;
    for key in keys {
        if policy.access(*key) {
            nr_hits += 1;
        } else {
            policy.insert(*key).expect("nothing is pinned");
        }
    }
    ((cpu_nanos() - started) as f64 / keys.len() as f64, nr_hits)
}

/// Returns the time that this thread has run, so that other programs count less.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}
