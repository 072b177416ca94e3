//! Self-describing pages: file, index, version, and a filling made of the three. A torn or
//! misplaced page does not verify. A page of zeros was never written, or was truncated.

use super::PAGE;

/// The finisher of splitmix64: each input bit affects the whole output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Writes page `index` of `file` in `version` (not 0).
pub(crate) fn stamp(page: &mut [u8], file: u64, index: u64, version: u64) {
    let base = mix(mix(file) ^ mix(index << 20) ^ version);
    let head = [file, index, version];
    for (at, word) in page.chunks_exact_mut(8).enumerate() {
        let value = head.get(at).copied().unwrap_or_else(|| mix(base.wrapping_add(at as u64)));
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Returns the version of a page of `file` at `index`, 0 for zeros, or its defect.
pub(crate) fn version_of(page: &[u8], file: u64, index: u64) -> Result<u64, String> {
    assert_eq!(page.len(), PAGE);
    let word = |at: usize| u64::from_le_bytes(page[at * 8..][..8].try_into().unwrap());
    let version = word(2);
    let mut expected = vec![0; PAGE];
    if version != 0 {
        stamp(&mut expected, file, index, version);
    }
    match page.iter().zip(&expected).position(|(is, should)| is != should) {
        None => Ok(version),
        Some(at) => Err(format!(
            "file {file} page {index}: wrong at byte {at}; it says file {} page {} version {}",
            word(0),
            word(1),
            version
        )),
    }
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % end
    }
}

/// Returns the seed of this run: `PAGETIDE_SEED`, or one from the clock, which is printed.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("PAGETIDE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64
    });
    println!("again with PAGETIDE_SEED={seed}");
    seed
}
