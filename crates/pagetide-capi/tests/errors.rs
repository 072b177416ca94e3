//! The errors of each function, and that a refused call changes nothing.
#![expect(unsafe_code, reason = "C's functions are called")]

use pagetide_capi::cache::*;
use pagetide_capi::door::*;
use pagetide_capi::file::*;
use pagetide_capi::group::*;
use pagetide_capi::page::*;
use pagetide_capi::policy::*;
use pagetide_capi::region::*;
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::null;

const PAGE: usize = 4096;

fn said() -> String {
    // SAFETY: S34: it is text until the next failure of this thread.
    unsafe { CStr::from_ptr(pt_last_error()) }.to_str().unwrap().to_owned()
}

/// Asserts that the call failed with this errno, and that the message has the word.
#[track_caller]
fn fails(result: impl Into<i64>, errno: i32, word: &str) {
    let (result, said) = (result.into(), said());
    assert_eq!(result, -i64::from(errno), "{said}");
    assert!(said.contains(word), "{said:?} does not say {word:?}");
}

#[track_caller]
fn works(result: impl Into<i64>) -> i64 {
    let result = result.into();
    assert!(result >= 0, "{result}: {}", said());
    result
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

const NO_OPTIONS: pt_cache_options = pt_cache_options {
    size: size_of::<pt_cache_options>(),
    memory_bytes: 1 << 20,
    memory_max_bytes: 0,
    policy: null(),
    tiers: null(),
    settings: null(),
    record: null(),
    groups: 0,
};

#[track_caller]
fn open_cache(options: &pt_cache_options) -> Box<pt_cache> {
    let mut cache = MaybeUninit::uninit();
    // SAFETY: S34: options of that size.
    works(unsafe { pt_cache_open(options, Some(&mut cache)) });
    // SAFETY: S34: the call has succeeded.
    unsafe { cache.assume_init() }
}

#[track_caller]
fn refused(options: &pt_cache_options, errno: i32, word: &str) {
    let mut cache = MaybeUninit::uninit();
    // SAFETY: S34: options of that size.
    fails(unsafe { pt_cache_open(options, Some(&mut cache)) }, errno, word);
}

/// A cache of 16 pages, and a folder with a file of 64 pages.
struct Bench {
    cache: Box<pt_cache>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), vec![7; 64 * PAGE]).unwrap();
        let options = pt_cache_options { memory_bytes: 64 << 10, groups: 1, ..NO_OPTIONS };
        Bench { cache: open_cache(&options), folder }
    }

    fn path(&self, name: &str) -> CString {
        c(&self.folder.path().join(name))
    }

    #[track_caller]
    fn open(&self, flags: u32) -> Box<pt_file> {
        let mut file = MaybeUninit::uninit();
        // SAFETY: S34: a path.
        let result = unsafe {
            pt_file_open(Some(&self.cache), self.path("a").as_ptr(), flags, Some(&mut file))
        };
        works(result);
        // SAFETY: S34: the call has succeeded.
        unsafe { file.assume_init() }
    }

    #[track_caller]
    fn group(&self, name: &CStr, limit_bytes: u64) -> Result<Box<pt_group>, i32> {
        let mut group = MaybeUninit::uninit();
        let options = pt_group_options {
            size: size_of::<pt_group_options>(),
            limit_bytes,
            min_bytes: 0,
            low_bytes: 0,
        };
        // SAFETY: S34: a name, and options of that size.
        let result = unsafe {
            pt_group_create(Some(&self.cache), name.as_ptr(), &options, Some(&mut group))
        };
        if result < 0 {
            return Err(result);
        }
        // SAFETY: S34: the call has succeeded.
        Ok(unsafe { group.assume_init() })
    }
}

fn read(file: &pt_file, offset: u64) -> i64 {
    let mut bytes = [0_u8; 10];
    // SAFETY: S34: a buffer of that length.
    unsafe { pt_file_pread(Some(file), bytes.as_mut_ptr().cast(), bytes.len(), offset) }
}

fn write(file: &pt_file, offset: u64) -> i64 {
    // SAFETY: S34: a buffer of that length.
    unsafe { pt_file_pwrite(Some(file), b"0123456789".as_ptr().cast(), 10, offset) }
}

