//! `libpagetide_preload.so`: what `pagetide run` loads into programs it did not compile.
//!
//! **Problem.** A program that cannot be changed makes system calls on its files; they should be
//! answered from a page cache in another process. And nothing of the program may break by it: not
//! fork from many threads, not a signal handler that reads, not a malloc that opens a file.
//!
//! **Idea.** The dynamic linker takes these functions for the C library's. Each looks its
//! descriptor up in a table; what is ours is asked of the server over this thread's own socket, all
//! the rest goes to the next definition of the same name, the C library's.
//!
//! ```text
//!   read(fd, ..) --> table[fd] --managed--> request, reply over this thread's socket
//!                        |  `--kernel's--> the C library's read
//!                        `--unknown--> regular, and a stand-in? ask once, remember
//! ```
//!
//! **Data and invariants.** No lock, and no memory of our own making: the table and the list of our
//! descriptors are arrays of atomics. So there is nothing a fork could leave locked, and nothing
//! that calls malloc. What belongs to a process, and not to its children, is in a page that fork
//! wipes. A thread that is interrupted in the middle of a request, and requests something in the
//! signal's handler, uses a second socket for that.
//!
//! **Ignored.** System calls that are made without the C library, and its own calls of itself where
//! no name is looked up: what that leaves open is in docs/calls.md and `pagetide run --help`.
//!
//! Sources: ld.so(8), madvise(2) `MADV_WIPEONFORK`, unix(7), POSIX.1-2024 on open file
//! descriptions.
#![expect(unsafe_code, reason = "each function of it takes C's arguments")]

mod alone;
mod arguments;
mod calls;
mod channel;
mod errno;
mod held_signals;
mod inherited;
mod lent;
mod limits;
mod maps;
mod memory;
mod next;
mod own;
mod pieces;
mod process;
mod program;
mod room;
mod scratch;
mod self_read;
mod serve;
mod small;
mod table;
mod transfer;
mod tray;
mod view;

/// Runs before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

/// Runs as exit(3) ends the process.
#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = fini;

extern "C" fn init() {
    if process::is_on() {
        channel::run_before_close(self_read::finish);
        inherited::look();
        calls::spawn::take_over_kept();
        calls::spawn::take_over_limit();
        calls::spawn::hand_over_standard_descriptors();
    }
}

extern "C" fn fini() {
    if process::is_on() {
        calls::streams::flush_all();
    }
    serve::say_goodbye(maps::count_own_pages());
}
