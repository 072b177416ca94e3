//! Execution of other programs, creation of processes, and the end of this process.
//!
//! ```text
//!   exec      the environment keeps LD_PRELOAD and PAGETIDE_RUN; a program that cannot be served
//!             is reported, and the files that it would inherit become the kernel's
//!   vfork     is fork, because a child of vfork would change this process's table
//!   _exit     says goodbye to the server first, as exit does
//!   thread    gets no new file that is still the kernel's (`new_files`)
//!   adddup2   hands over a file that the C library will duplicate between fork and exec
//! ```
//!
//! fork needs no code in this file. `process` describes a child's initial state.
//!
//! execl and its relatives are in `exec_lists`.

use crate::next::{self, Strings};
use crate::program::{self, Unserved};
use crate::scratch::Scratch;
use crate::table::{self, Entry};
use crate::{
    channel, lent, maps, new_files, new_reports, own, process, room, serve, small_reports,
};
use libc::{c_char, c_int, c_void, pid_t};
use pagetide_run::wire::Reason;
use std::ffi::CStr;
use std::io::Write;

/// Hands over the files of standard input, output and error, before the program runs. The C
/// library's streams use these descriptors without intercepted calls.
pub(crate) fn hand_over_standard_descriptors() {
    for fd in 0..3 {
        // Files that cannot be handed over have been reported.
        let _ = serve::hand_over_managed(fd, Reason::Standard);
    }
    channel::close_if_idle();
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const RUN: &[u8] = b"PAGETIDE_RUN=";
const KEPT: &[u8] = b"PAGETIDE_KEPT=";
const HARD: &[u8] = b"PAGETIDE_HARD=";
const LIBRARY: &[u8] = b"libpagetide_preload.so";
/// Bytes for a number and a comma.
const NUMBER_BYTES: usize = 8;

/// Takes over the descriptors that the program before an exec had kept for its record locks.
pub(crate) fn take_over_kept() {
    let Some(kept) = process::variable(c"PAGETIDE_KEPT") else { return };
    numbers_in(kept.to_bytes()).for_each(lent::take_over);
    // SAFETY: a string, and no thread of the program runs yet (S20).
    unsafe { libc::unsetenv(c"PAGETIDE_KEPT".as_ptr()) };
}

/// Takes over the hard limit on descriptors that the program before an exec has set.
pub(crate) fn take_over_limit() {
    let Some(hard) = process::variable(c"PAGETIDE_HARD") else { return };
    let hard = std::str::from_utf8(hard.to_bytes()).ok().and_then(|hard| hard.parse().ok());
    hard.into_iter().for_each(room::take_over_hard);
    // SAFETY: a string, and no thread of the program runs yet (S20).
    unsafe { libc::unsetenv(c"PAGETIDE_HARD".as_ptr()) };
}

/// Makes later execs start programs that are under no run.
pub(crate) fn forget_run() {
    // SAFETY: a string, and the C library has a lock for its environment (S20).
    unsafe { libc::unsetenv(c"PAGETIDE_RUN".as_ptr()) };
}

fn numbers_in(text: &[u8]) -> impl Iterator<Item = c_int> {
    let numbers = std::str::from_utf8(text).unwrap_or_default().split(',');
    numbers.filter_map(|number| number.parse().ok())
}

/// The numbers of descriptors that an exec leaves open, as text for the next program.
struct Kept {
    memory: Option<Scratch>,
    len: usize,
}

impl Kept {
    /// Leaves descriptors open that keep this process's record locks, and collects their numbers.
    fn collect() -> Kept {
        let mut kept = Kept { memory: None, len: 0 };
        if process::is_on() {
            maps::prepare_exec();
            new_files::give_all();
            new_reports::close_all();
            small_reports::flush();
            serve::prepare_exec();
            let nr = lent::nr_kept_max();
            // Without memory, the locks end with the exec.
            kept.memory = (nr > 0).then(|| Scratch::new(nr * NUMBER_BYTES).ok()).flatten();
            if kept.memory.is_some() {
                lent::keep_across_exec(|fd| kept.add(fd));
            }
        }
        kept
    }

    fn add(&mut self, fd: c_int) {
        let Some(memory) = &self.memory else { return };
        let mut number = [0; NUMBER_BYTES];
        let mut rest = &mut number[..];
        let is_whole = write!(rest, "{fd},").is_ok();
        let len = NUMBER_BYTES - rest.len();
        if is_whole && self.len + len <= memory.len() {
            let place = memory.place(self.len);
            // SAFETY: the mapping has room for `len` bytes, and nothing is borrowed of it (S22).
            unsafe { place.copy_from_nonoverlapping(number.as_ptr(), len) };
            self.len += len;
        } else {
            // The next program would not know the descriptor.
            lent::close_on_exec(fd);
        }
    }

    fn text(&self) -> &[u8] {
        let Some(memory) = &self.memory else { return &[] };
        // SAFETY: `len` bytes were written, and nothing is written while they are borrowed (S22).
        unsafe { std::slice::from_raw_parts(memory.place(0), self.len) }
    }
}

/// Executes a program by `exec`, which gets the environment. Record locks stay, as in the kernel.
/// Returns only if the exec has failed.
///
/// # Safety
/// `given` is an environment of the caller's.
unsafe fn execute(given: Strings, exec: impl FnOnce(Strings) -> c_int) -> c_int {
    let kept = Kept::collect();
    // SAFETY: the caller's environment (S20).
    let environment = unsafe { Environment::new(given, kept.text()) };
    let result = exec(environment.strings);
    numbers_in(kept.text()).for_each(lent::close_on_exec);
    result
}

unsafe extern "C" {
    static environ: Strings;
}

/// Inspects the program at `path`. If the program cannot be served, hands over the files it
/// inherits.
fn prepare(folder: c_int, path: *const c_char) {
    if !process::is_on() || path.is_null() {
        return;
    }
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // A program that is not readable cannot be inspected, and can hardly be executed.
    if let Ok(fd) = room::open(folder, path, flags) {
        prepare_file(fd);
        own::close(fd);
    }
}

fn prepare_file(fd: c_int) {
    let Some(unserved) = program::inspect(fd) else { return };
    say(fd, unserved);
    // The range includes inherited descriptors that the process has not used yet.
    for fd in 0..(table::LEN as u64).min(process::nr_descriptors_max()) as c_int {
        let is_kept = |flags: usize| flags & libc::FD_CLOEXEC as usize == 0;
        if table::entry(fd) != Entry::Passing
            && process::control(fd, libc::F_GETFD, 0).is_ok_and(is_kept)
        {
            // Files that cannot be handed over have been reported.
            let _ = serve::hand_over_managed(fd, Reason::Inherited);
        }
    }
}

/// Reports that the program at `fd` cannot be served.
fn say(fd: c_int, unserved: Unserved) {
    let (mut path, own_path) = ([0; 256], process::path_of(fd));
    // SAFETY: a string, and a buffer of the given length (S20).
    let len =
        unsafe { libc::readlink(own_path.as_ptr().cast(), path.as_mut_ptr().cast(), path.len()) };
    let name = std::str::from_utf8(&path[..len.max(0) as usize]).unwrap_or("a program");
    let mut sentence = [0; 512];
    let mut text = &mut sentence[..];
    let reason = unserved.reason();
    let _ = write!(text, "pagetide: {name} {reason}: its file I/O goes to the kernel");
    let nr_left = text.len();
    channel::say(unserved as u64, &sentence[..sentence.len() - nr_left]);
}

/// As [`prepare`], for a program that is searched in `PATH`.
fn prepare_name(name: *const c_char) {
    if !process::is_on() || name.is_null() {
        return;
    }
    // SAFETY: the caller's string (S20).
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    if bytes.contains(&b'/') {
        return prepare(libc::AT_FDCWD, name);
    }
    let path = process::variable(c"PATH").map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
    for folder in path.split(|byte| *byte == b':') {
        let mut full = [0_u8; 4096];
        let len = folder.len() + 1 + bytes.len();
        if len >= full.len() {
            continue;
        }
        full[..folder.len()].copy_from_slice(folder);
        full[folder.len()] = b'/';
        full[folder.len() + 1..len].copy_from_slice(bytes);
        // SAFETY: a string that ends with zero (S20).
        if unsafe { libc::access(full.as_ptr().cast(), libc::X_OK) } == 0 {
            return prepare(libc::AT_FDCWD, full.as_ptr().cast());
        }
    }
}

/// An environment with the library's variables as this process found them.
struct Environment {
    /// Memory of the environment, unless the caller's is used. An executed program has its own
    /// copy.
    _memory: Option<Scratch>,
    strings: Strings,
}

impl Environment {
    /// Returns `given` with the library's variables. `kept` are the numbers of descriptors that
    /// stay open for the next program.
    ///
    /// # Safety
    /// `given` is an environment of the caller's.
    unsafe fn new(given: Strings, kept: &[u8]) -> Environment {
        let as_given = Environment { _memory: None, strings: given };
        if given.is_null() || !process::is_on() && !process::has_left_run() {
            return as_given;
        }
        if process::has_left_run() {
            // SAFETY: the caller's environment (S20).
            if unsafe { lookup(given, RUN) }.is_none() {
                return as_given;
            }
            // SAFETY: the caller's environment (S20).
            return unsafe { Environment::with(given, [&[], &[], &[], &[]]) }.unwrap_or(as_given);
        }
        // SAFETY: the caller's environment (S20).
        let given_preload = unsafe { lookup(given, PRELOAD) };
        // SAFETY: the caller's environment (S20).
        let has_run = unsafe { lookup(given, RUN) }.is_some();
        let has_library = given_preload
            .is_some_and(|value| value.windows(LIBRARY.len()).any(|part| part == LIBRARY));
        let mut hard = [0; 20];
        let hard = text_of(room::hard_of_program(), &mut hard);
        if has_run && has_library && kept.is_empty() && hard.is_empty() {
            return as_given;
        }
        let (preload, run) = process::own_variables();
        let given_preload = given_preload.unwrap_or_default();
        let separator: &[u8] = if given_preload.is_empty() { b"" } else { b":" };
        let first: &[&[u8]] = match has_library {
            true => &[PRELOAD, given_preload],
            false => &[PRELOAD, preload, separator, given_preload],
        };
        let third: &[&[u8]] = if kept.is_empty() { &[] } else { &[KEPT, kept] };
        let fourth: &[&[u8]] = if hard.is_empty() { &[] } else { &[HARD, hard] };
        // SAFETY: the caller's environment (S20).
        unsafe { Environment::with(given, [first, &[RUN, run], third, fourth]) }.unwrap_or(as_given)
    }

    /// Copies `given` and replaces the library's variables by `ours`, a variable each, in parts.
    /// The first variable is `LD_PRELOAD`, which stays as it is if it has no parts. The other
    /// variables are left out if they have no parts.
    ///
    /// # Safety
    /// `given` is an environment of the caller's.
    unsafe fn with(given: Strings, ours: [&[&[u8]]; 4]) -> Option<Environment> {
        let preload = ours[0];
        let mut nr = 0;
        // SAFETY: a vector that ends with null (S20).
        while !unsafe { *given.wrapping_add(nr) }.is_null() {
            nr += 1;
        }
        let pointers = (nr + ours.len() + 1) * size_of::<*const c_char>();
        let nr_bytes = ours.iter().copied().flatten().map(|part| part.len()).sum::<usize>();
        let len = pointers + nr_bytes + ours.len();
        let memory = Scratch::new(len).ok()?;
        let start = memory.place(0).cast::<*const c_char>();
        // SAFETY: the mapping begins with room for as many pointers, which are zero (S22).
        let vector = unsafe { std::slice::from_raw_parts_mut(start, nr + ours.len() + 1) };
        // SAFETY: the rest of the mapping, which does not overlap the vector (S22).
        let mut text =
            unsafe { std::slice::from_raw_parts_mut(memory.place(pointers), len - pointers) };
        let mut at = 0;
        for index in 0..nr {
            // SAFETY: below the vector's end (S20).
            let entry = unsafe { *given.wrapping_add(index) };
            // SAFETY: an entry is a string (S20).
            let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
            let is_replaced = bytes.starts_with(PRELOAD) && !preload.is_empty();
            let is_ours = [RUN, KEPT, HARD].iter().any(|name| bytes.starts_with(name));
            if !is_replaced && !is_ours {
                vector[at] = entry;
                at += 1;
            }
        }
        for parts in ours.into_iter().filter(|parts| !parts.is_empty()) {
            vector[at] = text.as_ptr().cast();
            at += 1;
            text = put(text, parts);
        }
        Some(Environment { _memory: Some(memory), strings: start.cast_const() })
    }
}

/// Writes a number in digits. Returns nothing for `None`.
fn text_of(number: Option<u64>, room: &mut [u8; 20]) -> &[u8] {
    let Some(number) = number else { return &[] };
    let mut rest = &mut room[..];
    // Twenty digits are enough for any number.
    let _ = write!(rest, "{number}");
    let nr_left = rest.len();
    &room[..room.len() - nr_left]
}

/// Writes the parts and a zero to the front of `text`. Returns the rest of `text`.
fn put<'a>(text: &'a mut [u8], parts: &[&[u8]]) -> &'a mut [u8] {
    let mut at = 0;
    for part in parts {
        text[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    text[at] = 0;
    &mut text[at + 1..]
}

/// Returns the value of a variable. `name` includes the equals sign.
///
/// # Safety
/// `environment` is a vector of strings that ends with null.
unsafe fn lookup<'a>(environment: Strings, name: &[u8]) -> Option<&'a [u8]> {
    for index in 0.. {
        // SAFETY: not past the null (S20).
        let entry = unsafe { *environment.wrapping_add(index) };
        if entry.is_null() {
            break;
        }
        // SAFETY: an entry is a string (S20).
        let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if let Some(value) = bytes.strip_prefix(name) {
            return Some(value);
        }
    }
    None
}

fn current_environment() -> Strings {
    // SAFETY: the C library's variable, and a concurrent change races with exec itself (S20).
    unsafe { environ }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, given: Strings) -> c_int {
    prepare(libc::AT_FDCWD, path);
    // SAFETY: the caller's arguments (S20).
    let exec = |environment| unsafe { next::execve(path, arguments, environment) };
    // SAFETY: the caller's environment (S20).
    unsafe { execute(given, exec) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: execv is this (S20).
    unsafe { execve(path, arguments, current_environment()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(name: *const c_char, arguments: Strings, given: Strings) -> c_int {
    prepare_name(name);
    // SAFETY: the caller's arguments (S20).
    let exec = |environment| unsafe { next::execvpe(name, arguments, environment) };
    // SAFETY: the caller's environment (S20).
    unsafe { execute(given, exec) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(name: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: execvp is this (S20).
    unsafe { execvpe(name, arguments, current_environment()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, given: Strings) -> c_int {
    if process::is_on() {
        prepare_file(fd);
    }
    // SAFETY: the caller's arguments (S20).
    let exec = |environment| unsafe { next::fexecve(fd, arguments, environment) };
    // SAFETY: the caller's environment (S20).
    unsafe { execute(given, exec) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Strings,
    given: Strings,
    flags: c_int,
) -> c_int {
    if flags & libc::AT_EMPTY_PATH != 0 && process::is_on() {
        prepare_file(folder);
    } else {
        prepare(folder, path);
    }
    // SAFETY: the caller's arguments (S20).
    let exec = |environment| unsafe { next::execveat(folder, path, arguments, environment, flags) };
    // SAFETY: the caller's environment (S20).
    unsafe { execute(given, exec) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    given: Strings,
) -> c_int {
    prepare(libc::AT_FDCWD, path);
    new_files::give_all();
    let given = if given.is_null() { current_environment() } else { given };
    // SAFETY: the caller's environment (S20).
    let environment = unsafe { Environment::new(given, &[]) };
    // SAFETY: the caller's arguments (S20).
    unsafe { next::posix_spawn(pid, path, actions, attributes, arguments, environment.strings) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    name: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    given: Strings,
) -> c_int {
    prepare_name(name);
    new_files::give_all();
    let given = if given.is_null() { current_environment() } else { given };
    // SAFETY: the caller's environment (S20).
    let environment = unsafe { Environment::new(given, &[]) };
    // SAFETY: the caller's arguments (S20).
    unsafe { next::posix_spawnp(pid, name, actions, attributes, arguments, environment.strings) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: c_int,
    target: c_int,
) -> c_int {
    if let Err(errno) = serve::hand_over_managed(fd, Reason::Inherited) {
        return errno.0;
    }
    // SAFETY: the caller's actions (S20).
    unsafe { next::posix_spawn_file_actions_adddup2(actions, fd, target) }
}

taken_over! {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        begin: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int {
        new_files::give_all();
        None
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: POSIX lets vfork be fork (S20).
    unsafe { next::fork() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    serve::say_goodbye(maps::count_own_pages());
    // SAFETY: a number, and the call does not return (S20).
    let _ = unsafe { next::system(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    std::process::abort()
}
