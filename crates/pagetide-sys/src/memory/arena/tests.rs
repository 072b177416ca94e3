use super::*;

fn arena(nr_frames: u32) -> FrameArena {
    FrameArena::reserve(nr_frames, ArenaOptions::default()).expect("a small arena fits")
}

#[test]
fn frame_is_claimed_once_until_released() {
    let arena = arena(2);
    let claimed = arena.claim(FrameId(1)).expect("free");
    assert_eq!(arena.claim(FrameId(1)), Err(ClaimError::AlreadyClaimed { frame: FrameId(1) }));
    assert_eq!(arena.release(claimed), FrameId(1));
    assert!(arena.claim(FrameId(1)).is_ok());
}

#[test]
fn frame_outside_is_refused_with_numbers() {
    let error = arena(2).claim(FrameId(2)).expect_err("there are two");
    assert_eq!(error.to_string(), "Fx2 is outside the arena's 2 frames");
}

#[test]
fn counts_out_of_range_are_refused_with_numbers() {
    for nr_frames in [0, NR_FRAMES_MAX + 1] {
        let error = FrameArena::reserve(nr_frames, ArenaOptions::default()).expect_err("refused");
        assert!(error.to_string().contains(&nr_frames.to_string()), "{error}");
    }
}

#[test]
#[should_panic(expected = "S3")]
fn release_to_another_arena_panics() {
    let claimed = arena(1).claim(FrameId(0)).expect("free");
    arena(1).release(claimed);
}

#[test]
#[should_panic(expected = "S1")]
fn read_past_the_frame_panics() {
    arena(1).read(FrameId(0), FRAME_BYTES - 1, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "S1")]
fn read_with_an_offset_that_overflows_panics() {
    arena(1).read(FrameId(0), usize::MAX, &mut [0; 2]);
}

mod on_linux {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused_with_numbers() {
        let options = ArenaOptions { pretouch: true, ..ArenaOptions::default() };
        match FrameArena::reserve(NR_FRAMES_MAX, options) {
            Err(ReserveError::NotAvailable { wanted, available }) => {
                assert_eq!(wanted, Bytes(1 << 40));
                assert!(available.0 > 0 && available < wanted);
            }
            other => panic!("1 TiB was not refused for want of memory: {other:?}"),
        }
    }

    #[test]
    fn pretouched_arena_is_resident_and_an_untouched_one_is_not() {
        let nr_frames = 1024;
        for huge_pages in [false, true] {
            let options = ArenaOptions { huge_pages, pretouch: true };
            let arena = FrameArena::reserve(nr_frames, options).expect("4 MiB");
            assert_eq!(arena.count_resident_bytes(), u64::from(nr_frames) * FRAME_BYTES as u64);
            assert_eq!(arena.memory().frame_ptr(0).addr() % (2 << 20), 0, "2 MiB aligned");
        }
        assert_eq!(arena(nr_frames).count_resident_bytes(), 0);
    }

    #[test]
    fn a_shared_arena_becomes_huge_where_all_of_a_block_is_in_memory() {
        const NAME: &str = "a_shared_arena_becomes_huge_where_all_of_a_block_is_in_memory";
        let options = ArenaOptions { huge_pages: true, pretouch: false };
        let arena = FrameArena::reserve_shared(2 * 512 + 1, options).expect("4 MiB");
        assert_eq!(arena.nr_to_collapse(), 2, "what follows the last whole block is none");
        for frame in 0..512 {
            assert!(!arena.collapse(0), "{frame} of 512 are in memory");
            // SAFETY: S4 (no other thread has the arena).
            unsafe { arena.memory().write(frame, 0, &[7]) };
        }
        assert!(arena.collapse(0) && !arena.collapse(1));
        let mut bytes = [0; 512];
        (0..512).for_each(|frame| {
            arena.memory().read(frame, 0, &mut bytes[frame as usize..][..1]);
        });
        assert_eq!((bytes, arena.count_resident_bytes()), ([7; 512], 2 << 20));
        if read_huge_bytes(arena.memory().frame_ptr(0).addr()) == 0 {
            eprintln!("SKIPPED: {NAME}: this kernel makes no huge pages on request, or has none");
        }
    }