#[test]
fn a_cache_says_which_option_is_wrong() {
    // SAFETY: S34: null is refused before it is looked at.
    fails(unsafe { pt_cache_open(&NO_OPTIONS, None) }, libc::EINVAL, "cache is NULL");
    let mut cache = MaybeUninit::uninit();
    // SAFETY: S34: as above.
    fails(unsafe { pt_cache_open(null(), Some(&mut cache)) }, libc::EINVAL, "NULL");
    for size in [0, 8, 63, usize::MAX] {
        refused(&pt_cache_options { size, ..NO_OPTIONS }, libc::EINVAL, "set it to sizeof");
    }
    refused(&pt_cache_options { memory_bytes: 0, ..NO_OPTIONS }, libc::EINVAL, "memory");
    refused(&pt_cache_options { memory_bytes: 1, ..NO_OPTIONS }, libc::EINVAL, "64K");
    refused(&pt_cache_options { groups: 2, ..NO_OPTIONS }, libc::EINVAL, "groups is 2");
    let policy = c"most-recently-lost".as_ptr();
    refused(&pt_cache_options { policy, ..NO_OPTIONS }, libc::EINVAL, "unknown policy");
    let policy = c"\xff".as_ptr();
    refused(&pt_cache_options { policy, ..NO_OPTIONS }, libc::EINVAL, "policy is no UTF-8");
    for (setting, word) in [(c"dirty", "name=value"), (c"dirt=1", "dirt"), (c"dirty=x", "dirty")] {
        let settings = [setting.as_ptr(), null()];
        let settings = settings.as_ptr();
        refused(&pt_cache_options { settings, ..NO_OPTIONS }, libc::EINVAL, word);
    }
    let tiers = [c"dram=1M".as_ptr(), c"glass=1M".as_ptr(), null()];
    let tiers = tiers.as_ptr();
    refused(&pt_cache_options { memory_bytes: 0, tiers, ..NO_OPTIONS }, libc::EINVAL, "a tier is");
    let record = c"/no/such/folder/a.ptt".as_ptr();
    refused(&pt_cache_options { record, ..NO_OPTIONS }, libc::ENOENT, "/no/such/folder");
}

#[test]
fn options_of_other_versions_are_understood_or_refused() {
    #[repr(C)]
    struct Newer(pt_cache_options, u64);
    let size = size_of::<Newer>();
    let newer = Newer(pt_cache_options { size, ..NO_OPTIONS }, 0);
    pt_cache_close(Some(open_cache(&newer.0)));
    let newer = Newer(newer.0, 1);
    let mut cache = MaybeUninit::uninit();
    // SAFETY: S34: options of that size.
    let result = unsafe { pt_cache_open((&raw const newer).cast(), Some(&mut cache)) };
    fails(result, libc::E2BIG, "byte 64");
}

#[test]
fn settings_tiers_and_policies_reach_the_cache() {
    let tiers = [c"dram=1M".as_ptr(), c"compressed=1M".as_ptr(), null()];
    let settings = [c"readahead_max=0".as_ptr(), c"background=0".as_ptr(), null()];
    let options = pt_cache_options {
        memory_bytes: 0,
        policy: c"lru".as_ptr(),
        tiers: tiers.as_ptr(),
        settings: settings.as_ptr(),
        ..NO_OPTIONS
    };
    let cache = open_cache(&options);
    let mut text = [1 as c_char; 20];
    // SAFETY: S34: a buffer of that length.
    let len = unsafe { pt_cache_describe(Some(&cache), text.as_mut_ptr(), text.len()) };
    assert!(len > 100);
    // SAFETY: S34: text ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    assert_eq!(text, c"policy      lru\nmem");
    // SAFETY: S34: nothing is written to a buffer of no bytes.
    assert_eq!(unsafe { pt_cache_describe(Some(&cache), std::ptr::null_mut(), 0) }, len);
}

