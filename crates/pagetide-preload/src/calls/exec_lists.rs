//! execl and its relatives: their variadic arguments are copied from the registers and the stack
//! into a vector.
//!
//! ```text
//!   execl(path, a, b, c, d, e, f, .., NULL)   rdi, rsi rdx rcx r8 r9 | the caller's stack
//!        path --------^  first -------------------^                    ^--- rest
//! ```
//!
//! Ignored: processors other than x86-64, which use the C library's functions.
//!
//! Source: the System V ABI for x86-64, "Parameter Passing".

use crate::errno::or_minus_one;
use crate::next::Strings;
use crate::scratch::Scratch;
use libc::{c_char, c_int};
use std::arch::naked_asm;

unsafe extern "C" {
    static environ: Strings;
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int;
}

const NAME: u32 = 1;
const WITH_ENVIRONMENT: u32 = 2;

macro_rules! list {
    ($($name:ident = $kind:literal;)+) => {
        $(
            /// As the C function, through [`execute`].
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    concat!("mov r10d, ", $kind),
                    "jmp {common}",
                    common = sym gather,
                )
            }
        )+
    };
}

list! {
    execl = "0";
    execlp = "1";
    execle = "2";
}

/// Makes five of the arguments contiguous.
#[unsafe(naked)]
unsafe extern "C" fn gather() {
    naked_asm!(
        "lea r11, [rsp + 8]",
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 48",
        "mov [rsp], rsi",
        "mov [rsp + 8], rdx",
        "mov [rsp + 16], rcx",
        "mov [rsp + 24], r8",
        "mov [rsp + 32], r9",
        "mov rsi, rsp",
        "mov rdx, r11",
        "mov ecx, r10d",
        "call {execute}",
        "leave",
        "ret",
        execute = sym execute,
    )
}

const NR_FIRST: usize = 5;

/// # Safety
/// `first` and `rest` are arguments as of execl.
unsafe extern "C" fn execute(
    path: *const c_char,
    first: Strings,
    rest: Strings,
    kind: u32,
) -> c_int {
    let argument = |index: usize| {
        let place = match index.checked_sub(NR_FIRST) {
            Some(index) => rest.wrapping_add(index),
            None => first.wrapping_add(index),
        };
        // SAFETY: not past the list's end, or the environment after it (S20).
        unsafe { *place }
    };
    let mut nr = 0;
    while !argument(nr).is_null() {
        nr += 1;
    }
    // Zeros, so that the vector ends with null.
    let memory = match Scratch::new((nr + 1) * size_of::<*const c_char>()) {
        Ok(memory) => memory,
        Err(errno) => return or_minus_one(Err(errno)),
    };
    let vector = memory.place(0).cast::<*const c_char>();
    for index in 0..nr {
        // SAFETY: inside the mapping just made (S22).
        unsafe { *vector.wrapping_add(index) = argument(index) };
    }
    let environment = match kind {
        WITH_ENVIRONMENT => argument(nr + 1) as Strings,
        // SAFETY: the C library's variable. A concurrent change races with exec itself (S20).
        _ => unsafe { environ },
    };
    if kind == NAME {
        // SAFETY: our caller's strings (S20).
        unsafe { execvpe(path, vector.cast_const(), environment) }
    } else {
        // SAFETY: our caller's strings (S20).
        unsafe { execve(path, vector.cast_const(), environment) }
    }
}
