//! dprintf and its relatives: the C library formats into a stream of its own, and writes that by
//! calls nobody can take over. So what is for a managed file is formatted here, and written by us.
//!
//! ```text
//!   dprintf(fd, format, a, b, ..)   rdi, rsi, rdx rcx r8 r9 | xmm0 .. xmm7 | the caller's stack
//!                                              `-- saved, as a list of arguments has them --'
//!   vdprintf(fd, format, list) <---- the list
//! ```
//!
//! Ignored: other processors than x86-64; there the C library's own are called.
//!
//! Source: the System V ABI for x86-64, "Variable Argument Lists".

use super::registers::save_arguments;
use super::write_all;
use crate::errno::{Errno, or_minus_one};
use crate::scratch::Scratch;
use crate::{next, serve};
use libc::{c_char, c_int, c_void, size_t};
use std::arch::naked_asm;

/// What most lines fit in.
const LINE_BYTES: usize = 1024;
/// The caller was compiled without checks.
const UNCHECKED: c_int = -1;

/// The ABI's list of arguments; copying it begins it again.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    general_offset: u32,
    vector_offset: u32,
    on_stack: *const c_void,
    saved: *const c_void,
}

const _: () = assert!(size_of::<Arguments>() == 24);

// The C library's, which checks its format if the flag is positive.
unsafe extern "C" {
    fn __vsnprintf_chk(
        to: *mut c_char,
        most: size_t,
        flag: c_int,
        room: size_t,
        format: *const c_char,
        arguments: *mut Arguments,
    ) -> c_int;
}

/// Formats for descriptor `fd`, and writes it there.
///
/// # Safety
/// As vdprintf's; `flag` is that of its checked form, or [`UNCHECKED`].
unsafe extern "C" fn print(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut Arguments,
) -> c_int {
    if serve::managed(fd).is_none() {
        return match flag {
            // SAFETY: our caller's arguments (S20).
            UNCHECKED => unsafe { next::vdprintf(fd, format, arguments) },
            // SAFETY: our caller's arguments (S20).
            _ => unsafe { next::__vdprintf_chk(fd, flag, format, arguments) },
        };
    }
    // SAFETY: a list of our caller's; formatting uses it up (S20).
    let mut again = unsafe { *arguments };
    let mut line = [0_u8; LINE_BYTES];
    let to = line.as_mut_ptr().cast();
    // SAFETY: so much room, and our caller's arguments (S20).
    let nr = unsafe { __vsnprintf_chk(to, LINE_BYTES, flag.max(0), LINE_BYTES, format, arguments) };
    let Ok(nr_bytes) = usize::try_from(nr) else { return nr };
    if nr_bytes < LINE_BYTES {
        return or_minus_one(write_all(fd, line.as_ptr(), nr_bytes).map(|()| nr));
    }
    let written = Scratch::new(nr_bytes + 1).and_then(|text| {
        let (to, room) = (text.place(0), text.len());
        // SAFETY: so much room, and our caller's arguments once more (S20).
        let nr = unsafe { __vsnprintf_chk(to.cast(), room, flag.max(0), room, format, &mut again) };
        // Whoever changes a string meanwhile gets what was counted, and no more.
        let nr_bytes = usize::try_from(nr).map_err(|_| Errno(libc::EINVAL))?.min(nr_bytes);
        write_all(fd, to, nr_bytes).map(|()| nr_bytes as c_int)
    });
    or_minus_one(written)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut Arguments,
) -> c_int {
    // SAFETY: our caller's arguments (S20).
    unsafe { print(fd, UNCHECKED, format, arguments) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut Arguments,
) -> c_int {
    // SAFETY: our caller's arguments (S20).
    unsafe { print(fd, flag.max(0), format, arguments) }
}

macro_rules! with_list {
    ($($name:ident = $nr_saved_bytes:literal, $($to:literal),+;)+) => {
        $(
            /// As the C function, through [`print`], which is given a list of its arguments.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "push rbp",
                    "mov rbp, rsp",
                    "sub rsp, 208",
                    save_arguments!(),
                    // The list: what of the saved is used up, the stack's part, the saved.
                    concat!("mov dword ptr [rsp + 176], ", $nr_saved_bytes),
                    "mov dword ptr [rsp + 180], 48",
                    "lea rax, [rbp + 16]",
                    "mov [rsp + 184], rax",
                    "mov [rsp + 192], rsp",
                    $($to,)+
                    "lea rcx, [rsp + 176]",
                    "call {print}",
                    "leave",
                    "ret",
                    print = sym print,
                )
            }
        )+
    };
}

// Bytes of the arguments that have names, and how those get where `print` has them.
with_list! {
    dprintf = "16", "mov rdx, rsi", "mov esi, -1";
    __dprintf_chk = "24", "nop";
}
