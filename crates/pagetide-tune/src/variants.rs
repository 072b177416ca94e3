//! Variants: the unchanged constants, and each constant changed alone.

use pagetide_core::lru::own::{Setting, Tuning};

/// A set of constants.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Variant {
    /// The change, as in "horizon_percent=100".
    pub(crate) name: String,
    /// The constants, apart from the seed.
    pub(crate) tuning: Tuning,
}

type Change = fn(&mut Tuning, u32);

/// Name, setter, and values to try: half, double, and other candidates.
const CHANGES: [(&str, Change, &[u32]); 13] = [
    ("horizon_percent", |it, to| it.horizon_percent = to, &[100, 150, 300, 400]),
    ("margin_percent", |it, to| it.margin_percent = to, &[100, 112, 150]),
    ("epochs_a_memory", |it, to| it.epochs_a_memory = to, &[8, 32]),
    ("sample_frames_min", |it, to| it.sample_frames_min = to, &[256, 1024]),
    ("sample_parts", |it, to| it.sample_parts = to, &[32, 128]),
    ("sigmas", |it, to| it.sigmas = to, &[2, 4, 6]),
    ("tight_probation_percent", |it, to| it.settings[0].probation_percent = to, &[2]),
    ("tight_turns", |it, to| it.settings[0].turns = to, &[2, 8]),
    ("tight_hits_to_main", |it, to| it.settings[0].hits_to_main = to, &[1]),
    ("loose_probation_percent", |it, to| it.settings[1].probation_percent = to, &[10, 40]),
    ("loose_turns", |it, to| it.settings[1].turns = to, &[4, 16]),
    ("recency_probation_percent", |it, to| it.settings[2].probation_percent = to, &[35, 85]),
    ("recency_turns", |it, to| it.settings[2].turns = to, &[2, 8]),
];

impl Variant {
    /// Returns all variants, the unchanged one first.
    pub(crate) fn all() -> Vec<Variant> {
        let usual = Variant { name: "as it is".to_owned(), tuning: Tuning::default() };
        let changed = CHANGES.iter().flat_map(|&(name, change, values)| {
            values.iter().map(move |&value| {
                let mut tuning = Tuning::default();
                change(&mut tuning, value);
                Variant { name: format!("{name}={value}"), tuning }
            })
        });
        std::iter::once(usual).chain(changed).chain([Variant::without_recency()]).collect()
    }

    /// Makes a variant with a recency setting that never pays off.
    fn without_recency() -> Variant {
        let mut tuning = Tuning::default();
        tuning.settings[2] = Setting { name: "tight again", ..tuning.settings[0] };
        Variant { name: "no recency setting".to_owned(), tuning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_changes_something() {
        let variants = Variant::all();
        for (at, variant) in variants.iter().enumerate() {
            let is_new = variants[..at].iter().all(|it| it.tuning != variant.tuning);
            assert!(is_new, "{}", variant.name);
        }
        assert_eq!(variants[0].tuning, Tuning::default());
    }
}
