//! Links and unlinks folios on the policy's lists.
//!
//! ```text
//!   LINK in its flags   0        engine: probation or main, as its stamp says
//!                       1        kept: cannot be evicted
//!                       others   unread
//! ```
//!
//! Problem: each folio is listed at its miss. Idea: one mask test of flags already read covers most
//! folios.
//!
//! Ignored: flags that change meanwhile. A folio that becomes evictable is logged as a touch, which
//! corrects its list.

use super::Pagetide;
use super::engine::Stamp;
use super::unread::Unread;
use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::LruConfig;

pub(super) fn keeps(config: &LruConfig) -> Flags {
    if config.can_swap { Flags::UNEVICTABLE } else { Flags::UNEVICTABLE.with(Flags::ANON) }
}

impl Pagetide {
    /// Returns true if the folio is kept.
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

    pub(super) fn relist(&mut self, folios: &Folios, frame: FrameId) {
        let folio = &folios[frame];
        self.push(folios, frame, folio.flags(), Stamp::of(folio));
    }

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