    fn read_huge_bytes(address: usize) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("/proc is mounted");
        let start = format!("{address:x}-");
        let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&start));
        let kib = lines.find_map(|line| line.strip_prefix("ShmemPmdMapped:")).expect("a mapping");
        kib.trim().trim_end_matches(" kB").parse::<u64>().expect("kibibytes") << 10
    }

    #[test]
    fn shared_memory_about_to_be_used_is_made_of_huge_pages() {
        let options = ArenaOptions { huge_pages: true, pretouch: false };
        let arena = FrameArena::reserve_shared(2048, options).expect("8 MiB");
        arena.withhold(FrameId(1900)..FrameId(2048));
        let nr_resident = |frames: Range<u32>| {
            arena.make_huge(FrameId(frames.start)..FrameId(frames.end));
            arena.count_resident_bytes() / FRAME_BYTES as u64
        };
        match nr_resident(600..664) {
            1 => eprintln!(
                "SKIPPED: shared_memory_about_to_be_used_is_made_of_huge_pages: this kernel makes \
                 none on request (MADV_COLLAPSE, Linux 6.1)"
            ),
            nr => {
                assert_eq!(nr, 512);
                assert_eq!(nr_resident(520..530), 512, "once");
                assert!(nr_resident(1600..1610) <= 513, "a part of the block is withheld");
            }
        }
    }

    #[test]
    fn small_pages_and_private_memory_are_not_collapsed() {
        let small = ArenaOptions { huge_pages: false, pretouch: false };
        let huge = ArenaOptions { huge_pages: true, pretouch: false };
        let arenas = [FrameArena::reserve_shared(2048, small), FrameArena::reserve(2048, huge)];
        assert_eq!(arenas.map(|arena| arena.expect("8 MiB").nr_to_collapse()), [0, 0]);
    }

    /// Collapses a partly present block, as the kernel does minutes later.
    fn collapse(arena: &FrameArena, block: u32) -> bool {
        let start = arena.memory().frame_ptr(block * 512).cast();
        // SAFETY: S1 (512 frames of the arena). The contents stay the same.
        unsafe { libc::madvise(start, 2 << 20, libc::MADV_COLLAPSE) == 0 }
    }

    #[test]
    fn what_was_given_back_does_not_come_again_with_a_huge_page() {
        const NAME: &str = "what_was_given_back_does_not_come_again_with_a_huge_page";
        const BLOCK: u64 = 2 << 20;
        for shared in [false, true] {
            let options = ArenaOptions { huge_pages: true, pretouch: true };
            let reserved = if shared {
                FrameArena::reserve_shared(1024, options)
            } else {
                FrameArena::reserve(1024, options)
            };
            let arena = reserved.expect("4 MiB");
            if !collapse(&arena, 0) {
                return eprintln!("SKIPPED: {NAME}: this kernel makes no huge pages on request");
            }
            // All but the first frame of one block, and nothing of the next.
            arena.discard(FrameId(1)..FrameId(512)).expect("given back");
            let few = BLOCK + FRAME_BYTES as u64;
            assert_eq!(arena.count_resident_bytes(), few);
            assert!(!collapse(&arena, 0), "it is not to be made huge");
            assert_eq!((arena.count_resident_bytes(), collapse(&arena, 1)), (few, true));
            // Huge pages are allowed again only once all frames are in service.
            arena.take_again(FrameId(1)..FrameId(511));
            assert!(!collapse(&arena, 0));
            arena.take_again(FrameId(511)..FrameId(512));
            assert_eq!((collapse(&arena, 0), arena.count_resident_bytes()), (true, 2 * BLOCK));
        }
    }

    #[test]
    fn what_is_withheld_has_no_memory_before_it_is_used() {
        let options = ArenaOptions { huge_pages: true, pretouch: true };
        let arena = FrameArena::reserve(1024, options).expect("4 MiB");
        arena.withhold(FrameId(512)..FrameId(1024));
        assert_eq!(arena.count_resident_bytes(), 2 << 20);
    }

    #[test]
    fn discard_gives_back_what_nobody_has() {
        let options = ArenaOptions { huge_pages: false, pretouch: true };
        let arena = FrameArena::reserve(16, options).expect("64 KiB");
        let kept = arena.claim(FrameId(5)).expect("free");
        let nr_discarded = arena.discard(FrameId(4)..FrameId(100)).expect("madvise on own memory");
        assert_eq!(nr_discarded, 11);
        assert_eq!(arena.count_resident_bytes(), 5 * FRAME_BYTES as u64);
        assert!(arena.claim(FrameId(4)).is_ok(), "usable afterwards");
        arena.release(kept);
        assert_eq!(arena.discard(FrameId(9)..FrameId(3)).expect("empty"), 0);
    }
}

fn nodes_of(arena: &FrameArena) -> Option<Vec<u32>> {
    let address = arena.address(FrameId(0)) as usize;
    let maps = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
    let line = maps.lines().find(|line| line.starts_with(&format!("{address:x} ")))?;
    let counts = line.split_whitespace().filter_map(|word| word.strip_prefix('N'));
    Some(counts.filter_map(|word| word.split_once('=')?.0.parse().ok()).collect())
}

#[test]
fn frames_come_from_the_node_they_were_placed_on() {
    let test = "frames_come_from_the_node_they_were_placed_on";
    let nodes = crate::machine::numa::read_nodes(crate::machine::numa::NODES).unwrap_or_default();
    if nodes.len() < 2 {
        eprintln!("SKIPPED: {test}: {} node here, two are needed to tell", nodes.len());
    }
    let Some(node) = nodes.iter().rfind(|node| node.available.0 > 1 << 20) else { return };
    let places = [Placement { frames: FrameId(0)..FrameId(8), node: node.number }];
    let options = ArenaOptions { pretouch: true, ..ArenaOptions::default() };
    match FrameArena::reserve_on(8, &places, options) {
        Ok(arena) => match nodes_of(&arena) {
            Some(seen) => assert_eq!(seen, [node.number]),
            None => eprintln!("SKIPPED: {test}: no /proc/self/numa_maps"),
        },
        Err(ReserveError::NotBound { source, .. }) => eprintln!("SKIPPED: {test}: {source}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_node_that_does_not_exist_is_refused() {
    for node in [1023, 1024, u32::MAX] {
        let places = [Placement { frames: FrameId(0)..FrameId(8), node }];
        let refused = FrameArena::reserve_on(8, &places, ArenaOptions::default());
        assert!(matches!(refused, Err(ReserveError::NotBound { .. })), "{node}: {refused:?}");
    }
}
