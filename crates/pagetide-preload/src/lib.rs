//! `libpagetide_preload.so`: loaded by `pagetide run` into unmodified programs.
//!
//! **Problem.** The program's calls on its files are to be answered from a page cache in another
//! process. Nothing in the program may break: not fork from many threads, not a signal handler that
//! reads, not a malloc that opens a file.
//!
//! **Idea.** The dynamic linker takes these functions for the C library's. Each looks up its
//! descriptor in a table. Calls on managed files go to the server over this thread's socket, all
//! other calls to the next definition of the name.
//!
//! ```text
//!   read(fd, ..) --> table[fd] --managed--> request, reply over this thread's socket
//!                        |  `--kernel's--> the C library's read
//!                        `--unknown--> regular, and a stand-in? ask once, remember
//! ```
//!
//! **Data and invariants.** No locks and no heap: the tables are arrays of atomics, so a fork
//! leaves nothing locked, and nothing calls malloc. State that children must not inherit is in a
//! page that fork wipes. A request in a signal handler that interrupts a request uses a second
//! socket.
//!
//! **Ignored.** System calls without the C library, and its internal calls, see docs/calls.md and
//! `pagetide run --help`.
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
mod manage;
mod maps;
mod memory;
mod miss_ring;
mod new_files;
mod new_reports;
mod next;
mod own;
mod passing;
mod pieces;
mod process;
mod program;
mod room;
mod scratch;
mod self_read;
mod serve;
mod small;
mod small_reports;
mod table;
mod transfer;
mod view;

/// Runs before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

/// Runs at exit(3).
#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = fini;

extern "C" fn init() {
    if process::is_on() {
        channel::run_before_close(self_read::finish);
        new_files::prepare();
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
