//! Copies from one descriptor to another. The kernel copies inside, but copies of a managed file go
//! through a buffer of the library.
//!
//! ```text
//!   sendfile, copy_file_range    pread and write of this library, a buffer at a time
//!                                the kernel's, if the target is a new file, 1 MiB at a time
//!   ioctl(FICLONE)               the kernel's, if files can share blocks, and refused otherwise
//!   ioctl(FIONREAD)              from the position of the description
//!   ioctl, of terminals, disks   refused, as for any file
//! ```

use super::interfaces::hand_over;
use super::read_write::write_managed;
use crate::arguments::{CALL_BYTES_MAX, is_null, load, store};
use crate::errno::{Errno, or_minus_one};
use crate::process::{self, is_regular};
use crate::scratch::Scratch;
use crate::transfer::{Start, part};
use crate::{alone, limits, new_files, new_reports, next, serve};
use libc::{c_int, c_uint, c_ulong, off_t, size_t, ssize_t, stat};
use pagetide_run::wire::write::NO_APPEND;
use pagetide_run::wire::{CHUNK_BYTES, FILE_BYTES_MAX, Reason, pass};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Description that took the last copy, without a change of its status flags since. Most copies end
/// with a copy of 0 bytes, which needs no second check.
static TAKES_COPIES: AtomicU64 = AtomicU64::new(0);
const FICLONE: c_ulong = 0x4004_9409;
const FICLONERANGE: c_ulong = 0x4020_940d;
const FIDEDUPERANGE: c_ulong = 0xc018_9436;
const FIONREAD: c_ulong = 0x541b;
const FIONCLEX: c_ulong = 0x5450;
const FIOCLEX: c_ulong = 0x5451;
const FIONBIO: c_ulong = 0x5421;
/// Second bytes of requests for terminals and for disks.
const TERMINALS: c_ulong = 0x54;
const DISKS: c_ulong = 0x12;

// The intercepted functions, as a program would call them.
unsafe extern "C" {
    fn read(fd: c_int, buffer: *mut libc::c_void, len: size_t) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut libc::c_void, len: size_t, at: off_t) -> ssize_t;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t;
}

/// One end of a copy: a descriptor, and an offset unless the position is used.
struct End {
    fd: c_int,
    at: Option<off_t>,
}

impl End {
    /// Returns an end at the offset that `at` points to, or at the position if `at` is null.
    ///
    /// # Errors
    /// Fails with `EFAULT` if there is no memory at the address.
    ///
    /// # Safety
    /// `at` is null, or points to an offset of the caller's.
    unsafe fn new(fd: c_int, at: *const off_t) -> Result<End, Errno> {
        if at.is_null() {
            return Ok(End { fd, at: None });
        }
        // SAFETY: the caller's offset (S20).
        let at = unsafe { load(at)? };
        Ok(End { fd, at: Some(at) })
    }

    fn read(&mut self, buffer: &Scratch, len: usize) -> ssize_t {
        let (to, len) = (buffer.place(0).cast(), len.min(buffer.len()));
        let nr = match self.at {
            // SAFETY: a mapping of the library of at least `len` bytes (S22).
            Some(at) => unsafe { pread64(self.fd, to, len, at) },
            // SAFETY: a mapping of the library of at least `len` bytes (S22).
            None => unsafe { read(self.fd, to, len) },
        };
        self.at = self.at.map(|at| at + nr.max(0) as off_t);
        nr
    }

    /// Writes from the buffer. Fails with EBADF if the file is in append mode and the kernel's.
    fn write(&mut self, buffer: &Scratch, from: usize, len: usize) -> ssize_t {
        let from = buffer.place(from).cast();
        let start = self.at.map_or(Start::Position, Start::At);
        let managed = write_managed(self.fd, &part(from, len), start, NO_APPEND);
        let id = serve::managed_by_now(self.fd);
        if let Some(id) = id.filter(|_| managed.is_some_and(|nr| nr > 0)) {
            TAKES_COPIES.store(id, Relaxed);
        }
        // The kernel may have the file by now, and would append at any offset.
        if managed.is_none() && self.appends() {
            return or_minus_one(Err(Errno(libc::EBADF)));
        }
        let nr = managed.unwrap_or_else(|| match self.at {
            // SAFETY: within a mapping of the library (S22).
            Some(at) => unsafe { next::pwrite64(self.fd, from, len, at) },
            // SAFETY: within a mapping of the library (S22).
            None => unsafe { next::write(self.fd, from, len) },
        });
        self.at = self.at.map(|at| at + nr.max(0) as off_t);
        nr
    }

