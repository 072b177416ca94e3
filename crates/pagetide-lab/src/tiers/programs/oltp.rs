//! Transactions over many tables, as sysbench's `oltp_read_write` has them.
//!
//! ```text
//!   table    [ root | inner inner ... | leaf leaf leaf ... ]     x 200
//!   query    root, inner, leaf(s) of one table; 3 rows in 4 are of the popular hundredth
//!   transaction   10 points, 4 ranges of 100 rows, 4 rows changed, the log
//! ```
//!
//! Problem: databases are what the series was tried on beside its benchmark. Idea: the queries of
//! one transaction, in their order, on B-trees laid out table after table: 100 rows a leaf, 200
//! leaves an inner page. A query's row is of the table's first hundredth three times in four, as
//! the program's "special" distribution has it, evenly drawn otherwise. Changes go to a log that
//! runs round 1/64 of memory.
//!
//! Ignored: what a buffer pool does above this memory, and locks. Source: the seed's test with
//! MySQL (200 tables of a million rows); sysbench 1.0's defaults, `rand-spec-pct` 1 and
//! `rand-spec-res` 75.

use super::AccessStream;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

const TABLES_MAX: u32 = 200;
/// The fewest pages worth a table.
const TABLE_PAGES_MIN: u32 = 16;
/// Leaves below one inner page.
const FANOUT: u32 = 200;
/// The log is one part in so many.
const LOG_PART: u32 = 64;
/// Rows that are written before the log goes on to its next page.
const ROWS_A_LOG_PAGE: u32 = 20;
const POINTS: u32 = 10;
const RANGES: u32 = 4;
const CHANGES: u32 = 4;
/// So many of 256 queries are to a popular row.
const POPULAR: u64 = 192;
/// Popular rows are one part in so many of a table.
const POPULAR_PART: u32 = 100;

/// See the module.
#[derive(Debug)]
pub struct Oltp {
    nr_pages: u32,
    table_pages: u32,
    nr_tables: u32,
    random: Random,
    log_rows: u32,
    /// What is left over of the last transaction.
    ahead: Vec<TierAccess>,
}

impl Oltp {
    /// Over so many pages: as many tables as there is room for, up to 200.
    pub fn new(nr_pages: u32, seed: u64) -> Oltp {
        let data = nr_pages - nr_pages / LOG_PART;
        let nr_tables = (data / TABLE_PAGES_MIN).min(TABLES_MAX);
        assert!(nr_tables > 0, "{nr_pages} pages hold no table");
        let random = Random::stream(seed, 4);
        let table_pages = data / nr_tables;
        Oltp { nr_pages, table_pages, nr_tables, random, log_rows: 0, ahead: Vec::new() }
    }

    /// Goes down to a leaf of a random table; the leaf, and how many leaves follow it.
    fn descend(&mut self, touches: &mut Vec<TierAccess>) -> (u32, u32) {
        let table = self.random.index(self.nr_tables) * self.table_pages;
        let nr_inner = (self.table_pages - 1).div_ceil(FANOUT + 1);
        let nr_leaves = self.table_pages - 1 - nr_inner;
        let is_popular = self.random.bits() & 255 < POPULAR;
        let among = if is_popular { nr_leaves.div_ceil(POPULAR_PART) } else { nr_leaves };
        let leaf = self.random.index(among);
        touches.push(TierAccess::read(table));
        touches.push(TierAccess::read(table + 1 + leaf / FANOUT));
        (table + 1 + nr_inner + leaf, nr_leaves - 1 - leaf)
    }

    fn transact(&mut self, touches: &mut Vec<TierAccess>) {
        for _ in 0..POINTS {
            let (leaf, _) = self.descend(touches);
            touches.push(TierAccess::read(leaf));
        }
        for _ in 0..RANGES {
            let (leaf, nr_after) = self.descend(touches);
            touches.push(TierAccess::read(leaf));
            // A hundred rows begin in the middle of one leaf and end in the next.
            touches.push(TierAccess::read(leaf + nr_after.min(1)));
        }
        for _ in 0..CHANGES {
            let (leaf, _) = self.descend(touches);
            touches.push(TierAccess::read(leaf));
            touches.push(TierAccess::write(leaf));
            touches.push(self.log());
        }
    }

    /// A row's entry in the log.
    fn log(&mut self) -> TierAccess {
        let first = self.nr_tables * self.table_pages;
        let page = first + self.log_rows / ROWS_A_LOG_PAGE;
        self.log_rows = (self.log_rows + 1) % (ROWS_A_LOG_PAGE * (self.nr_pages - first));
        TierAccess::write(page)
    }
}

impl AccessStream for Oltp {
    fn nr_pages(&self) -> u32 {
        self.nr_pages
    }

    fn touch(&mut self, nr: usize, touches: &mut Vec<TierAccess>) {
        let mut ahead = std::mem::take(&mut self.ahead);
        while ahead.len() < nr {
            self.transact(&mut ahead);
        }
        touches.extend_from_slice(&ahead[..nr]);
        ahead.drain(..nr);
        self.ahead = ahead;
    }
}
