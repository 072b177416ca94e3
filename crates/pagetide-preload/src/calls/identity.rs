//! Leaves the run before the process gets other rights.
//!
//! The server opens files with its own user's rights, and refuses other users. Managed files
//! therefore become the kernel's, with the rights of their opening, the server's frames become
//! inaccessible, and the server's descriptors are closed.
//!
//! **Ignored.** Rights that change by other means: capabilities, namespaces, direct system calls,
//! and initgroups, which calls setgroups inside the C library.
//!
//! Source: setresuid(2), setgroups(2).

use crate::arguments::load;
use crate::{lent, maps, own, process, room, serve, table, view};
use libc::{c_int, gid_t, size_t, uid_t};
use pagetide_run::wire::Reason;

/// Argument of setreuid(2) for an identity that stays.
const UNCHANGED: u32 = u32::MAX;

/// Hands over all files of the process, and takes the process out of the run.
pub(super) fn leave_run(reason: Reason) {
    // The range includes inherited descriptors that the process has not used yet.
    let end = (table::LEN as u64).min(process::nr_descriptors_max()) as c_int;
    let known = table::managed().map(|(fd, _)| fd).filter(|fd| *fd >= end);
    for fd in (0..end).chain(known) {
        if !own::has(fd) && process::control(fd, libc::F_GETFD, 0).is_ok() {
            // Files that cannot be handed over have been reported.
            let _ = serve::hand_over_managed(fd, reason);
        }
    }
    maps::hand_over_all();
    serve::say_goodbye(maps::count_own_pages());
    view::stop();
    process::leave_run();
    room::leave_run();
}

/// Leaves the run, and closes the descriptors that give access to the server.
fn give_up_rights() {
    leave_run(Reason::OtherUser);
    own::close_all_but(lent::is_kept);
}

/// Leaves the run before a call that would change an identity from `now` to one of `wanted`. The
/// kernel may then refuse the call.
fn about_to_be(now: u32, wanted: &[u32]) {
    let is_same = wanted.iter().all(|one| *one == now || *one == UNCHANGED);
    if process::is_on() && !is_same {
        give_up_rights();
    }
}

macro_rules! changes {
    ($(of $effective:ident: $(fn $name:ident($($arg:ident: $ty:ty),*);)+)+) => {
        taken_over! {
            $($(
                fn $name($($arg: $ty),*) -> c_int {
                    // SAFETY: no arguments (S20).
                    about_to_be(unsafe { libc::$effective() }, &[$($arg),*]);
                    None
                }
            )+)+
        }
    };
}

changes! {
    of geteuid:
        fn setuid(user: uid_t);
        fn seteuid(user: uid_t);
        fn setreuid(real: uid_t, effective: uid_t);
        fn setresuid(real: uid_t, effective: uid_t, saved: uid_t);
        fn setfsuid(user: uid_t);
    of getegid:
        fn setgid(group: gid_t);
        fn setegid(group: gid_t);
        fn setregid(real: gid_t, effective: gid_t);
        fn setresgid(real: gid_t, effective: gid_t, saved: gid_t);
        fn setfsgid(group: gid_t);
}

taken_over! {
    fn setgroups(nr: size_t, groups: *const gid_t) -> c_int {
        if process::is_on() && !are_own_groups(nr, groups) {
            give_up_rights();
        }
        None
    }
}

fn are_own_groups(nr: size_t, groups: *const gid_t) -> bool {
    const NR_MAX: usize = 64;
    let mut own = [0; NR_MAX];
    // SAFETY: room for that many (S20).
    let nr_own = unsafe { libc::getgroups(NR_MAX as c_int, own.as_mut_ptr()) };
    // SAFETY: the caller's groups, which are checked before the read (S20).
    let given = |nth: usize| unsafe { load(groups.wrapping_add(nth)) };
    usize::try_from(nr_own) == Ok(nr) && (0..nr).all(|nth| given(nth) == Ok(own[nth]))
}