    /// Returns the offset, or the current position.
    fn place(&self) -> off_t {
        // SAFETY: all arguments are numbers (S20).
        self.at.unwrap_or_else(|| unsafe { lseek64(self.fd, 0, libc::SEEK_CUR) })
    }

    /// Returns true if the descriptor is in append mode.
    fn appends(&self) -> bool {
        serve::status_flags(self.fd).is_ok_and(|flags| flags & libc::O_APPEND != 0)
    }

    /// # Errors
    /// Fails with `EBADF` if the descriptor is not readable.
    fn must_be_read(&self) -> Result<(), Errno> {
        let flags = serve::status_flags(self.fd)?;
        let is_read = flags & libc::O_ACCMODE != libc::O_WRONLY && flags & libc::O_PATH == 0;
        if is_read { Ok(()) } else { Err(Errno(libc::EBADF)) }
    }

    /// # Errors
    /// Fails with `EBADF` if the descriptor is not writable, or in append mode.
    fn must_take_copies(&self) -> Result<(), Errno> {
        // Another process that has the description could have changed the flags.
        let has_them = |id| id == TAKES_COPIES.load(Relaxed) && alone::is_alone_with(id);
        if serve::managed_by_now(self.fd).is_some_and(has_them) {
            return Ok(());
        }
        let flags = serve::status_flags(self.fd)?;
        if is_written(flags) && flags & libc::O_APPEND == 0 {
            Ok(())
        } else {
            Err(Errno(libc::EBADF))
        }
    }

    /// Moves back over bytes that were read but not written.
    fn put_back(&mut self, nr: usize) {
        match &mut self.at {
            Some(at) => *at -= nr as off_t,
            None => {
                // SAFETY: all arguments are numbers (S20).
                unsafe { lseek64(self.fd, -(nr as off_t), libc::SEEK_CUR) };
            }
        }
    }

    /// Stores the new offset at `at`.
    ///
    /// # Errors
    /// Fails with `EFAULT` if the address cannot be stored to.
    ///
    /// # Safety
    /// `at` is null, or points to an offset of the caller's.
    unsafe fn store(&self, at: *mut off_t) -> Result<(), Errno> {
        match self.at {
            // SAFETY: the end has an offset, so `at` is not null, and points to the caller's offset
            // (S20).
            Some(now) => unsafe { store(at, now) },
            None => Ok(()),
        }
    }
}

/// Returns true if status flags permit writes.
fn is_written(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_PATH == 0
}

/// Returns the maximum number of bytes that copy_file_range moves.
///
/// # Errors
/// Fails with the kernel's errors for the arguments, in its order.
fn check_copy(from: &End, to: &End, len: usize) -> Result<usize, Errno> {
    let stats = [process::stat(from.fd)?, process::stat(to.fd)?];
    if stats.iter().any(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR) {
        return Err(Errno(libc::EISDIR));
    }
    if !stats.iter().all(is_regular) {
        return Err(Errno(libc::EINVAL));
    }
    to.must_take_copies()?;
    match check_places(from, to, len, &stats) {
        Ok(nr @ 1..) => Ok(nr),
        // No read follows that could fail with this error.
        refused => from.must_be_read().and(refused),
    }
}

/// Checks the offsets as [`check_copy`], for two regular files.
fn check_places(from: &End, to: &End, len: usize, stats: &[stat; 2]) -> Result<usize, Errno> {
    let [source, target] = stats;
    let is_one = (source.st_dev, source.st_ino) == (target.st_dev, target.st_ino);
    // The position needs a request, which is made only if the result depends on the position.
    let limit = limits::file_len_max();
    let is_asked = is_one || len > isize::MAX as usize;
    let source_at = from.at.or_else(|| is_asked.then(|| from.place()));
    let target_at = to.at.or_else(|| (is_asked || limit != u64::MAX).then(|| to.place()));
    let places = [source_at, target_at].into_iter().flatten();
    if places.clone().any(|at| (at as u64).checked_add(len as u64).is_none()) {
        return Err(Errno(libc::EOVERFLOW));
    }
    let mut left = match source_at {
        Some(at @ 0..) => (len as u64).min((source.st_size - at).max(0) as u64),
        _ => len as u64,
    };
    if let Some(at) = target_at.and_then(|at| u64::try_from(at).ok()) {
        if at >= limit {
            from.must_be_read()?;
            return Err(limits::exceed());
        }
        left = left.min(limit - at);
    }
    let ends = source_at.zip(target_at).map(|(one, other)| (one as u64, other as u64));
    let overlaps = ends.is_some_and(|(source_at, target_at)| {
        target_at + left > source_at && target_at < source_at + left
    });
    if is_one && overlaps || places.clone().any(off_t::is_negative) {
        return Err(Errno(libc::EINVAL));
    }
    Ok(left.min(CALL_BYTES_MAX as u64) as usize)
}

