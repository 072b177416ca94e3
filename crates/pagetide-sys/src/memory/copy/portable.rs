//! Raw copies by relaxed atomics of whole cells.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

const CELL: usize = size_of::<u64>();

/// Eight bytes with concurrent accesses.
pub(crate) trait Cell {
    fn bytes(&self) -> [u8; CELL];
    fn set_bytes(&self, bytes: [u8; CELL]);
}

impl Cell for AtomicU64 {
    fn bytes(&self) -> [u8; CELL] {
        self.load(Ordering::Relaxed).to_ne_bytes()
    }

    fn set_bytes(&self, bytes: [u8; CELL]) {
        self.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

pub(crate) fn copy_out(cells: &[impl Cell], at: usize, target: &mut [u8]) {
    for_each_part(at, target.len(), |cell, in_cell, done| {
        target[done..done + in_cell.len()].copy_from_slice(&cells[cell].bytes()[in_cell]);
    });
}

pub(crate) fn copy_in(cells: &[impl Cell], at: usize, source: &[u8]) {
    for_each_part(at, source.len(), |cell, in_cell, done| {
        let part = &source[done..done + in_cell.len()];
        edit(&cells[cell], in_cell, |bytes| bytes.copy_from_slice(part));
    });
}

pub(crate) fn zero(cells: &[impl Cell], at: usize, len: usize) {
    for_each_part(at, len, |cell, in_cell, _| edit(&cells[cell], in_cell, |bytes| bytes.fill(0)));
}

pub(crate) fn copy_within(cells: &[impl Cell], source: usize, target: usize, len: usize) {
    assert!([source, target, len].iter().all(|at| at % CELL == 0), "S2: frames are whole cells");
    for at in (0..len).step_by(CELL) {
        cells[(target + at) / CELL].set_bytes(cells[(source + at) / CELL].bytes());
    }
}

/// Changes a part of a cell. A partial change loads the rest.
fn edit(cell: &impl Cell, part: Range<usize>, change: impl FnOnce(&mut [u8])) {
    let mut bytes = if part.len() < CELL { cell.bytes() } else { [0; CELL] };
    change(&mut bytes[part]);
    cell.set_bytes(bytes);
}

/// Calls `each(cell, bytes in that cell, bytes before)` for the cells that `at..at + len` covers.
fn for_each_part(at: usize, len: usize, mut each: impl FnMut(usize, Range<usize>, usize)) {
    let mut done = 0;
    while done < len {
        let start = (at + done) % CELL;
        let end = CELL.min(start + len - done);
        each((at + done) / CELL, start..end, done);
        done += end - start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loom_parts_of_cells_leave_the_rest() {
        let cells: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(!0)).collect();
        copy_in(&cells, 6, &[1; 11]);
        zero(&cells, 17, 3);
        let mut seen = [7; 32];
        copy_out(&cells, 0, &mut seen);
        let mut wanted = [0xff; 32];
        wanted[6..17].fill(1);
        wanted[17..20].fill(0);
        assert_eq!(seen, wanted);
        copy_within(&cells, 0, 16, 16);
        assert_eq!(cells[2].bytes(), wanted[..8]);
    }
}
