//! Variadic functions. Rust cannot forward their arguments, so they are jumped to after a
//! preparation.
//!
//! ```text
//!   fwprintf(stream, ..) --> arguments kept --> streams::make_wide(stream) --> arguments back
//!   dprintf(fd, ..)                             the file is handed over              |
//!                                                                                    |
//!                  the C library's function of the name, with the caller's frame <---+
//! ```
//!
//! Wide characters: a managed stream lacks room for them, and is made ordinary first. dprintf: the
//! C library formats into a stream of its own, and writes that without interposition.
//!
//! Ignored: processors other than x86-64, which have no managed streams (`streams::make`), and a
//! dprintf that fails for managed files.
//!
//! Source: the System V ABI for x86-64, "Parameter Passing".

use super::streams;
use crate::next::Stream;
use crate::serve;
use libc::{c_int, c_void};
use pagetide_run::wire::Reason;
use std::arch::naked_asm;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

macro_rules! jumps {
    ($($index:literal $name:ident $register:literal;)+) => {
        const NAMES: [&CStr; [$($index),+].len()] = [
            $(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero inside"),
            }),+
        ];
        $(
            /// The C library's function, after [`prepare`].
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

/// Functions from this index take a descriptor, earlier ones a stream.
const FIRST_OF_DESCRIPTOR: u32 = 26;

// The register of the descriptor or stream.
jumps! {
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
    26 dprintf "rdi";
    27 vdprintf "rdi";
    28 __dprintf_chk "rdi";
    29 __vdprintf_chk "rdi";
}

/// r10 is the value to prepare, r11 the function's index. All other registers are the caller's.
#[unsafe(naked)]
unsafe extern "C" fn prepare_and_jump() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 192",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "movups [rsp + 48], xmm0",
        "movups [rsp + 64], xmm1",
        "movups [rsp + 80], xmm2",
        "movups [rsp + 96], xmm3",
        "movups [rsp + 112], xmm4",
        "movups [rsp + 128], xmm5",
        "movups [rsp + 144], xmm6",
        "movups [rsp + 160], xmm7",
        // The number of vector registers in use, for a variadic call.
        "mov [rsp + 176], rax",
        "mov rdi, r10",
        "mov esi, r11d",
        "call {prepare}",
        "mov r11, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "movups xmm0, [rsp + 48]",
        "movups xmm1, [rsp + 64]",
        "movups xmm2, [rsp + 80]",
        "movups xmm3, [rsp + 96]",
        "movups xmm4, [rsp + 112]",
        "movups xmm5, [rsp + 128]",
        "movups xmm6, [rsp + 144]",
        "movups xmm7, [rsp + 160]",
        "mov rax, [rsp + 176]",
        "leave",
        "jmp r11",
        prepare = sym prepare,
    )
}

/// Returns the function's address.
extern "C" fn prepare(argument: usize, index: u32) -> *mut c_void {
    static NEXT: [AtomicPtr<c_void>; NAMES.len()] =
        [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];
    if index < FIRST_OF_DESCRIPTOR {
        streams::make_wide(argument as *mut Stream);
    } else {
        // A file that cannot be handed over cannot be written.
        let _ = serve::hand_over_managed(argument as c_int, Reason::Interface);
    }
    let kept = &NEXT[index as usize];
    let known = kept.load(Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a string (S21).
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAMES[index as usize].as_ptr()) };
    if found.is_null() {
        // A program linked against the function cannot get here.
        std::process::abort();
    }
    kept.store(found, Relaxed);
    found
}
