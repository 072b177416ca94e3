//! What only the inside can see of a region: memory, and what the walk over everything finds.

use super::*;
use crate::cache::{OpenOptions, PageCache};
use pagetide_core::units::{Bytes, PAGE_BYTES as PAGE};
use std::fs;

#[expect(dead_code, reason = "only the generator is needed here")]
#[path = "../../tests/common/pages.rs"]
mod pages;

#[test]
fn the_limit_holds_at_every_moment() {
    const NR_FRAMES: u64 = 128;
    let builder = PageCache::builder().memory(Bytes(NR_FRAMES << 12)).huge_pages(false);
    let cache = builder.build().expect("a cache");
    let region = match cache.region(RegionOptions::anonymous(Bytes(1024 << 12))) {
        Ok(region) => region,
        Err(error) => return eprintln!("SKIPPED: the_limit_holds_at_every_moment: {error}"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, vec![1; 512 * PAGE]).expect("a file");
    let file = cache.open(&path, OpenOptions::new().read(true)).expect("opened");
    let mut random = pages::Random::new(3);
    let mut below = |end: u64| random.below(end) as usize;
    let mut most = 0;
    for step in 0..4000_u64 {
        match below(3) {
            0 => region.words()[below(1024) * 512].store(step, Relaxed),
            1 => assert!(region.words()[below(1024) * 512].load(Relaxed) <= step),
            _ => {
                let mut bytes = [0; 8];
                let offset = (below(512) * PAGE) as u64;
                file.read_at(&mut bytes, offset).expect("read");
            }
        }
        most = most
            .max(cache.shared.engine.arena.count_resident_bytes() + region.stats().resident_bytes);
    }
    assert!(most <= NR_FRAMES << 12, "{most} bytes");
    assert!(most > (NR_FRAMES << 12) / 2, "{most} bytes: the test looks at nothing");
}