/// Returns the maximum number of bytes that sendfile moves.
///
/// # Errors
/// Fails with the kernel's errors for the arguments, in its order.
fn check_send(from: &End, to: &End, len: usize) -> Result<usize, Errno> {
    let source = process::stat(from.fd)?;
    match check_sent(from, to, len, &source) {
        Ok(nr @ 1..) => Ok(nr),
        // No read follows that could fail with this error.
        refused => from.must_be_read().and(refused),
    }
}

/// Checks the arguments as [`check_send`], for an open source.
fn check_sent(from: &End, to: &End, len: usize, source: &stat) -> Result<usize, Errno> {
    let kind = source.st_mode & libc::S_IFMT;
    let is_stream = matches!(kind, libc::S_IFIFO | libc::S_IFSOCK);
    if from.at.is_some() && is_stream {
        return Err(Errno(libc::ESPIPE));
    }
    let ends_beyond = |at: off_t| at.checked_add_unsigned(len as u64).is_none();
    // A shorter copy ends in range from any position.
    let is_far = len > isize::MAX as usize / 2;
    if from.at.is_some_and(|at| at < 0 || ends_beyond(at)) {
        return Err(Errno(libc::EINVAL));
    }
    if is_far && from.at.is_none() && ends_beyond(from.place().max(0)) {
        return Err(Errno(libc::EINVAL));
    }
    let flags = serve::status_flags(to.fd)?;
    if !is_written(flags) {
        return Err(Errno(libc::EBADF));
    }
    if from.at.is_some_and(|at| at as u64 >= longest(from.fd).min(longest(to.fd))) {
        return Err(Errno(libc::EOVERFLOW));
    }
    let is_folder = kind == libc::S_IFDIR && len > 0;
    if flags & libc::O_APPEND != 0 || is_stream || is_folder {
        return Err(Errno(libc::EINVAL));
    }
    Ok(len.min(CALL_BYTES_MAX))
}

/// Returns the maximum file length of the file system, or the highest offset if it is not known.
fn longest(fd: c_int) -> u64 {
    match file_system_of(fd) {
        Some(found) if found.f_type == libc::EXT4_SUPER_MAGIC => {
            u64::from(u32::MAX) * found.f_bsize as u64
        }
        _ => off_t::MAX as u64,
    }
}

/// Returns facts about the file system of `fd`.
fn file_system_of(fd: c_int) -> Option<libc::statfs> {
    // SAFETY: numbers, for which zeros are valid (S20).
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    let arguments = [fd as usize, process::address(&raw mut found), 0, 0, 0, 0];
    // SAFETY: room for a `statfs` (S20).
    unsafe { next::system(libc::SYS_fstatfs, arguments) }.ok().map(|_| found)
}

/// Copies bytes onto themselves: both ends are the position of one description.
fn move_in_place(end: &End, len: usize) -> Result<usize, Errno> {
    let at = end.place();
    let [mut source, mut target] = [(); 2].map(|()| End { fd: end.fd, at: Some(at) });
    let nr = move_bytes(&mut source, &mut target, len)?;
    // SAFETY: all arguments are numbers (S20).
    unsafe { lseek64(end.fd, at + nr as off_t, libc::SEEK_SET) };
    Ok(nr)
}

