//! Faults on absent pages.

use super::cooling;
use super::kernels::give_to_kernel;
use super::pins::lock_again;
use super::place::{Obtained, obtain, tell_unmapped};
use super::uffd::{own_uffd, show};
use super::{PAGE_BYTES, find};
use crate::channel::{Parcel, ask};
use crate::pieces::{Moving, Piece, Storing};
use crate::{own, process, serve};
use pagetide_run::wire::{Op, Reason, Request, Status, fault};

/// Bytes mapped at a load, as far as the pages are in the memory file.
const AROUND_BYTES: usize = 16 * PAGE_BYTES;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
}

/// Serves a touch of `address` in a piece. Returns true if the touch is to be repeated.
pub(super) fn serve_fault(address: usize, piece: &Piece, access: Access) -> bool {
    if piece.process != own::number() {
        return obtain_again(piece, piece);
    }
    // The kernel copies a page for a store, once the page is present.
    let access = if piece.is_written { access } else { Access::Load };
    let at = address & !(PAGE_BYTES - 1);
    if access == Access::Load && piece.is_written && is_shown(at, piece) {
        return true;
    }
    let offset = (piece.offset + (at - piece.start) as u64) as i64;
    let one = Request { offset, flags: piece.file, ..Request::new(Op::Fault, piece.id) };
    let answer = match access {
        Access::Load => ask(&one, Parcel::default()),
        Access::Store => {
            let Some(_storing) = Storing::begin(piece) else { return true };
            ask(&Request { len: at as u64, total: piece.map, ..one }, Parcel::default())
        }
    };
    match answer {
        Ok(answer) if answer.reply.status == Status::Kernel && answer.files[0] >= 0 => {
            give_to_kernel(piece, answer.files[0]);
            true
        }
        Ok(answer) if answer.reply.status == Status::Done => match answer.reply.result {
            fault::IS_THERE => {
                if access == Access::Load && piece.is_written {
                    // If the page has left already, the touch faults again.
                    is_shown(at, piece);
                }
                cooling::note(at, piece);
                true
            }
            fault::OTHER_FILE => obtain_again(piece, piece),
            fault::PAST_END => false,
            // Another thread has mapped the kernel's file, and the server has forgotten the
            // mapping.
            _ if has_changed(piece) => true,
            _ => {
                process::complain(
                    "pagetide: a page of a mapped file cannot be had; its reader gets SIGBUS\n",
                );
                false
            }
        },
        _ => false,
    }
}

/// Maps pages of a writable piece for reading. Returns true on success.
fn is_shown(at: usize, piece: &Piece) -> bool {
    let Ok(uffd) = own_uffd() else { return false };
    // The program may have several mappings of the range.
    let len = AROUND_BYTES.min(piece.end() - at);
    show(uffd, at, len).is_ok() || show(uffd, at, PAGE_BYTES).is_ok()
}

/// Maps a piece again as `wanted`: if this process has not mapped it yet, its memory file changed,
/// or it becomes writable.
pub(super) fn obtain_again(piece: &Piece, wanted: &Piece) -> bool {
    // Another thread does so, or has unmapped it.
    let Some(moving) = Moving::begin(piece, wanted) else { return true };
    match obtain(moving.piece(), None) {
        Obtained::Mapped(now) => {
            lock_again(piece, &now);
            moving.end(&now);
            tell_unmapped(piece);
        }
        Obtained::Kernel(real) => {
            moving.end(piece);
            give_to_kernel(piece, real);
        }
        Obtained::OtherFile => {
            moving.end(piece);
            // On failure, the piece stays unchanged.
            let _ = serve::hand_over(piece.id, Reason::Mapped);
        }
        Obtained::Short | Obtained::Failed => moving.end(piece),
    }
    has_changed(piece)
}

fn has_changed(piece: &Piece) -> bool {
    find(piece.start).is_none_or(|now| now != *piece)
}
