//! The plan of measurements: the sections of docs/results.md with their commands.
//!
//! A command is `pagetide`'s arguments, with these words filled in:
//!
//! ```text
//!   {runs} {seeds}   3 and 3; with --long 9 and 10
//!   {made}                     a folder of traces that `pagetide lab make` has made
//!   {traces}                   PAGETIDE_TRACES, the folder of published traces; a command
//!                              without its trace is left out, by name
//! ```

#[derive(Debug)]
pub(super) struct Section {
    /// The rows are in `results/<name>.jsonl`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    pub(super) shape: Shape,
    pub(super) commands: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Shape {
    /// Each subject with its references.
    Against,
    /// Subjects with each other.
    Subjects,
    /// The effect of one change on a case: "trace, change".
    Changes,
}

pub(super) const MADE_TRACES: [&str; 2] = ["zscan", "habits"];

pub(super) const SECTIONS: [Section; 12] = [
    Section {
        name: "cache",
        title: "Against memcpy, pread, O_DIRECT and the kernel's page cache",
        note: "Nanoseconds of a 4 KiB read (`seq`: of a page in 64 KiB reads; `guard`: of a read \
               guard). `x2` is two threads.",
        shape: Shape::Against,
        commands: &[
            "bench hit --memory 512M --policy mglru,pagetide --runs {runs}",
            "bench miss --runs {runs}",
            "bench seq --runs {runs}",
            "bench zipf --runs {runs}",
        ],
    },
    Section {
        name: "evictions",
        title: "Evictions",
        note: "CPU time to evict a clean page; in brackets, against `pagetide`, by turns.",
        shape: Shape::Subjects,
        commands: &["bench evict --runs {runs}"],
    },
    Section {
        name: "demo",
        title: "The demo",
        note: "Each policy and the kernel on the same files at the same limit, two threads, by \
               turns. In brackets, against the kernel. The README's picture is of these rows.",
        shape: Shape::Subjects,
        commands: &["demo --rounds {runs} --no-report"],
    },
    Section {
        name: "programs",
        title: "Unmodified programs",
        note: "fio, sqlite3 and others under `pagetide run`, against a memory cgroup of the same \
               limit; nanoseconds of a read, a query, a transaction, a KiB or a file.",
        shape: Shape::Against,
        commands: &[
            "bench run --memory 512M --runs {runs} \
                     --cases warm,resident,seq,stream,sqlite,small-open,one-pass-cat",
            "bench run --memory 64M --runs 5 --cases mariadb",
        ],
    },
    Section {
        name: "mapped",
        title: "Unmodified programs that map their files",
        note: "Under `pagetide run --mmap cache`, against the kernel's mapping in a memory cgroup \
               of the same limit (`linux-random`: told MADV_RANDOM; `linux-read`: not mapped); \
               nanoseconds of a page, of a query, or of a get: memcached's values are in a file of \
               2x or 4x the limit, databases and the index of vectors have 4x. `-device`: bytes \
               read from the device, an operation.",
        shape: Shape::Against,
        commands: &[
            "bench run --memory 32M --runs 5 --cases mmap-random,mmap-loop",
            "bench run --memory 128M --runs 5 --cases memcached-even,memcached-zipf",
            "bench run --memory 64M --runs 5 --cases sqlite-mapped,lmdb,vectors",
        ],
    },
    Section {
        name: "regions",
        title: "Regions",
        note: "Nanoseconds of a fault of a region, or of an access to it; against the kernel's own \
               mappings of the same file (`random`: told MADV_RANDOM), and its swap, in a memory \
               cgroup of the same limit. `x4` is four threads; `-memory`: what the region has \
               taken.",
        shape: Shape::Against,
        commands: &[
            "bench region --runs 5 --cases faults,load,evict,zipf",
            "bench region --memory 32M --runs 5 --cases file-loads,file-stores,sum,again",
            "bench region --memory 32M --runs 3 --cases anon-loads,anon-stores,fill",
        ],
    },
    Section {
        name: "alloc",
        title: "Page allocation",
        note: "`pair`: a frame taken and given back. `fault`: a frame of 128 MiB taken and given \
               back in a loop, under each tuning. `locked`: frames that went through the zone's \
               lock in a cycle of it.",
        shape: Shape::Against,
        commands: &["bench alloc --runs {runs}"],
    },
    Section {
        name: "lists",
        title: "Per-CPU lists on virtual machines of many CPUs",
        note: "Pages taken and freed again, in virtual time; prices are in the command's output. \
               In brackets, against `fixed`.",
        shape: Shape::Subjects,
        commands: &["lab run pcp-all --seeds 1"],
    },
    Section {
        name: "tiers",
        title: "Fast and slow memory",
        note: "A model of a machine with both, in virtual time; and real files with slow memory \
               emulated (300 ns more an access), nanoseconds of a read.",
        shape: Shape::Against,
        commands: &["lab run pmbench --seeds {seeds}", "bench tier --memory 64M --runs {runs}"],
    },
    Section {
        name: "scenarios",
        title: "Scenarios",
        note: "In virtual time, about 4096 frames.",
        shape: Shape::Subjects,
        commands: &["lab run wschange wsprotect --seeds 10 \
                     --policy mglru,active-inactive,lru,pagetide"],
    },
    Section {
        name: "mechanisms",
        title: "What a mechanism is worth",
        note: "Points of the miss ratio that a policy loses with the mechanism off (or on).",
        shape: Shape::Changes,
        commands: &[
            "ablate {made}/habits.txt --frames 20000 --runs 1 --policy mglru",
            "ablate {traces}/arc_OLTP.lis.zst --frames 5000 --runs 1 --policy mglru",
            "ablate {traces}/arc_OLTP.lis.zst --frames 5000 --runs 1 --policy mglru-7.3",
        ],
    },
    Section {
        name: "replay",
        title: "Replays",
        note: "Miss ratios, and how long an access takes in a replay on one core.",
        shape: Shape::Subjects,
        commands: &[
            "replay {made}/zscan.txt --frames 20000 --jobs 1 \
             --policy lru,fifo,clock,sieve,s3fifo,arc,lirs,active-inactive,mglru,mglru-7.3,\
             pagetide,opt",
            "replay {traces}/twitter_cluster52.csv.zst --frames 14354 --jobs 1 \
             --policy lru,fifo,clock,sieve,s3fifo,arc,lirs,active-inactive,mglru,mglru-7.3,\
             pagetide,opt",
        ],
    },
];
