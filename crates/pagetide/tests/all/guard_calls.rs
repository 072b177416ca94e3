//! All calls of a thread with a guard, on the guard's page, on another page, and on the whole file:
//! each works or fails with `WouldDeadlock`. None hangs.

use crate::common::watchdog::Watchdog;
use crate::common::{PAGE, patterned_file};
use pagetide::{
    Advice, Bytes, File, GroupOptions, OpenOptions, PageCache, ReadError, RegionOptions,
};
use std::io;
use std::path::PathBuf;

/// Page with the guard, of a file of eight. It is dirty, as is page 5.
const HELD: u64 = 3;
const AT: u64 = HELD * PAGE as u64;
const ELSEWHERE: u64 = 5 * PAGE as u64;

struct Scene {
    cache: PageCache,
    path: PathBuf,
    file: File,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Done,
    WouldDeadlock,
}
use Outcome::{Done, WouldDeadlock};

type Call = fn(&Scene) -> io::Result<()>;

/// Calls, and their results under a [`PageGuard`](pagetide::PageGuard) and under a
/// [`PageGuardMut`](pagetide::PageGuardMut). Changes of the file's length come last.
const CALLS: &[(&str, Outcome, Outcome, Call)] = &[
    ("read_at", Done, WouldDeadlock, |scene| Ok(scene.file.read_exact_at(&mut [0; 9], AT)?)),
    ("read_at across", Done, WouldDeadlock, |scene| {
        Ok(scene.file.read_exact_at(&mut [0; 3 * PAGE], AT - PAGE as u64)?)
    }),
    ("read_at elsewhere", Done, Done, |scene| {
        Ok(scene.file.read_exact_at(&mut [0; 9], ELSEWHERE)?)
    }),
    ("write_at", WouldDeadlock, WouldDeadlock, |scene| Ok(scene.file.write_all_at(&[1], AT)?)),
    ("write_at elsewhere", Done, Done, |scene| Ok(scene.file.write_all_at(&[1], ELSEWHERE)?)),
    ("page", Done, WouldDeadlock, |scene| Ok(scene.file.page(HELD).map(drop)?)),
    ("page elsewhere", Done, Done, |scene| Ok(scene.file.page(5).map(drop)?)),
    ("page_mut", WouldDeadlock, WouldDeadlock, |scene| Ok(scene.file.page_mut(HELD).map(drop)?)),
    ("page_mut elsewhere", Done, Done, |scene| Ok(scene.file.page_mut(5).map(drop)?)),
    ("cursor", Done, WouldDeadlock, |scene| {
        io::Read::read_to_end(&mut scene.file.cursor(), &mut Vec::new()).map(drop)
    }),
    ("sync_data", Done, WouldDeadlock, |scene| Ok(scene.file.sync_data()?)),
    ("sync_all", Done, WouldDeadlock, |scene| Ok(scene.file.sync_all()?)),
    ("flush", Done, WouldDeadlock, |scene| Ok(scene.file.flush()?)),
    ("flush_all", Done, WouldDeadlock, |scene| Ok(scene.cache.flush_all()?)),
    ("is_stored", Done, Done, |scene| {
        scene.file.is_stored();
        Ok(())
    }),
    ("look_again", Done, Done, |scene| Ok(scene.file.look_again()?)),
    ("advise for the handle", Done, Done, |scene| {
        for advice in [Advice::Normal, Advice::Sequential, Advice::Random, Advice::NoReuse] {
            scene.file.advise(advice, 0, 0)?;
        }
        Ok(())
    }),
    ("advise will need", Done, Done, |scene| Ok(scene.file.advise(Advice::WillNeed, 0, 0)?)),
    ("advise do not need", Done, WouldDeadlock, |scene| {
        Ok(scene.file.advise(Advice::DontNeed, 0, 0)?)
    }),
    ("what the file is", Done, Done, |scene| {
        assert_eq!(scene.file.len(), 8 * PAGE as u64);
        assert!(scene.file.resident_pages(0, u64::MAX) > 0);
        Ok(())
    }),
    ("reopen", Done, Done, |scene| Ok(scene.file.reopen().write_all_at(&[1], ELSEWHERE)?)),
    ("open", Done, Done, |scene| {
        let again = scene.cache.open(&scene.path, rw())?;
        Ok(again.read_exact_at(&mut [0; 9], ELSEWHERE)?)
    }),
    ("open for a group", Done, Done, |scene| {
        let group = scene.cache.group("tenant", GroupOptions::new().limit(Bytes(64 << 10)))?;
        let again = group.open(&scene.path, rw())?;
        again.read_exact_at(&mut [0; 9], ELSEWHERE)?;
        group.reclaim(Bytes(1 << 20))?;
        group.set(GroupOptions::new().limit(Bytes(128 << 10)))?;
        Ok(group.remove()?)
    }),
    ("region over the file", Done, Done, |scene| {
        let refused = scene.cache.region(RegionOptions::over(&scene.path)).unwrap_err();
        assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::ResourceBusy);
        Ok(())
    }),
    ("tick, statistics, generations", Done, Done, |scene| {
        scene.cache.tick(pagetide::Millis(1000));
        scene.cache.command_lru_gen("+ 0 0 0").ok();
        scene.cache.describe_lru_gen(pagetide::Detail::Full);
        assert!(scene.cache.stats().resident_bytes > 0);
        Ok(())
    }),
    ("reads of more than there is memory", Done, Done, |scene| {
        let other = scene.path.with_extension("other");
        std::fs::write(&other, vec![1; 100 * PAGE])?;
        let other = scene.cache.open(other, OpenOptions::new().read(true))?;
        Ok(other.read_exact_at(&mut vec![0; 100 * PAGE], 0)?)
    }),
    ("writes of more than may be dirty", Done, Done, |scene| {
        let other = scene.cache.open(scene.path.with_extension("new"), rw().create(true))?;
        Ok(other.write_all_at(&vec![1; 100 * PAGE], 0)?)
    }),
    ("resize", Done, Done, |scene| {
        scene.cache.resize(Bytes::from_pages(20))?;
        Ok(scene.cache.resize(Bytes::from_pages(64))?)
    }),
    ("set_len elsewhere", Done, Done, |scene| Ok(scene.file.set_len(AT + 2 * PAGE as u64)?)),
    ("set_len", Done, Done, |scene| Ok(scene.file.set_len(AT + 1)?)),
    ("open and truncate", Done, Done, |scene| {
        scene.cache.open(&scene.path, rw().truncate(true))?;
        assert!(scene.file.is_empty());
        Ok(())
    }),
];

