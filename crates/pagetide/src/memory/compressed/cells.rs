//! Cells: preallocated memory of fixed size for byte strings of any length.
//!
//! Problem: a heap takes up to three times the bytes of compressed pages, and returns nothing.
//! Idea: a string is a chain of cells, without fragmentation or compaction. A chain costs four
//! bytes a cell, and half a cell at its end.
//!
//! ```text
//!   cell      | next | head of the string . beginning |       next: of the chain, or of the
//!   cell      | next | rest ...................... |  |       free list
//!   fresh     cells never used, for which the system has provided no memory yet
//! ```
//!
//! Ignored: adjacent cells, which are copied one by one all the same.

pub(super) const CELL_BYTES: usize = 128;
/// No cell.
pub(super) const NONE: u32 = u32::MAX;
/// Bytes of a cell before its contents: the next cell's number.
const NEXT_BYTES: usize = 4;
const CONTENT_BYTES: usize = CELL_BYTES - NEXT_BYTES;

type Cell = [u8; CELL_BYTES];

/// All cells. The first cell identifies a string.
pub(super) struct Cells {
    cells: Box<[Cell]>,
    free: u32,
    nr_fresh: u32,
    nr_used: u32,
}

impl Cells {
    pub(super) fn new(nr: u32) -> Cells {
        // Zeroed memory from the system is allocated on first write.
        let cells = vec![[0; CELL_BYTES]; nr as usize].into();
        Cells { cells, free: NONE, nr_fresh: nr, nr_used: 0 }
    }

    pub(super) fn nr(&self) -> u32 {
        self.cells.len() as u32
    }

    pub(super) fn nr_used(&self) -> u32 {
        self.nr_used
    }

    pub(super) fn nr_for(nr_bytes: usize) -> u32 {
        nr_bytes.div_ceil(CONTENT_BYTES).max(1) as u32
    }

    /// Stores `head`, which fits in a cell, and `bytes`. Panics without enough free cells.
    pub(super) fn put(&mut self, head: &[u8], bytes: &[u8]) -> u32 {
        let first = self.take();
        let (now, mut rest) = bytes.split_at(bytes.len().min(CONTENT_BYTES - head.len()));
        self.contents_mut(first, 0)[..head.len()].copy_from_slice(head);
        self.contents_mut(first, head.len())[..now.len()].copy_from_slice(now);
        let mut last = first;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(CONTENT_BYTES));
            let cell = self.take();
            self.contents_mut(cell, 0)[..now.len()].copy_from_slice(now);
            self.set_next(last, cell);
            (last, rest) = (cell, later);
        }
        first
    }

    pub(super) fn head<const N: usize>(&self, first: u32) -> &[u8; N] {
        self.contents(first, 0).first_chunk().expect("a head fits in a cell")
    }

    pub(super) fn head_mut<const N: usize>(&mut self, first: u32) -> &mut [u8; N] {
        self.contents_mut(first, 0).first_chunk_mut().expect("a head fits in a cell")
    }

    /// Copies the bytes of a string after its head of `skipped` bytes.
    pub(super) fn read(&self, first: u32, skipped: usize, target: &mut [u8]) {
        let (mut cell, mut start, mut done) = (first, skipped, 0);
        while done < target.len() {
            let contents = self.contents(cell, start);
            let nr = contents.len().min(target.len() - done);
            target[done..done + nr].copy_from_slice(&contents[..nr]);
            done += nr;
            (cell, start) = (self.next(cell), 0);
        }
    }

    pub(super) fn free(&mut self, first: u32) {
        let mut cell = first;
        while cell != NONE {
            let next = self.next(cell);
            self.set_next(cell, self.free);
            self.free = cell;
            self.nr_used -= 1;
            cell = next;
        }
    }

    fn take(&mut self) -> u32 {
        let cell = match self.free {
            NONE => {
                assert!(self.nr_fresh > 0, "cells are counted before they are taken");
                self.nr_fresh -= 1;
                self.nr() - self.nr_fresh - 1
            }
            free => {
                self.free = self.next(free);
                free
            }
        };
        self.set_next(cell, NONE);
        self.nr_used += 1;
        cell
    }

    fn next(&self, cell: u32) -> u32 {
        let next = self.cells[cell as usize].first_chunk().expect("a cell begins with it");
        u32::from_le_bytes(*next)
    }

    fn set_next(&mut self, cell: u32, next: u32) {
        self.cells[cell as usize][..NEXT_BYTES].copy_from_slice(&next.to_le_bytes());
    }

    fn contents(&self, cell: u32, start: usize) -> &[u8] {
        &self.cells[cell as usize][NEXT_BYTES + start..]
    }

    fn contents_mut(&mut self, cell: u32, start: usize) -> &mut [u8] {
        &mut self.cells[cell as usize][NEXT_BYTES + start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn strings_of_all_lengths_come_back_from_cells_used_again_and_again() {
        let mut cells = Cells::new(100);
        let mut kept: VecDeque<(u32, Vec<u8>)> = VecDeque::new();
        for nr in 0..5000_usize {
            let bytes: Vec<u8> = (0..nr * 7 % 3000).map(|at| (at * nr) as u8).collect();
            let wanted = Cells::nr_for(bytes.len() + 5);
            while cells.nr() - cells.nr_used() < wanted {
                // Neither the oldest nor the newest, so that chains scatter.
                let (first, bytes) = kept.remove(nr % kept.len()).expect("one of them");
                let mut read = vec![0; bytes.len()];
                cells.read(first, 5, &mut read);
                assert_eq!((cells.head(first), read), (b"head-", bytes));
                cells.free(first);
            }
            let before = cells.nr_used();
            kept.push_back((cells.put(b"head-", &bytes), bytes));
            assert_eq!(cells.nr_used() - before, wanted, "{} bytes", nr * 7 % 3000);
        }
        kept.into_iter().for_each(|(first, _)| cells.free(first));
        assert_eq!(cells.nr_used(), 0);
    }
}