/// Moves up to `len` bytes. Moves fewer at the end of the file, or after a short write.
fn move_bytes(from: &mut End, to: &mut End, len: usize) -> Result<usize, Errno> {
    let buffer = Scratch::new(CHUNK_BYTES)?;
    let mut done = 0;
    while done < len {
        let nr_read = from.read(&buffer, len - done);
        if nr_read <= 0 {
            return if nr_read < 0 && done == 0 { Err(crate::errno::read()) } else { Ok(done) };
        }
        let mut nr_written = 0;
        while nr_written < nr_read as usize {
            match to.write(&buffer, nr_written, nr_read as usize - nr_written) {
                nr @ 1.. => nr_written += nr as usize,
                failed => {
                    let why = crate::errno::read();
                    from.put_back(nr_read as usize - nr_written);
                    done += nr_written;
                    return if failed < 0 && done == 0 { Err(why) } else { Ok(done) };
                }
            }
        }
        done += nr_written;
    }
    Ok(done)
}

/// Forgets which description permits copies, after a change of status flags.
pub(super) fn forget_flags() {
    TAKES_COPIES.store(0, Relaxed);
}

/// Returns true if the server has the source, or the target.
fn is_managed(source: c_int, target: c_int) -> bool {
    // Both calls are needed, so that both descriptors are in the table.
    serve::managed(source).is_some() | serve::managed_by_now(target).is_some()
}

