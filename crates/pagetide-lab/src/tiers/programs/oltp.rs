//! Transactions over many tables, like sysbench's `oltp_read_write`.
//!
//! ```text
//!   table    [ root | inner inner ... | leaf leaf leaf ... ]     x 200
//!   query    root, inner, leaf(s) of one table; 3 rows in 4 are of the popular hundredth
//!   transaction   10 points, 4 ranges of 100 rows, 4 rows changed, the log
//! ```
//!
//! Problem: the series was also tested on databases. Idea: the queries of a transaction on B-trees,
//! table after table: 100 rows a leaf, 200 leaves an inner page. Three queries in four go to a
//! table's first hundredth (the "special" distribution), the rest anywhere. Changes go to a
//! circular log in 1/64 of memory.
//!
//! Ignored: the buffer pool, and locks. Source: the seed's test with MySQL (200 tables of a million
//! rows). sysbench 1.0's defaults, `rand-spec-pct` 1 and `rand-spec-res` 75.

use super::AccessStream;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

const TABLES_MAX: u32 = 200;
const TABLE_PAGES_MIN: u32 = 16;
/// Leaves below one inner page.
const FANOUT: u32 = 200;
/// Memory over the size of the log.
const LOG_PART: u32 = 64;
/// Written rows per log page.
const ROWS_A_LOG_PAGE: u32 = 20;
const POINTS: u32 = 10;
const RANGES: u32 = 4;
const CHANGES: u32 = 4;
/// Queries out of 256 to a popular row.
const POPULAR: u64 = 192;
/// Rows of a table over its popular rows.
const POPULAR_PART: u32 = 100;

/// The sysbench-like program.
#[derive(Debug)]
pub struct Oltp {
    nr_pages: u32,
    table_pages: u32,
    nr_tables: u32,
    random: Random,
    log_rows: u32,
    /// Unused touches of the last transaction.
    ahead: Vec<TierAccess>,
}

impl Oltp {
    /// Returns a program with as many tables as fit into `nr_pages`, up to 200.
    pub fn new(nr_pages: u32, seed: u64) -> Oltp {
        let data = nr_pages - nr_pages / LOG_PART;
        let nr_tables = (data / TABLE_PAGES_MIN).min(TABLES_MAX);
        assert!(nr_tables > 0, "{nr_pages} pages hold no table");
        let random = Random::stream(seed, 4);
        let table_pages = data / nr_tables;
        Oltp { nr_pages, table_pages, nr_tables, random, log_rows: 0, ahead: Vec::new() }
    }

    /// Descends to a leaf of a random table. Returns the leaf and the number of later leaves.
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
            // A hundred rows begin inside one leaf and end in the next.
            touches.push(TierAccess::read(leaf + nr_after.min(1)));
        }
        for _ in 0..CHANGES {
            let (leaf, _) = self.descend(touches);
            touches.push(TierAccess::read(leaf));
            touches.push(TierAccess::write(leaf));
            touches.push(self.log());
        }
    }

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
