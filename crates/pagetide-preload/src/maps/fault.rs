//! A touch of a page that is not there.

use super::place::{Obtained, obtain, tell_unmapped};
use super::{PAGE_BYTES, find};
use crate::channel::{Parcel, ask};
use crate::pieces::{Changing, Piece};
use crate::{next, own, process};
use libc::c_int;
use pagetide_run::wire::{Op, Request, Status, fault};

/// A touch of `address`, in a piece. Returns whether it is to be made again.
pub(super) fn serve_fault(address: usize, piece: &Piece) -> bool {
    if piece.process != own::number() {
        return obtain_again(piece);
    }
    let within = (address - piece.start) & !(PAGE_BYTES - 1);
    let offset = (piece.offset + within as u64) as i64;
    let one = Request { offset, flags: piece.file, ..Request::new(Op::Fault, piece.id) };
    match ask(&one, Parcel::default()) {
        Ok(answer) if answer.reply.status == Status::Kernel && answer.files[0] >= 0 => {
            give_to_kernel(piece, answer.files[0]);
            true
        }
        Ok(answer) if answer.reply.status == Status::Done => match answer.reply.result {
            fault::IS_THERE => true,
            fault::OTHER_FILE => obtain_again(piece),
            fault::PAST_END => false,
            _ => {
                process::complain(
                    "pagetide: a page of a mapped file cannot be had; its reader gets SIGBUS\n",
                );
                false
            }
        },
        // A server that is gone has been said.
        _ => false,
    }
}

/// Maps a piece anew, which this process has not mapped yet, or whose memory file is another now.
fn obtain_again(piece: &Piece) -> bool {
    let moving = Piece { is_moving: true, ..*piece };
    if piece.is_moving || !Changing::begin().replace(piece, &moving) {
        // Another thread does.
        return true;
    }
    let obtained = obtain(&moving, libc::MAP_FIXED);
    let back = |now: &Piece| Changing::begin().replace(&moving, now);
    match obtained {
        Obtained::Mapped(now) => back(&now),
        Obtained::Kernel(real) => {
            back(piece);
            give_to_kernel(piece, real);
            true
        }
        Obtained::Failed => {
            back(piece);
            false
        }
    };
    find(piece.start).is_none_or(|now| now != *piece)
}

/// Maps the kernel's file in place of a piece, which is none any more.
fn give_to_kernel(piece: &Piece, real: c_int) {
    let kind = if piece.is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let kind = (kind | libc::MAP_FIXED) as usize;
    let protection = piece.protection as usize;
    let arguments =
        [piece.start, piece.len, protection, kind, real as usize, piece.offset as usize];
    let mut changing = Changing::begin();
    // Another thread may have done so before.
    let is_ours = changing.remove(piece);
    if is_ours {
        // SAFETY: the piece's own addresses (S36).
        if unsafe { next::system(libc::SYS_mmap, arguments) }.is_err() {
            changing.add(piece);
        }
    }
    drop(changing);
    own::close(real);
    if is_ours {
        tell_unmapped(piece);
    }
}