#[test]
fn a_cache_refuses_what_it_cannot_do() {
    let bench = Bench::new();
    fails(pt_cache_resize(None, 1 << 20), libc::EINVAL, "cache is NULL");
    fails(pt_cache_resize(Some(&bench.cache), 1 << 40), libc::EINVAL, "1T");
    fails(pt_cache_flush(None), libc::EINVAL, "cache is NULL");
    let mut stats = MaybeUninit::<pt_cache_stats>::zeroed();
    // SAFETY: S34: a structure with a readable size.
    let result = unsafe { pt_cache_get_stats(Some(&bench.cache), stats.as_mut_ptr()) };
    fails(result, libc::EINVAL, "size is 0");
    let mut value = MaybeUninit::uninit();
    // SAFETY: S34: a name.
    let result = unsafe {
        pt_cache_get_counter(Some(&bench.cache), c"pgsteal_gold".as_ptr(), Some(&mut value))
    };
    fails(result, libc::ENOENT, "pgsteal_gold");
    // SAFETY: S34: null is refused.
    let result = unsafe { pt_cache_get_counter(Some(&bench.cache), null(), Some(&mut value)) };
    fails(result, libc::EINVAL, "name is NULL");
    let file = bench.open(PT_READ);
    assert_eq!(read(&file, 0), 10);
    // SAFETY: S34: a name.
    works(unsafe {
        pt_cache_get_counter(Some(&bench.cache), c"pgpgin".as_ptr(), Some(&mut value))
    });
    // SAFETY: S34: null is refused.
    let result = unsafe { pt_cache_describe_counters(Some(&bench.cache), std::ptr::null_mut(), 5) };
    fails(result, libc::EINVAL, "5 bytes is NULL");
    pt_cache_close(None);
}

#[test]
fn a_file_refuses_what_it_cannot_do() {
    let bench = Bench::new();
    let mut file = MaybeUninit::uninit();
    let mut open = |path: *const c_char, flags| {
        // SAFETY: S34: a path, or null.
        unsafe { pt_file_open(Some(&bench.cache), path, flags, Some(&mut file)) }
    };
    fails(open(null(), PT_READ), libc::EINVAL, "path is NULL");
    fails(open(bench.path("a").as_ptr(), 0), libc::EINVAL, "access");
    fails(open(bench.path("a").as_ptr(), 33), libc::EINVAL, "0x20");
    fails(open(bench.path("b").as_ptr(), PT_READ), libc::ENOENT, "/b");
    fails(open(bench.path("").as_ptr(), PT_READ), libc::EINVAL, "regular file");

    fails(pt_file_len(None), libc::EINVAL, "file is NULL");
    let (reader, writer) = (bench.open(PT_READ), bench.open(PT_WRITE));
    assert_eq!(pt_file_len(Some(&reader)), 64 * PAGE as i64);
    fails(read(&writer, 0), libc::EACCES, "without read access");
    fails(write(&reader, 0), libc::EACCES, "without write access");
    fails(write(&writer, u64::MAX), libc::EFBIG, "longest file");
    fails(pt_file_set_len(Some(&reader), 0), libc::EACCES, "without write access");
    fails(pt_file_set_len(Some(&writer), u64::MAX), libc::EFBIG, "longest file");
    assert_eq!(read(&reader, 64 * PAGE as u64), 0);
    // SAFETY: S34: null and such lengths are refused.
    let result = unsafe { pt_file_pread(Some(&reader), std::ptr::null_mut(), 1, 0) };
    fails(result, libc::EINVAL, "1 bytes is NULL");
    // SAFETY: S34: as above.
    let result = unsafe { pt_file_pwrite(Some(&writer), c"".as_ptr().cast(), usize::MAX, 0) };
    fails(result, libc::EINVAL, "no buffer has");
    fails(pt_file_advise(Some(&reader), 6, 0, 0), libc::EINVAL, "6 is no advice");
    fails(pt_file_sync(None), libc::EINVAL, "file is NULL");
    fails(pt_file_flush(None), libc::EINVAL, "file is NULL");
    fails(pt_file_resident_pages(None, 0, 0), libc::EINVAL, "file is NULL");
    pt_file_close(None);
}

