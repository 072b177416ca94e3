//! Listing: which of the policy's lists a folio goes to, and comes from.
//!
//! ```text
//!   LINK in its flags   0        engine: probation or main, as its stamp says
//!                       1        kept: it cannot be evicted at all
//!                       others   unread
//! ```
//!
//! Problem: most folios are files' that can be evicted, and each is listed at its miss. Idea: one
//! mask says that a folio is none of these, by flags that its caller has read already.
//!
//! Ignored: flags that change meanwhile. Making a folio evictable logs a touch, which finds out
//! that it is on the wrong list.

use super::Pagetide;
use super::engine::Stamp;
use super::unread::Unread;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::LruConfig;

/// The flags of folios that cannot be evicted at all.
pub(super) fn keeps(config: &LruConfig) -> Flags {
    if config.can_swap { Flags::UNEVICTABLE } else { Flags::UNEVICTABLE.with(Flags::ANON) }
}

impl Pagetide {
    /// Lists a folio of these flags, stamped like this unless it is kept; says whether that is so.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        folios: &Folios,
        frame: FrameId,
        flags: Flags,
        stamp: Stamp,
    ) -> bool {
        if flags.any(self.keeps.with(Flags::LINK)) {
            return self.push_elsewhere(folios, frame, flags, stamp);
        }
        self.engine.push(folios, frame, stamp);
        false
    }

    /// As [`Pagetide::push`], for a folio that is kept, or comes from another list than most.
    #[inline(never)]
    fn push_elsewhere(
        &mut self,
        folios: &Folios,
        frame: FrameId,
        flags: Flags,
        stamp: Stamp,
    ) -> bool {
        let is_kept = flags.any(self.keeps);
        folios[frame].update(|flags| Some(flags.with_link(u32::from(is_kept))));
        if is_kept {
            self.kept.push_head(folios, frame);
        } else {
            self.engine.push(folios, frame, stamp);
        }
        is_kept
    }

    /// Lists a folio as it is stamped.
    pub(super) fn relist(&mut self, folios: &Folios, frame: FrameId) {
        let folio = &folios[frame];
        self.push(folios, frame, folio.flags(), Stamp::of(folio));
    }

    /// Takes a listed folio off its list.
    pub(super) fn unlink(&mut self, folios: &Folios, frame: FrameId) {
        let link = folios[frame].flags().link();
        if Unread::has(link) {
            self.unread.remove(folios, frame);
        } else if link > 0 {
            self.kept.remove(folios, frame);
        } else {
            self.engine.remove(folios, frame);
        }
    }
}
