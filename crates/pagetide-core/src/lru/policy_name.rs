//! The names of the built-in policies. `registry.rs` maps them to types.

macro_rules! names {
    ($($name:ident = $text:literal, $summary:literal;)+) => {
        /// The name of a built-in policy, as the command line spells it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum PolicyName {
            $(#[doc = $summary] $name,)+
        }

        impl PolicyName {
            /// All policies.
            pub const ALL: &'static [PolicyName] = &[$(PolicyName::$name,)+];

            /// Returns the name on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(PolicyName::$name => $text,)+ }
            }

            /// Returns a one-sentence summary with its source.
            pub const fn summary(self) -> &'static str {
                match self { $(PolicyName::$name => $summary,)+ }
            }
        }
    };
}

names! {
    Pagetide = "pagetide",
        "Our own: probation and main judged by instants; miniatures choose between four designs.";
    Mglru = "mglru", "Multi-gen LRU as of Linux 6.18: generations, tiers, refault feedback.";
    Mglru73 = "mglru-7.3",
        "Multi-gen LRU as of Linux 7.3: a read counts before its page is listed, passes age.";
    Mglru61 = "mglru-6.1",
        "Multi-gen LRU as of Linux 6.1: aging by size, coupled types, refaults judged briefly.";
    ActiveInactive = "active-inactive",
        "Two lists per type and refault distance: the kernel's classic LRU as of 6.18.";
    ActiveInactive315 = "active-inactive-3.15",
        "Two lists and refault distance as first merged (3.15): a page back in time is activated.";
    ActiveInactive2013 = "active-inactive-2013",
        "Two lists, refault distance as proposed (2013): a page back in time challenges another.";
    ActiveInactiveVanilla = "active-inactive-vanilla",
        "Two lists before refault detection: at most half of the file pages are active.";
    Lru = "lru", "Strict LRU: every access moves the page to the young end.";
    Fifo = "fifo", "First in, first out: accesses do not matter.";
    Clock = "clock", "CLOCK (Corbato 1968): FIFO with a reference bit and a second chance.";
    Sieve = "sieve",
        "SIEVE (Zhang et al. 2024): CLOCK whose hand moves and whose pages do not.";
    S3Fifo = "s3fifo",
        "S3-FIFO (Yang et al. 2023): a small queue filters what a main queue and ghosts keep.";
    Clock2QPlus = "clock2q+",
        "Clock2Q+ (Zhai et al. 2026): S3-FIFO with one bit, deaf to hits right after a page came.";
    TwoQueue = "2q",
        "2Q (Johnson and Shasha 1994): hot is what came back after eviction.";
    Arc = "arc",
        "ARC (Megiddo and Modha 2003): ghosts move memory between recency and frequency.";
    WTinyLfu = "w-tinylfu",
        "W-TinyLFU (Einziger et al. 2017): a frequency sketch decides which page enters main.";
    Lirs = "lirs",
        "LIRS (Jiang and Zhang 2002): keeps pages whose last two accesses lie close together.";
    Lirs2 = "lirs2",
        "LIRS2 (Zhong et al. 2021): LIRS by the sum of the last two distances of accesses.";
}

/// The policy without settings.
impl Default for PolicyName {
    fn default() -> PolicyName {
        PolicyName::Pagetide
    }
}

crate::typed!(PolicyName or UnknownPolicy("unknown policy"));

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_parse_back_and_strangers_are_told_the_choice() {
        for name in PolicyName::ALL {
            assert_eq!(name.to_string().parse(), Ok(*name));
            assert!(name.summary().ends_with('.'));
        }
        assert_eq!("mru".parse::<PolicyName>(), Err(UnknownPolicy));
        assert!(UnknownPolicy.to_string().contains("clock"));
    }
}
