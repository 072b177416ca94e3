//! Whether this program's standard input may be a managed file: whether nobody in it uses `stdin`.
//!
//! **Problem.** The C library's own stream of descriptor 0 reads by calls nobody can take over, so
//! a managed file must not be there. But dd, cat, head and shells read descriptor 0 themselves.
//! **Idea.** A program or library that uses `stdin`, or a function that reads it, has the name in
//! its relocations. Where none but the C library has, no stream is used.
//!
//! ```text
//!   for each object in memory: its relocations --> symbols --> a name of NAMES?  then it is used
//! ```
//!
//! A library that is loaded later may use it: before the first is, a managed standard input is
//! handed to the kernel, and no other will be managed.
//!
//! **Ignored.** Who looks `stdin` up by dlsym, and processors other than x86-64. Standard output
//! and error: many functions of the C library write there without being told where, so these are
//! always the kernel's.
//!
//! Source: elf(5), dl_iterate_phdr(3).

use crate::table::{self, Entry};
use crate::{process, serve};
use libc::{c_char, c_int, c_void, size_t};
use pagetide_sys::wire::Reason;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// What reads descriptor 0 by the C library's stream.
const NAMES: [&[u8]; 22] = [
    b"stdin",
    b"getpass",
    b"_IO_2_1_stdin_",
    b"getchar",
    b"getchar_unlocked",
    b"gets",
    b"__gets_chk",
    b"_IO_gets",
    b"scanf",
    b"vscanf",
    b"__isoc99_scanf",
    b"__isoc99_vscanf",
    b"__isoc23_scanf",
    b"__isoc23_vscanf",
    b"getwchar",
    b"getwchar_unlocked",
    b"wscanf",
    b"vwscanf",
    b"__isoc99_wscanf",
    b"__isoc99_vwscanf",
    b"__isoc23_wscanf",
    b"__isoc23_vwscanf",
];

/// Entries of an object's dynamic section, as elf(5) numbers them.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const RELOCATION_BYTES: usize = 24;
const SYMBOL_BYTES: usize = 24;

const UNUSED: u8 = 1;
const USED: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(0);

/// Whether nobody here uses the stream of descriptor 0.
pub(crate) fn input_is_plain() -> bool {
    match STATE.load(Relaxed) {
        UNUSED => true,
        USED => false,
        _ if !cfg!(target_arch = "x86_64") => false,
        _ => {
            let mut state = UNUSED;
            // SAFETY: the callback below, and what it takes (S21).
            unsafe { libc::dl_iterate_phdr(Some(look), std::ptr::from_mut(&mut state).cast()) };
            // A library may have been loaded meanwhile: that stays.
            let kept = STATE.compare_exchange(0, state, Relaxed, Relaxed);
            kept.map_or_else(|now| now == UNUSED, |_| state == UNUSED)
        }
    }
}

unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: size_t, state: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr's object lives through the call (S21).
    let object = unsafe { &*object };
    // SAFETY: a string, by dl_iterate_phdr (S21).
    let name = unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes();
    let is_linker = name.windows(4).any(|part| part == b"/ld-");
    let is_kernels = name.starts_with(b"linux-vdso");
    if is_linker || is_kernels || name.windows(9).any(|part| part == b"/libc.so.") {
        return 0;
    }
    if uses_input(object) {
        // SAFETY: our own caller's variable (S21).
        unsafe { *state.cast::<u8>() = USED };
        return 1;
    }
    0
}

/// Whether the object names one of [`NAMES`] in its relocations. One that cannot be read, may.
fn uses_input(object: &libc::dl_phdr_info) -> bool {
    let mut found = [0_usize; 24];
    let Some(dynamic) = dynamic_of(object) else { return false };
    for index in 0.. {
        // SAFETY: a dynamic section ends with an entry of zeros (S21).
        let [tag, value] = unsafe { *dynamic.wrapping_add(index) };
        match tag {
            0 => break,
            1..24 => found[tag as usize] = value as usize,
            _ => {}
        }
    }
    let of = |tag: i64| found[tag as usize];
    let (names, symbols) = (of(DT_STRTAB), of(DT_SYMTAB));
    // The C library's linker has made these addresses; before that they would be offsets.
    let is_address = |value: usize| value == 0 || value >= object.dlpi_addr as usize;
    if names == 0 || ![names, symbols, of(DT_RELA), of(DT_JMPREL)].into_iter().all(is_address) {
        return true;
    }
    [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)].into_iter().any(|(start, len)| {
        let nr_entries = if of(start) == 0 { 0 } else { of(len) / RELOCATION_BYTES };
        (0..nr_entries).any(|entry| {
            let info = (of(start) + entry * RELOCATION_BYTES + 8) as *const u64;
            // SAFETY: inside the object's relocations (S21).
            let symbol = (unsafe { *info } >> 32) as usize;
            symbol != 0 && is_input(symbols + symbol * SYMBOL_BYTES, names)
        })
    })
}

/// Whether the symbol at an address has one of [`NAMES`].
fn is_input(symbol: usize, names: usize) -> bool {
    // SAFETY: a symbol that a relocation names; its name's place comes first (S21).
    let name = unsafe { *(symbol as *const u32) } as usize;
    // SAFETY: a string of the object's names (S21).
    let name = unsafe { CStr::from_ptr((names + name) as *const c_char) }.to_bytes();
    NAMES.contains(&name)
}

fn dynamic_of(object: &libc::dl_phdr_info) -> Option<*const [i64; 2]> {
    let nr = object.dlpi_phnum as usize;
    let headers = (0..nr).map(|index| {
        // SAFETY: the object has so many headers (S21).
        unsafe { &*object.dlpi_phdr.wrapping_add(index) }
    });
    let mut dynamic = headers.filter(|header| header.p_type == libc::PT_DYNAMIC);
    dynamic.next().map(|header| (object.dlpi_addr + header.p_vaddr) as usize as *const [i64; 2])
}

/// A library is about to be loaded, that may use it.
#[cfg(target_arch = "x86_64")]
extern "C" fn about_to_load(index: usize) -> *mut c_void {
    if process::is_on() {
        STATE.store(USED, Relaxed);
        if matches!(table::entry(0), Entry::Managed(_)) {
            // What cannot be handed over has been said.
            let _ = serve::hand_over(0, Reason::Standard);
        }
    }
    let name = if index == 0 { c"dlopen" } else { c"dlmopen" };
    // SAFETY: a string (S21).
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

macro_rules! loaders {
    ($($name:ident = $index:literal;)+) => {
        $(
            /// The C library's, after [`about_to_load`]: jumped to, because it looks where it is
            /// called from.
            #[cfg(target_arch = "x86_64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    concat!("mov edi, ", $index),
                    "call {before}",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp rax",
                    before = sym about_to_load,
                )
            }
        )+
    };
}

loaders! {
    dlopen = "0";
    dlmopen = "1";
}