#[test]
fn a_file_is_read_written_cut_and_advised() {
    let bench = Bench::new();
    let file = bench.open(PT_READ | PT_WRITE);
    assert_eq!(write(&file, 64 * PAGE as u64), 10);
    works(pt_file_flush(Some(&file)));
    works(pt_file_sync(Some(&file)));
    assert_eq!(pt_file_len(Some(&file)), 64 * PAGE as i64 + 10);
    works(pt_file_set_len(Some(&file), 5 * PAGE as u64));
    for advice in [PT_ADVICE_NORMAL, PT_ADVICE_SEQUENTIAL, PT_ADVICE_RANDOM, PT_ADVICE_NOREUSE] {
        works(pt_file_advise(Some(&file), advice, 0, 0));
    }
    assert_eq!(read(&file, 0), 10);
    assert!(pt_file_resident_pages(Some(&file), 0, 1) == 1);
    works(pt_file_advise(Some(&file), PT_ADVICE_WILLNEED, 0, 0));
    works(pt_file_advise(Some(&file), PT_ADVICE_DONTNEED, 0, PAGE as u64));
    assert!(pt_file_resident_pages(Some(&file), 0, 1) == 0);
    works(pt_cache_flush(Some(&bench.cache)));
    // The file outlives the cache's handle.
    let Bench { cache, folder } = bench;
    pt_cache_close(Some(cache));
    assert_eq!(read(&file, 5 * PAGE as u64 - 3), 3);
    pt_file_close(Some(file));
    assert_eq!(std::fs::metadata(folder.path().join("a")).unwrap().len(), 5 * PAGE as u64);
}

#[test]
fn a_guard_refuses_what_it_cannot_do() {
    let bench = Bench::new();
    let (reader, file) = (bench.open(PT_READ), bench.open(PT_READ | PT_WRITE));
    let mut page = MaybeUninit::<pt_page>::uninit();
    let mut locked = MaybeUninit::<pt_locked_page>::uninit();
    fails(pt_page_pin(Some(&file), 0, None), libc::EINVAL, "page is NULL");
    fails(pt_page_pin(None, 0, Some(&mut page)), libc::EINVAL, "file is NULL");
    fails(pt_page_pin(Some(&file), 64, Some(&mut page)), libc::ENODATA, "page 64");
    // SAFETY: S35: a failed call has set data to null.
    let is_nothing = unsafe { page.assume_init_mut() };
    fails(pt_page_unpin(Some(is_nothing)), libc::EINVAL, "not pinned");
    fails(pt_page_unpin(None), libc::EINVAL, "page is NULL");
    fails(pt_page_lock(Some(&reader), 0, Some(&mut locked)), libc::EACCES, "write access");
    fails(pt_page_lock(Some(&file), 64, Some(&mut locked)), libc::EINVAL, "page 64");
    // SAFETY: S35: as above.
    let is_nothing = unsafe { locked.assume_init_mut() };
    fails(pt_page_unlock(Some(is_nothing)), libc::EINVAL, "not locked");
    fails(pt_page_unlock(None), libc::EINVAL, "page is NULL");

    works(pt_page_lock(Some(&file), 3, Some(&mut locked)));
    fails(pt_page_pin(Some(&file), 3, Some(&mut page)), libc::EDEADLK, "page 3");
    fails(read(&file, 3 * PAGE as u64), libc::EDEADLK, "page 3");
    fails(pt_file_sync(Some(&file)), libc::EDEADLK, "page 3");
    fails(pt_cache_flush(Some(&bench.cache)), libc::EDEADLK, "page 3");
    // SAFETY: S35: locked, by a structure that does not move.
    works(pt_page_unlock(Some(unsafe { locked.assume_init_mut() })));

    works(pt_page_pin(Some(&file), 3, Some(&mut page)));
    fails(write(&file, 3 * PAGE as u64), libc::EDEADLK, "page 3");
    // SAFETY: S35: pinned, by a structure that does not move.
    let page = unsafe { page.assume_init_mut() };
    works(pt_page_unpin(Some(page)));
    assert!(page.data.is_null());
    fails(pt_page_unpin(Some(page)), libc::EINVAL, "unpinned already");
    assert_eq!(write(&file, 3 * PAGE as u64), 10);
}

