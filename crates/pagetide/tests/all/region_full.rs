//! A full swap folder: the access that needs a page fails, and everything else works.

use crate::common::regions::region;
use crate::common::small_fs::{Kind, SmallFs};
use crate::common::{PAGE, pattern_at, patterned_file, skip, watchdog::Watchdog};
use pagetide::{Bytes, OpenOptions, PageCache, Region, RegionOptions, SyncError, WriteError};

const NR_FRAMES: u64 = 64;
const NR_PAGES: u64 = 512;

fn fill(region: &Region) -> (u64, WriteError) {
    (0..NR_PAGES)
        .find_map(|page| Some((page, region.write(page * PAGE as u64, &[page as u8]).err()?)))
        .expect("there is no room for all of them")
}

#[test]
fn a_full_swap_folder_is_an_error_that_names_it_and_stops_nobody_else() {
    const NAME: &str = "a_full_swap_folder_is_an_error_that_names_it_and_stops_nobody_else";
    let _watchdog = Watchdog::new();
    let tmpfs = match SmallFs::mount(Kind::Tmpfs, 200 * PAGE as u64) {
        Ok(tmpfs) => tmpfs,
        Err(why) => return skip(NAME, &why),
    };
    for background in [true, false] {
        let builder = PageCache::builder().memory(Bytes::from_pages(NR_FRAMES));
        let cache = builder.background(background).build().expect("a cache");
        let options = RegionOptions::anonymous(Bytes::from_pages(NR_PAGES)).swap_in(tmpfs.path());
        let Some(region) = region(NAME, &cache, options) else { return };
        let (nr_written, error) = fill(&region);
        assert!(nr_written > NR_FRAMES, "{nr_written} pages");
        let WriteError::Store { source, .. } = &error else { panic!("{error:?}") };
        check_sentence(&source.to_string(), &tmpfs);
        match region.sync() {
            Err(SyncError::Writeback(source)) => check_sentence(&source.to_string(), &tmpfs),
            other => panic!("{other:?}"),
        }
        // Other mappings have no frames, but read and write all the same.
        let folder = tempfile::tempdir().expect("a folder");
        let path = patterned_file(folder.path(), "file", 32 * PAGE);
        let file = cache.open(&path, OpenOptions::new().read(true).write(true)).expect("opened");
        let mut bytes = vec![0; 32 * PAGE];
        file.read_at(&mut bytes, 0).expect("read");
        assert!(bytes == pattern_at(0, 32 * PAGE));
        file.write_at(&[1; 2 * PAGE], 100).expect("written");
        file.sync_data().expect("stored");
        // Nothing written is lost once space is freed.
        tmpfs.resize((2 * NR_PAGES as usize * PAGE) as u64);
        for page in 0..nr_written {
            let mut byte = [0];
            region.read(page * PAGE as u64, &mut byte).expect("there is room");
            assert_eq!(byte[0], page as u8);
        }
        let _ = region.sync();
        region.sync().expect("nothing failed since");
        drop(region);
        tmpfs.resize((200 * PAGE) as u64);
    }
}

fn check_sentence(told: &str, tmpfs: &SmallFs) {
    let folder = tmpfs.path().to_str().expect("a plain path");
    assert!(told.contains(folder) && told.contains("of room left"), "{told}");
    assert!(told.contains("No space left on device"), "{told}");
}
