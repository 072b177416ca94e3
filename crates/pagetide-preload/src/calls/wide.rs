//! Functions for wide characters: a stream of ours has no room for those, and is made an ordinary
//! one before the first of them.
//!
//! ```text
//!   fwprintf(stream, ..) --> arguments kept --> streams::make_wide(stream) --> arguments back
//!                                                                                   |
//!                            the C library's fwprintf, with our caller's frame <----+
//! ```
//!
//! Some of them take as many arguments as there are, which Rust cannot hand on; so these few are
//! not called but jumped to, all in the same way.
//!
//! Ignored: other processors than x86-64; there no stream is one of ours (`streams::make`).
//!
//! Source: the System V ABI for x86-64, "Parameter Passing".

use super::registers::{restore_arguments, save_arguments};
use super::streams;
use crate::next::Stream;
use libc::c_void;
use std::arch::naked_asm;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

macro_rules! wide {
    ($($index:literal $name:ident $register:literal;)+) => {
        /// With their ends, by index.
        const NAMES: [&CStr; [$($index),+].len()] = [
            $(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero inside"),
            }),+
        ];
        $(
            /// The C library's, after the stream was made fit for it.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    concat!("mov r10, ", $register),
                    concat!("mov r11d, ", $index),
                    "jmp {common}",
                    common = sym prepare_and_jump,
                )
            }
        )+
    };
}

// The register that has the stream.
wide! {
     0 fwide "rdi";
     1 fgetwc "rdi";
     2 getwc "rdi";
     3 fgetws "rdx";
     4 fputwc "rsi";
     5 putwc "rsi";
     6 fputws "rsi";
     7 ungetwc "rsi";
     8 fgetwc_unlocked "rdi";
     9 getwc_unlocked "rdi";
    10 fgetws_unlocked "rdx";
    11 fputwc_unlocked "rsi";
    12 putwc_unlocked "rsi";
    13 fputws_unlocked "rsi";
    14 fwprintf "rdi";
    15 vfwprintf "rdi";
    16 fwscanf "rdi";
    17 vfwscanf "rdi";
    18 __isoc99_fwscanf "rdi";
    19 __isoc99_vfwscanf "rdi";
    20 __isoc23_fwscanf "rdi";
    21 __isoc23_vfwscanf "rdi";
    22 __fwprintf_chk "rdi";
    23 __vfwprintf_chk "rdi";
    24 __fgetws_chk "rcx";
    25 __fgetws_unlocked_chk "rcx";
}

/// r10 is the stream, r11 the function's index; all others are our caller's arguments.
#[unsafe(naked)]
unsafe extern "C" fn prepare_and_jump() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 192",
        save_arguments!(),
        // The number of vector registers that are used, of a call with any number of arguments.
        "mov [rsp + 176], rax",
        "mov rdi, r10",
        "mov esi, r11d",
        "call {prepare}",
        "mov r11, rax",
        restore_arguments!(),
        "mov rax, [rsp + 176]",
        "leave",
        "jmp r11",
        prepare = sym prepare,
    )
}

/// Makes the stream fit; returns the function to go to.
extern "C" fn prepare(stream: *mut Stream, index: u32) -> *mut c_void {
    static NEXT: [AtomicPtr<c_void>; NAMES.len()] =
        [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];
    streams::make_wide(stream);
    let kept = &NEXT[index as usize];
    let known = kept.load(Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a string (S21).
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAMES[index as usize].as_ptr()) };
    if found.is_null() {
        // A program that was linked against it cannot be here.
        std::process::abort();
    }
    kept.store(found, Relaxed);
    found
}