#[test]
fn a_locked_page_is_published_and_more_guards_than_frames_are_refused() {
    let bench = Bench::new();
    let file = bench.open(PT_READ | PT_WRITE);
    let mut locked = MaybeUninit::<pt_locked_page>::uninit();
    works(pt_page_lock(Some(&file), 5, Some(&mut locked)));
    // SAFETY: S35: locked, by a structure that does not move.
    let locked = unsafe { locked.assume_init_mut() };
    assert_eq!(locked.len, PAGE);
    // SAFETY: S35: there are 4096 bytes.
    unsafe { locked.data.wrapping_add(9).write(200) };
    works(pt_page_unlock(Some(locked)));
    assert!(locked.data.is_null());

    let mut pages: [MaybeUninit<pt_page>; 17] = std::array::from_fn(|_| MaybeUninit::uninit());
    let results: Vec<i32> = pages
        .iter_mut()
        .enumerate()
        .map(|(index, page)| pt_page_pin(Some(&file), index as u64, Some(page)))
        .collect();
    assert_eq!(results[..16], [0; 16]);
    fails(results[16], libc::EBUSY, "16 are pinned");
    assert_eq!(read(&file, 20 * PAGE as u64), 10, "a read goes past the cache");
    for page in &mut pages[..16] {
        // SAFETY: S35: pinned, by a structure that does not move.
        works(pt_page_unpin(Some(unsafe { page.assume_init_mut() })));
    }
    works(pt_file_sync(Some(&file)));
    assert_eq!(std::fs::read(bench.folder.path().join("a")).unwrap()[5 * PAGE + 9], 200);
}

#[test]
fn a_group_refuses_what_it_cannot_do() {
    let bench = Bench::new();
    let open = bench.group(c"scans", 64 << 10).map_err(|_| said()).unwrap();
    assert!(bench.group(c"scans", 0).is_err_and(|errno| errno == -libc::EEXIST));
    assert!(bench.group(c"small", 1).is_err_and(|errno| errno == -libc::EINVAL));
    let mut below = MaybeUninit::uninit();
    let mut options = pt_group_options {
        size: size_of::<pt_group_options>(),
        limit_bytes: 0,
        min_bytes: 1 << 30,
        low_bytes: 0,
    };
    // SAFETY: S34: a name, and options of that size.
    let result = unsafe { pt_group_set(Some(&open), &options) };
    fails(result, libc::EINVAL, "1G");
    options.min_bytes = 0;
    // SAFETY: S34: as above.
    works(unsafe {
        pt_group_create_below(Some(&open), c"nightly".as_ptr(), &options, Some(&mut below))
    });
    fails(pt_group_remove(Some(&open)), libc::EBUSY, "1 groups below");
    // SAFETY: S34: the call has succeeded.
    let below = unsafe { below.assume_init() };
    let mut file = MaybeUninit::uninit();
    let path = bench.path("a");
    // SAFETY: S34: a path.
    works(unsafe { pt_group_open_file(Some(&below), path.as_ptr(), PT_READ, Some(&mut file)) });
    // SAFETY: S34: the call has succeeded.
    let opened = unsafe { file.assume_init() };
    assert_eq!(read(&opened, 0), 10);
    let mut stats = MaybeUninit::<pt_group_stats>::zeroed();
    // SAFETY: S34: zeros are a valid value.
    let stats = unsafe { stats.assume_init_mut() };
    stats.size = size_of::<pt_group_stats>();
    // SAFETY: S34: a structure of that size.
    works(unsafe { pt_group_get_stats(Some(&below), stats) });
    assert!(stats.usage_bytes > 0 && stats.misses == 1, "{}", stats.usage_bytes);
    pt_file_close(Some(opened));
    let mut freed = MaybeUninit::uninit();
    works(pt_group_reclaim(Some(&below), 4096, Some(&mut freed)));
    works(pt_group_remove(Some(&below)));
    fails(pt_group_remove(Some(&below)), libc::ENOENT, "nightly");
    fails(pt_group_reclaim(Some(&below), 4096, None), libc::ENOENT, "nightly");
    let mut file = MaybeUninit::uninit();
    // SAFETY: S34: a path.
    let result =
        unsafe { pt_group_open_file(Some(&below), path.as_ptr(), PT_READ, Some(&mut file)) };
    fails(result, libc::ENOENT, "nightly");
    // SAFETY: S34: a structure of that size.
    fails(unsafe { pt_group_get_stats(Some(&below), stats) }, libc::ENOENT, "nightly");
    // SAFETY: S34: options of that size.
    fails(unsafe { pt_group_set(Some(&below), &options) }, libc::ENOENT, "nightly");
    pt_group_close(Some(below));
    pt_group_close(None);
    let without = open_cache(&NO_OPTIONS);
    let mut group = MaybeUninit::uninit();
    // SAFETY: S34: a name, and options of that size.
    let result =
        unsafe { pt_group_create(Some(&without), c"a".as_ptr(), &options, Some(&mut group)) };
    fails(result, libc::EOPNOTSUPP, "without groups");
}