fn rw() -> OpenOptions {
    OpenOptions::new().read(true).write(true)
}

fn scene(dir: &tempfile::TempDir, background: bool) -> Scene {
    let path = patterned_file(dir.path(), "a", 8 * PAGE);
    let builder = PageCache::builder().memory(Bytes::from_pages(64)).groups(true);
    let cache = builder.background(background).build().unwrap();
    let file = cache.open(&path, rw()).unwrap();
    file.write_all_at(&[1], AT).unwrap();
    file.write_all_at(&[1], ELSEWHERE).unwrap();
    Scene { cache, path, file }
}

fn outcome(result: io::Result<()>, name: &str) -> Outcome {
    match result {
        Ok(()) => Done,
        Err(error) if error.kind() == io::ErrorKind::Deadlock => {
            assert!(error.to_string().contains("guard of page 3"), "{name}: {error}");
            WouldDeadlock
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn each_call_beside_a_guard_of_its_own_thread_is_done_or_refused() {
    let _watchdog = Watchdog::new();
    for background in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let scene = scene(&dir, background);
        let holder = scene.file.reopen();
        let is_cutting = |name: &str| name.starts_with("set_len") || name.ends_with("truncate");
        for (name, shared, exclusive, call) in CALLS {
            let guard = holder.page(HELD).unwrap();
            assert_eq!(outcome(call(&scene), name), *shared, "{name}, shared, {background}");
            drop(guard);
            if is_cutting(name) {
                scene.file.set_len(8 * PAGE as u64).unwrap();
            }
            let mut guard = holder.page_mut(HELD).unwrap();
            guard[0] ^= 1;
            assert_eq!(outcome(call(&scene), name), *exclusive, "{name}, exclusive, {background}");
            drop(guard);
            if is_cutting(name) {
                scene.file.set_len(8 * PAGE as u64).unwrap();
            }
            // The call works once the guard is dropped.
            assert_eq!(outcome(call(&scene), name), Done, "{name}, alone, {background}");
            if is_cutting(name) {
                scene.file.set_len(8 * PAGE as u64).unwrap();
            }
        }
    }
}

/// A page has at most 2047 guards. A thread that holds all of them does not wait for one.
#[test]
fn a_guard_too_many_is_refused() {
    let _watchdog = Watchdog::new();
    let dir = tempfile::tempdir().unwrap();
    let scene = scene(&dir, false);
    let mut guards = Vec::new();
    let refused = loop {
        match scene.file.page(HELD) {
            Ok(guard) => guards.push(guard),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ReadError::WouldDeadlock { index: HELD }), "{refused}");
    assert_eq!(guards.len(), 2047);
    guards.pop();
    assert_eq!(scene.file.page(HELD).unwrap().len(), PAGE);
}
