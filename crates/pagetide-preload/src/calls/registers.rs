//! The registers that have a call's arguments, for functions that are written in assembly because
//! there may be any number of those.
//!
//! ```text
//!   rsp     + 8   + 16  + 24  + 32  + 40  + 48    + 64 ..  + 160   + 176
//!   rdi     rsi   rdx   rcx   r8    r9    xmm0    xmm1 ..  xmm7    free
//! ```
//!
//! This is the ABI's own order, so that the saved can be read as a list of arguments.
//!
//! Ignored: other processors than x86-64, as whoever uses this does.
//!
//! Source: the System V ABI for x86-64, "Parameter Passing" and "Variable Argument Lists".

/// Assembly that saves them at the stack's pointer, where 176 bytes must be free.
macro_rules! save_arguments {
    () => {
        "mov [rsp], rdi
        mov [rsp + 8], rsi
        mov [rsp + 16], rdx
        mov [rsp + 24], rcx
        mov [rsp + 32], r8
        mov [rsp + 40], r9
        movups [rsp + 48], xmm0
        movups [rsp + 64], xmm1
        movups [rsp + 80], xmm2
        movups [rsp + 96], xmm3
        movups [rsp + 112], xmm4
        movups [rsp + 128], xmm5
        movups [rsp + 144], xmm6
        movups [rsp + 160], xmm7"
    };
}

/// Assembly that puts back what [`save_arguments`] saved.
macro_rules! restore_arguments {
    () => {
        "mov rdi, [rsp]
        mov rsi, [rsp + 8]
        mov rdx, [rsp + 16]
        mov rcx, [rsp + 24]
        mov r8, [rsp + 32]
        mov r9, [rsp + 40]
        movups xmm0, [rsp + 48]
        movups xmm1, [rsp + 64]
        movups xmm2, [rsp + 80]
        movups xmm3, [rsp + 96]
        movups xmm4, [rsp + 112]
        movups xmm5, [rsp + 128]
        movups xmm6, [rsp + 144]
        movups xmm7, [rsp + 160]"
    };
}

pub(super) use {restore_arguments, save_arguments};