/// Makes the kernel copy. A copy to a new file is reported like a write, 1 MiB at a time.
fn copy_in_kernel(target: c_int, len: usize, copy: impl Fn(usize) -> ssize_t) -> ssize_t {
    if !new_reports::is_new(target) || len == 0 || len > isize::MAX as usize {
        return copy(len);
    }
    let mut done = 0;
    while done < len {
        let wanted = (len - done).min(pass::WINDOW as usize);
        let mut nr = copy(wanted);
        if nr < 0 && new_reports::makes_room(target, crate::errno::read()) {
            nr = copy(wanted);
        }
        if nr <= 0 {
            return if done > 0 { done as ssize_t } else { nr };
        }
        new_reports::wrote(target, nr as u64);
        done += nr as usize;
        if (nr as usize) < wanted {
            break;
        }
    }
    done as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(out: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    if !is_managed(from, out) {
        // SAFETY: the caller's arguments (S20).
        let send = |len| unsafe { next::sendfile64(out, from, at, len) };
        // The kernel checks the end of a longer range.
        return if len > isize::MAX as usize / 2 {
            send(len)
        } else {
            copy_in_kernel(out, len, send)
        };
    }
    // SAFETY: the caller's offset (S20).
    let mut source = match unsafe { End::new(from, at) } {
        Ok(source) => source,
        Err(errno) => return or_minus_one(Err(errno)),
    };
    let mut target = End { fd: out, at: None };
    let is_one = at.is_null() && serve::managed(from) == serve::managed_by_now(out);
    let result = check_send(&source, &target, len).and_then(|len| match is_one {
        true => move_in_place(&target, len),
        false => move_bytes(&mut source, &mut target, len),
    });
    // SAFETY: the caller's offset (S20).
    let stored = unsafe { source.store(at) };
    or_minus_one(stored.and(result).map(|nr| nr as ssize_t))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if !to_at.is_null() && new_files::may_be_managed(to) {
        new_files::give(to);
    }
    if !is_managed(from, to) {
        // SAFETY: the caller's arguments (S20).
        let copy = |len| unsafe { next::copy_file_range(from, from_at, to, to_at, len, flags) };
        return copy_in_kernel(to, len, copy);
    }
    // SAFETY: the caller's offsets (S20).
    let ends = unsafe { ends((from, from_at), (to, to_at)) };
    let (mut source, mut target) = match ends {
        Ok(ends) => ends,
        Err(errno) => return or_minus_one(Err(errno)),
    };
    if target.at.is_some_and(|at| at >= FILE_BYTES_MAX as off_t) {
        let handed = hand_over([from, to], Reason::Interface);
        // SAFETY: the caller's arguments (S20).
        let copy = |()| Ok(unsafe { next::copy_file_range(from, from_at, to, to_at, len, flags) });
        return handed.and_then(copy).unwrap_or_else(|errno| or_minus_one(Err(errno)));
    }
    let checked = match flags {
        0 => check_copy(&source, &target, len),
        _ => Err(Errno(libc::EINVAL)),
    };
    let result = checked.and_then(|len| move_bytes(&mut source, &mut target, len));
    let stored = match result {
        Ok(1..) => {
            // SAFETY: the caller's offset (S20).
            let stored = unsafe { source.store(from_at) };
            // SAFETY: the caller's offset (S20).
            stored.and_then(|()| unsafe { target.store(to_at) })
        }
        _ => Ok(()),
    };
    or_minus_one(stored.and(result).map(|nr| nr as ssize_t))
}

/// Returns the two ends of copy_file_range.
///
/// # Errors
/// Fails with `EBADF` if a descriptor is not open, before EFAULT for a bad offset.
///
/// # Safety
/// As for [`End::new`], for both offsets.
unsafe fn ends(
    (from, from_at): (c_int, *mut off_t),
    (to, to_at): (c_int, *mut off_t),
) -> Result<(End, End), Errno> {
    for fd in [from, to] {
        let is_managed = serve::managed_by_now(fd).is_some();
        if !is_managed && serve::status_flags(fd)? & libc::O_PATH != 0 {
            return Err(Errno(libc::EBADF));
        }
    }
    // SAFETY: the caller's offset (S20).
    let source = unsafe { End::new(from, from_at)? };
    // SAFETY: the caller's offset (S20).
    let target = unsafe { End::new(to, to_at)? };
    Ok((source, target))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    let source = match request {
        FICLONE => Some(argument as c_int),
        // SAFETY: the source is the first field of the caller's range (S20).
        FICLONERANGE => unsafe { load(argument as *const i64) }.ok().map(|fd| fd as c_int),
        FIDEDUPERANGE if !is_null(argument) => Some(fd),
        _ => None,
    };
    if let Some(source) = source.filter(|source| is_managed(*source, fd)) {
        if !shares_blocks(fd) {
            return or_minus_one(Err(Errno(libc::EOPNOTSUPP)));
        }
        if let Err(errno) = hand_over([source, fd], Reason::Interface) {
            return or_minus_one(Err(errno));
        }
        // SAFETY: the caller's arguments (S20).
        return unsafe { next::ioctl(fd, request, argument) };
    }
    let is_new = new_files::may_be_managed(fd);
    match if is_new { Ok(None) } else { of_managed(fd, request, argument) } {
        Ok(Some(result)) => result,
        // SAFETY: the caller's arguments. An argument that was not given is not used (S20).
        Ok(None) => unsafe { next::ioctl(fd, request, argument) },
        Err(errno) => or_minus_one(Err(errno)),
    }
}

/// Returns true if files of the file system of `fd` may share blocks. Other file systems refuse to
/// clone.
fn shares_blocks(fd: c_int) -> bool {
    const BCACHEFS: libc::c_long = 0xca45_1a4e;
    const ZFS: libc::c_long = 0x2fc1_2fc1;
    let kinds = [libc::BTRFS_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, BCACHEFS, ZFS];
    file_system_of(fd).is_some_and(|found| kinds.contains(&found.f_type))
}

/// Serves ioctl(2) for a managed descriptor. Returns `None` if the kernel can serve it by now.
fn of_managed(fd: c_int, request: c_ulong, argument: usize) -> Result<Option<c_int>, Errno> {
    let Some(id) = serve::managed(fd) else { return Ok(None) };
    let keep = |flags: usize| process::control(fd, libc::F_SETFD, flags).map(|_| Some(0));
    match request {
        FIONREAD => count_unread(fd, argument as *mut c_int).map(Some),
        FIOCLEX => keep(libc::FD_CLOEXEC as usize),
        FIONCLEX => keep(0),
        _ if request != FIONBIO && matches!(request >> 8 & 0xff, TERMINALS | DISKS) => {
            Err(Errno(libc::ENOTTY))
        }
        _ => serve::hand_over(id, Reason::Interface).map(|()| None),
    }
}

/// Stores the number of bytes from the position to the end of the file.
fn count_unread(fd: c_int, nr_bytes: *mut c_int) -> Result<c_int, Errno> {
    let end = End { fd, at: None };
    let nr_left = process::stat(fd)?.st_size - end.place();
    // SAFETY: the caller's variable (S20).
    unsafe { store(nr_bytes, nr_left as c_int)? };
    Ok(0)
}

taken_over! {
    fn isatty(fd: c_int) -> c_int {
        if new_files::may_be_managed(fd) {
            return None;
        }
        serve::managed(fd)?;
        crate::errno::set(Errno(libc::ENOTTY));
        Some(0)
    }
}