#[test]
fn a_region_refuses_what_it_cannot_do() {
    let cache = open_cache(&NO_OPTIONS);
    let mut region = MaybeUninit::uninit();
    let mut options = pt_region_options {
        size: size_of::<pt_region_options>(),
        len_bytes: 0,
        path: null(),
        swap_folder: null(),
        handlers: 0,
        read_only: 0,
    };
    let mut create = |options: &pt_region_options| {
        // SAFETY: S34: options of that size.
        unsafe { pt_region_create(Some(&cache), options, Some(&mut region)) }
    };
    fails(create(&options), libc::EINVAL, "len_bytes or a path");
    options.path = c"/no/such/file".as_ptr();
    fails(create(&options), libc::ENOENT, "/no/such/file");
    options.len_bytes = 8 << 20;
    fails(create(&options), libc::EINVAL, "as long as the file");
    options.path = null();
    options.swap_folder = c"/no/such/folder".as_ptr();
    fails(create(&options), libc::ENOENT, "/no/such/folder");
    fails(pt_region_len(None), libc::EINVAL, "region is NULL");
    assert!(pt_region_address(None).is_null());
    pt_region_destroy(None);

    options.swap_folder = null();
    let result = create(&options);
    if [-libc::EPERM, -libc::EACCES, -libc::ENOSYS].contains(&result) {
        println!("SKIPPED: a_region_refuses_what_it_cannot_do: {}: allow userfaultfd", said());
        return;
    }
    works(result);
    // SAFETY: S34: the call has succeeded.
    let region = unsafe { region.assume_init() };
    assert_eq!(pt_region_len(Some(&region)), 8 << 20);
    let address = pt_region_address(Some(&region)).cast::<u8>();
    // In random order, because zeros are mapped ahead of a sequential stream.
    for page in (0..2048).map(|nth| nth * 1031 % 2048) {
        let at = page * PAGE;
        // SAFETY: S24: an address of a region that lives.
        unsafe { address.wrapping_add(at).write_volatile(at as u8 | 1) };
    }
    works(pt_region_populate(Some(&region), 0, PAGE as u64, PT_READ));
    works(pt_region_populate(Some(&region), 0, PAGE as u64, PT_WRITE));
    fails(pt_region_populate(Some(&region), 0, 1, 3), libc::EINVAL, "PT_READ or PT_WRITE");
    let end = 8 << 20;
    fails(pt_region_populate(Some(&region), end, 1, PT_READ), libc::ENODATA, "8388608");
    fails(pt_region_populate(Some(&region), 1, u64::MAX, PT_READ), libc::ENODATA, "8388608");
    fails(pt_region_advise(Some(&region), 9, 0, 0), libc::EINVAL, "9 is no advice");
    works(pt_region_advise(Some(&region), PT_ADVICE_DONTNEED, 0, PAGE as u64));
    works(pt_region_sync(Some(&region)));
    // A program's version may know less.
    let mut stats = [size_of::<pt_region_stats>() as u64 - 8, 0, 0, 0, 0, 0, 77];
    // SAFETY: S34: a structure of that size, seven words in all.
    let result = unsafe { pt_region_get_stats(Some(&region), stats.as_mut_ptr().cast()) };
    fails(result, libc::EINVAL, "set it to sizeof");
    stats[0] += 8;
    // SAFETY: S34: as above.
    works(unsafe { pt_region_get_stats(Some(&region), stats.as_mut_ptr().cast()) });
    assert!(stats[1] >= 2048 && stats[5] <= 1 << 20 && stats[6] < 2, "{stats:?}");
    pt_region_destroy(Some(region));
}

