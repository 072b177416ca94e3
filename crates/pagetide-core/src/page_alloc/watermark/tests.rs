//! Watermarks of Linux 6.18 by zone size, and rules for tiny zones.

use super::*;
use WatermarkLevel::{High, Low, Min, Promo};

const MIB: u64 = 256;
const GIB: u64 = 1024 * MIB;

fn levels(marks: &Watermarks) -> [u64; 4] {
    [Min, Low, High, Promo].map(|level| marks.mark(level))
}

fn single(managed: u64) -> Watermarks {
    Watermarks::for_zone(&WatermarkInputs::single_zone(managed))
}

#[test]
fn levels_match_linux_6_18() {
    for (managed, kbytes, expected) in [
        (16 * MIB, 512, [128, 160, 192, 224]),
        (64 * MIB, 1024, [256, 320, 384, 448]),
        (512 * MIB, 2896, [724, 905, 1086, 1267]),
        (4 * GIB, 8192, [2048, 3096, 4144, 5192]),
        (16 * GIB, 16384, [4096, 8290, 12484, 16678]),
    ] {
        assert_eq!(min_free_kbytes(managed), kbytes, "{managed} frames");
        assert_eq!(levels(&single(managed)), expected, "{managed} frames");
    }
}

#[test]
fn min_free_is_clamped_at_both_ends() {
    assert_eq!(min_free_kbytes(1), 128);
    assert_eq!(min_free_kbytes(1 << 40), 262_144);
}

#[test]
fn zones_share_min_free_by_size() {
    // 4 GiB of low memory keep 2048 frames. A quarter of it keeps 512.
    let inputs = WatermarkInputs { lowmem: 4 * GIB, ..WatermarkInputs::single_zone(GIB) };
    assert_eq!(levels(&Watermarks::for_zone(&inputs)), [512, 774, 1036, 1298]);
}

#[test]
fn scale_factor_spreads_the_levels() {
    let inputs = WatermarkInputs { scale_factor: 3000, ..WatermarkInputs::single_zone(GIB) };
    let distance = GIB * 3 / 10;
    let marks = Watermarks::for_zone(&inputs);
    assert_eq!(marks.mark(Min), 1024);
    assert_eq!(marks.mark(Low), 1024 + distance);
    assert_eq!(marks.mark(Promo), 1024 + 3 * distance);
}

#[test]
fn tiny_zones_keep_little_and_stay_usable() {
    for (managed, expected) in [
        (0, [0, 0, 0, 0]),
        (1, [0, 0, 0, 0]),
        (7, [0, 0, 0, 0]),
        (8, [0, 1, 2, 4]),
        (16, [1, 2, 3, 5]),
        (64, [4, 5, 6, 8]),
        (256, [16, 20, 24, 28]),
        (1023, [63, 78, 93, 108]),
    ] {
        assert_eq!(levels(&single(managed)), expected, "{managed} frames");
    }
    for managed in 1..5000 {
        for scale_factor in [0, 10, 3000] {
            let inputs = WatermarkInputs { scale_factor, ..WatermarkInputs::single_zone(managed) };
            let [min, low, high, promo] = levels(&Watermarks::for_zone(&inputs));
            assert!(min <= low && low <= high && high <= promo && promo < managed);
            assert!(min <= managed / 16);
            assert!(managed < 8 || promo >= high + 2, "a promotion leaves more than HIGH free");
        }
    }
}

#[test]
fn the_tiny_rules_leave_zones_from_four_mebibytes_alone() {
    // Here the distance is MIN/4, far above one frame.
    for managed in 1024..20_000 {
        let marks = single(managed);
        assert_eq!(marks.mark(Min), min_free_kbytes(managed) / 4, "{managed} frames");
        assert_eq!(marks.mark(Low) - marks.mark(Min), marks.mark(Min) / 4, "{managed} frames");
    }
}

#[test]
fn a_check_fails_on_equality() {
    let marks = single(16 * GIB);
    let blocks = FreeBlocks::default();
    assert!(marks.check(Order(0), Low, 8291, &blocks));
    assert!(!marks.check(Order(0), Low, 8290, &blocks));
}

#[test]
fn high_order_checks_leave_out_the_frames_taken_and_want_a_block() {
    let marks = single(16 * GIB);
    let mut blocks = FreeBlocks::default();
    assert!(!marks.check(Order(3), Low, 8298, &blocks), "no block of order 3");
    blocks.add(Order(2));
    assert!(!marks.check(Order(3), Low, 8298, &blocks), "too small a block");
    blocks.add(Order(3));
    assert!(!marks.check(Order(3), Low, 8297, &blocks));
    assert!(marks.check(Order(3), Low, 8298, &blocks));
    assert!(!marks.check(Order(10), Min, 5, &blocks), "no underflow");
}
