//! Synthetic services: the pages that clients request.
//!
//! **Problem.** A fourth setting was chosen by all rows. **Idea.** Ten more habits, written down
//! before any policy ran.
//!
//! ```text
//!   latest     the newest page is requested most          films   many sequential readers, a few
//!   backup     everything once, amid popular pages                films popular
//!   sessions   short lives, each page requested often     nested  an inner table, again and again
//! ```
//!
//! Ignored: writes and times.

use super::patterns::{FRESH, by_number};
use pagetide_lab::machine::Random;
use pagetide_lab::scenario::zipf::Popularity;

/// A synthetic service. Sizes are in pages, with 1,000,000 accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// A page is stored each 20 accesses. All other accesses request recent pages, Zipf 0.9 over
    /// the last 40,000.
    Latest,
    /// Range scans that begin by Zipf 0.9 over 30,000 pages and are 1 to 100 long.
    Ranges,
    /// Zipf 0.9 over 30,000 pages. After each 200,000 accesses every second one is a backup's,
    /// which reads 30,000 pages in order, popular or not.
    Backup,
    /// 16 viewers, each reading a film of 1500 pages from start to end, and then another. Films by
    /// Zipf 0.9 of 60.
    Films,
    /// 3000 sessions, each as likely as any other, with a random one replaced each 10 accesses.
    Sessions,
    /// A nursery of 4000 pages round and round. After each 60,000 accesses a collector follows
    /// 15,000 pages in an order of its own, always the same.
    Heap,
    /// A consumer 3000 pages behind a log's end. One page in eight is requested again, 9000 pages
    /// later.
    Redelivery,
    /// Two reads in three by Zipf 0.9 over 20,000. The third checks the page written 12,000 checks
    /// ago, page by page.
    Audit,
    /// An outer table of 500 pages per query, and for each 10 of them all of an inner one of 2000.
    /// Each query has the next of six inner tables.
    Nested,
    /// All rows of 100 pages of a matrix, then the columns of 160. Again and again.
    Matrix,
}

const SEED: u64 = 45;

impl Service {
    /// Returns the pages read, in order.
    pub(crate) fn reads(self) -> Box<dyn Iterator<Item = u64>> {
        let mut random = Random::new(SEED);
        match self {
            Service::Latest => {
                let popular = Popularity::in_order(40_000, 0.9);
                by_number(move |at| {
                    let back = u64::from(popular.next(&mut random));
                    let newest = 40_000 + at / 20;
                    if at % 20 == 0 { newest } else { newest - back }
                })
            }
            Service::Ranges => ranges(random),
            Service::Backup => {
                let popular = Popularity::new(&mut random, 30_000, 0.9);
                by_number(move |at| match at % 260_000 {
                    step @ 200_000.. if step % 2 == 0 => (step - 200_000) / 2,
                    _ => popular.next(&mut random).into(),
                })
            }
            Service::Films => films(random),
            Service::Sessions => sessions(random),
            Service::Heap => {
                let marked = random.order(15_000);
                by_number(move |at| match at % 75_000 {
                    step @ 60_000.. => FRESH + u64::from(marked[step as usize - 60_000]),
                    step => step % 4000,
                })
            }
            Service::Redelivery => by_number(|at| {
                let newest = at / 17 * 8 + at % 17 % 8;
                match at % 17 {
                    0..8 => newest,
                    8..16 => newest.saturating_sub(3000),
                    _ => newest.saturating_sub(12_000),
                }
            }),
            Service::Audit => {
                let popular = Popularity::new(&mut random, 20_000, 0.9);
                by_number(move |at| match at % 6 {
                    2 => FRESH + at / 6,
                    5 => FRESH + (at / 6).saturating_sub(12_000),
                    _ => popular.next(&mut random).into(),
                })
            }
            Service::Nested => by_number(|at| {
                // Ten outer pages, and then the inner table.
                let (query, step) = (at / 100_500, at % 100_500);
                match step % 2010 {
                    outer @ 0..10 => FRESH + query * 500 + step / 2010 * 10 + outer,
                    inner => query % 6 * 2000 + inner - 10,
                }
            }),
            Service::Matrix => by_number(|at| match at % 32_000 {
                step @ 0..16_000 => step,
                step => (step - 16_000) % 160 * 100 + (step - 16_000) / 160,
            }),
        }
    }
}

fn ranges(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 30_000, 0.9);
    let (mut next, mut nr_left) = (0, 0);
    by_number(move |_| {
        if nr_left == 0 {
            next = u64::from(popular.next(&mut random));
            nr_left = 1 + random.below(100);
        }
        nr_left -= 1;
        next += 1;
        next
    })
}

fn films(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    const PAGES: u64 = 1500;
    let popular = Popularity::new(&mut random, 60, 0.9);
    let mut viewers: Vec<(u64, u64)> = (0..16).map(|nth| (nth, PAGES * nth / 16)).collect();
    by_number(move |_| {
        let (film, at) = &mut viewers[random.index(16) as usize];
        if *at == PAGES {
            (*film, *at) = (popular.next(&mut random).into(), 0);
        }
        *at += 1;
        *film * PAGES + *at - 1
    })
}

fn sessions(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let mut live: Vec<u64> = (0..3000).collect();
    by_number(move |at| {
        if at % 10 == 0 {
            live[random.index(3000) as usize] = FRESH + at;
        }
        live[random.index(3000) as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn distinct(reads: impl Iterator<Item = u64>) -> usize {
        reads.collect::<HashSet<u64>>().len()
    }

    #[test]
    fn each_reads_what_it_says() {
        assert_eq!(distinct(Service::Matrix.reads().take(16_000)), 16_000);
        assert_eq!(distinct(Service::Matrix.reads().skip(16_000).take(16_000)), 16_000);
        assert_eq!(distinct(Service::Heap.reads().skip(60_000).take(15_000)), 15_000);
        assert_eq!(distinct(Service::Nested.reads().take(100_500)), 2500);
        assert!(distinct(Service::Sessions.reads().take(10_000)) > 3000);
        let one_stored: Vec<u64> = Service::Latest.reads().step_by(20).take(3).collect();
        assert_eq!(one_stored, [40_000, 40_001, 40_002]);
    }

    #[test]
    fn a_log_s_page_is_read_twice_and_one_in_eight_again() {
        let reads: Vec<u64> = Service::Redelivery.reads().skip(400_000).take(17 * 3000).collect();
        let newest = reads.iter().max().expect("some");
        assert_eq!(
            distinct(reads.iter().copied().filter(|page| *page > newest - 8 * 2999)),
            23_992
        );
        assert!(
            Service::Audit.reads().take(600_000).filter(|page| *page >= FRESH).count() > 150_000
        );
    }
}