/// A running program's file cannot be written.
#[test]
fn a_region_over_a_file_that_may_not_be_written_is_read_only() {
    let cache = open_cache(&NO_OPTIONS);
    let own = std::env::current_exe().expect("this program is a file");
    let path = CString::new(own.into_os_string().into_encoded_bytes()).expect("a path");
    let mut options = pt_region_options {
        size: size_of::<pt_region_options>(),
        len_bytes: 0,
        path: path.as_ptr(),
        swap_folder: null(),
        handlers: 0,
        read_only: 0,
    };
    let mut region = MaybeUninit::uninit();
    let mut create = |options: &pt_region_options| {
        // SAFETY: S34: options of that size.
        unsafe { pt_region_create(Some(&cache), options, Some(&mut region)) }
    };
    fails(create(&options), libc::ETXTBSY, "");
    options.read_only = 1;
    let result = create(&options);
    if [-libc::EPERM, -libc::EACCES, -libc::ENOSYS].contains(&result) {
        println!("SKIPPED: a_region_over_a_file: {}: allow userfaultfd", said());
        return;
    }
    works(result);
    // SAFETY: S34: the call has succeeded.
    let region = unsafe { region.assume_init() };
    let address = pt_region_address(Some(&region)).cast::<u8>();
    // SAFETY: S24: an address of a region that lives.
    assert_eq!(unsafe { address.read_volatile() }, 0x7f, "an ELF file");
    pt_region_destroy(Some(region));
}

#[test]
fn statistics_fill_what_the_caller_knows_and_no_more() {
    let bench = Bench::new();
    let file = bench.open(PT_READ);
    assert_eq!(read(&file, 0), 10);
    let mut longer = [u64::MAX; 24];
    longer[0] = 8 * 23;
    // SAFETY: S34: 23 words, as stated.
    works(unsafe { pt_cache_get_stats(Some(&bench.cache), longer.as_mut_ptr().cast()) });
    assert_eq!(longer[..2], [8 * 23, 64 << 10]);
    assert_eq!(longer[5..8], [1, 0, 1], "accesses, hits, misses");
    assert_eq!(longer[20..], [0, 0, 0, u64::MAX], "zero where it knows more, untouched beyond");
}

