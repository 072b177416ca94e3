//! The functions of `pagetide ctl` for a program's own cache.
#![expect(unsafe_code, reason = "C's functions are called")]

use pagetide_capi::cache::*;
use pagetide_capi::door::pt_last_error;
use pagetide_capi::file::*;
use pagetide_capi::steer::*;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Returns the text of a function with snprintf's contract.
fn text(ask: impl Fn(*mut std::ffi::c_char, usize) -> i64) -> CString {
    let len = usize::try_from(ask(null_mut(), 0)).unwrap();
    let mut buffer = vec![1_u8; len + 1];
    assert_eq!(ask(buffer.as_mut_ptr().cast(), buffer.len()), len as i64);
    CString::from_vec_with_nul(buffer).unwrap()
}

fn open(path: &CStr) -> (Box<pt_cache>, Box<pt_file>) {
    let options = pt_cache_options {
        size: size_of::<pt_cache_options>(),
        memory_bytes: 1 << 20,
        memory_max_bytes: 0,
        policy: c"mglru".as_ptr(),
        tiers: null(),
        settings: null(),
        record: null(),
        groups: 0,
    };
    let (mut cache, mut file) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: S34: options of that size.
    assert_eq!(unsafe { pt_cache_open(&raw const options, Some(&mut cache)) }, 0);
    // SAFETY: S34: the call has succeeded.
    let cache = unsafe { cache.assume_init() };
    // SAFETY: S34: text.
    let opened =
        unsafe { pt_file_open(Some(&cache), path.as_ptr(), PT_READ | PT_WRITE, Some(&mut file)) };
    assert_eq!(opened, 0);
    // SAFETY: S34: the call has succeeded.
    (cache, unsafe { file.assume_init() })
}

#[test]
fn a_cache_is_synced_commanded_dumped_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 64 << 10]).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let (cache, file) = open(&name);
    let cache = Some(&*cache);
    // SAFETY: S34: a buffer of that length.
    let written = unsafe { pt_file_pwrite(Some(&file), b"tide".as_ptr().cast(), 4, 8192) };
    assert_eq!(written, 4);
    assert_eq!(pt_cache_sync(cache), 0);
    assert_eq!(std::fs::read(&path).unwrap()[8192..8196], *b"tide");

    // SAFETY: S34: a buffer of that length.
    let generations =
        text(|buffer, len| unsafe { pt_cache_describe_lru_gen(cache, 0, buffer, len) });
    assert!(generations.to_str().unwrap().starts_with("memcg "), "{generations:?}");
    // SAFETY: S34: text.
    assert_eq!(unsafe { pt_cache_command_lru_gen(cache, c"- 0 0 99".as_ptr()) }, -22);
    // SAFETY: S34: text until the next failure.
    let said = unsafe { CStr::from_ptr(pt_last_error()) };
    assert!(said.to_str().unwrap().contains("99"), "{said:?}");

    // SAFETY: S34: a buffer of that length.
    let dump = text(|buffer, len| unsafe { pt_cache_dump(cache, buffer, len) });
    assert!(dump.to_str().unwrap().ends_with("\nend\n"), "{dump:?}");
    let (again, _) = open(&name);
    // SAFETY: S34: text.
    assert_eq!(unsafe { pt_cache_warm(Some(&again), dump.as_ptr()) }, 0);
    // SAFETY: S34: text.
    assert_eq!(unsafe { pt_cache_warm(Some(&again), c"no dump".as_ptr()) }, -22);
    assert!(pt_cache_drop(cache) >= 4096);
    assert_eq!(pt_cache_drop(cache), 0);
}
