//! Two tenants in one memory: the scan of one does not affect the second.
//!
//!   cargo run --release -p pagetide --example groups

use pagetide::{Bytes, File, GroupOptions, OpenOptions, PageCache};

const PAGE: u64 = 4096;

fn scan(file: &File) -> Result<(), pagetide::ReadError> {
    let mut page = [0; PAGE as usize];
    for offset in (0..file.len()).step_by(PAGE as usize) {
        file.read_at(&mut page, offset)?;
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let [orders, archive] = ["orders", "archive"].map(|name| folder.path().join(name));
    std::fs::write(&orders, vec![1; 3 << 20])?;
    std::fs::write(&archive, vec![2; 32 << 20])?;

    let cache = PageCache::builder().memory(Bytes(8 << 20)).groups(true).build()?;
    // The shop keeps 4 MiB in any case. Reports never have more than 2 MiB.
    let shop = cache.group("shop", GroupOptions::new().min(Bytes(4 << 20)))?;
    let reports = cache.group("reports", GroupOptions::new().limit(Bytes(2 << 20)))?;

    // The group that opens a file is charged for its pages.
    let orders = shop.open(&orders, OpenOptions::new().read(true))?;
    let archive = reports.open(&archive, OpenOptions::new().read(true))?;
    for _ in 0..3 {
        scan(&orders)?;
        scan(&archive)?;
    }

    for group in [&shop, &reports] {
        let stats = group.stats()?;
        let (hits, held) = (100.0 * stats.hit_ratio(), stats.usage_bytes >> 10);
        println!("{:8} {hits:5.1} % hits, {held} KiB, {} evictions", group.name(), stats.evictions);
    }
    assert_eq!(orders.resident_pages(0, orders.len()), orders.len() / PAGE);
    assert!(reports.stats()?.usage_bytes <= 2 << 20);
    Ok(())
}