#[test]
fn each_thread_has_its_own_sentence_and_there_is_a_version() {
    fails(pt_file_sync(None), libc::EINVAL, "file is NULL");
    std::thread::spawn(|| assert_eq!(said(), "")).join().unwrap();
    assert_eq!(pt_abi_version(), PT_ABI_VERSION);
    // SAFETY: S34: text that is never freed.
    let version = unsafe { CStr::from_ptr(pt_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_descriptor_opens_the_file_and_keeps_its_lock_until_the_close() {
    use std::os::fd::AsRawFd;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, [7; PAGE]).unwrap();
    let open = || std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let cache = open_cache(&NO_OPTIONS);
    let mut file = MaybeUninit::uninit();
    fails(pt_file_open_fd(Some(&cache), -1, Some(&mut file)), libc::EBADF, "descriptor");
    fails(pt_file_open_fd(None, 0, Some(&mut file)), libc::EINVAL, "cache");
    let locked = open();
    locked.try_lock().unwrap();
    works(pt_file_open_fd(Some(&cache), locked.as_raw_fd(), Some(&mut file)));
    drop(locked);
    // SAFETY: S34: the call has succeeded.
    let file = unsafe { file.assume_init() };
    open().try_lock().expect_err("the file keeps the lock");
    // SAFETY: S34: four bytes.
    works(unsafe { pt_file_pwrite(Some(&file), c"tide".as_ptr().cast(), 4, 5) });
    pt_file_close(Some(file));
    open().try_lock().unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[5..9], *b"tide");
    let mut file = MaybeUninit::uninit();
    let flags = PT_READ | PT_WRITE | PT_CREATE_NEW;
    // SAFETY: S34: a text.
    let refused = unsafe { pt_file_open(Some(&cache), c(&path).as_ptr(), flags, Some(&mut file)) };
    fails(refused, libc::EEXIST, "could not be opened");
}

#[test]
fn a_pinned_range_stays_after_the_close_of_its_file() {
    let bench = Bench::new();
    let file = bench.open(PT_READ);
    let (mut data, mut pinned) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let past = pt_file_pin(Some(&file), 64 * PAGE as u64, 1, Some(&mut data), Some(&mut pinned));
    fails(past, libc::ENODATA, "bytes long");
    let huge = pt_file_pin(Some(&file), 5, usize::MAX, Some(&mut data), Some(&mut pinned));
    fails(huge, libc::ENODATA, "bytes long");
    fails(pt_file_pin(Some(&file), 0, 1, None, Some(&mut pinned)), libc::EINVAL, "data is NULL");
    works(pt_file_pin(Some(&file), 5, 3 * PAGE, Some(&mut data), Some(&mut pinned)));
    // SAFETY: S34: the call has succeeded.
    let data = unsafe { data.assume_init() };
    // SAFETY: S34: the call has succeeded.
    let pinned = unsafe { pinned.assume_init() };
    pt_file_close(Some(file));
    // SAFETY: S34: so many bytes are pinned.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), 3 * PAGE) };
    let all = std::fs::read(Path::new(bench.path("a").to_str().unwrap())).unwrap();
    assert!(*bytes == all[5..5 + 3 * PAGE]);
    std::thread::scope(|scope| {
        scope.spawn(move || pt_file_unpin(Some(pinned)));
    });
    pt_file_unpin(None);
}

#[test]
fn a_policy_refuses_what_it_cannot_hold() {
    let mut opened = MaybeUninit::uninit();
    let wanted = |capacity_entries| pt_policy_options {
        size: size_of::<pt_policy_options>(),
        capacity_entries,
        capacity_bytes: 100,
        entry_bytes: 0,
        entries_max: 3,
        history: 0,
    };
    let mut open = |name: &CStr, capacity: u64, policy: bool| {
        let policy = policy.then_some(&mut opened);
        // SAFETY: S34: a text, and options of that size.
        unsafe { pt_policy_open(name.as_ptr(), &wanted(capacity), policy) }
    };
    fails(open(c"mru", 2, true), libc::EINVAL, "w-tinylfu");
    fails(open(c"lru", 0, true), libc::EINVAL, "less than one entry");
    fails(open(c"lru", 1 << 29, true), libc::EINVAL, "too large");
    fails(open(c"lru", 2, false), libc::EINVAL, "policy is NULL");
    works(open(c"lru", 2, true));
    // SAFETY: S34: the call has succeeded.
    let mut policy = unsafe { opened.assume_init() };
    let mut keys = MaybeUninit::uninit();
    fails(pt_policy_insert(Some(&mut policy), 1, 101, None), libc::EFBIG, "larger than");
    for key in [1, 2] {
        assert_eq!(works(pt_policy_insert(Some(&mut policy), key, 10, Some(&mut keys))), 0);
        assert_eq!(works(pt_policy_pin(Some(&mut policy), key)), 1);
    }
    // SAFETY: S34: the calls have succeeded.
    assert!(unsafe { keys.assume_init() }.is_null(), "no key was evicted");
    fails(pt_policy_insert(Some(&mut policy), 3, 10, None), libc::EBUSY, "are pinned");
    assert_eq!(works(pt_policy_evict(Some(&mut policy), Some(&mut MaybeUninit::uninit()))), 0);
    // SAFETY: S34: options of that size.
    let mut resize = |nr| unsafe { pt_policy_resize(Some(&mut policy), &wanted(nr), None) };
    fails(resize(1), libc::EBUSY, "are pinned");
    fails(resize(4), libc::EINVAL, "can hold 3");
    works(resize(3));
    assert_eq!(works(pt_policy_unpin(Some(&mut policy), 2)), 1);
    assert_eq!(works(pt_policy_insert(Some(&mut policy), 3, 90, Some(&mut keys))), 1);
    // SAFETY: S34: the call has succeeded.
    let keys = unsafe { keys.assume_init() };
    // SAFETY: S34: one key, until the next call.
    assert_eq!(unsafe { *keys }, 2, "evicted for its bytes");
    assert_eq!(works(pt_policy_evicted(Some(&policy), None)), 1);
    assert_eq!(works(pt_policy_contains(Some(&policy), 2)), 0);
    fails(pt_policy_access(None, 1), libc::EINVAL, "policy is NULL");
    pt_policy_close(Some(policy));
    pt_policy_close(None);
}
