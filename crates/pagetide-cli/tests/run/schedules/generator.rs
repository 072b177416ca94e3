//! Makes a random schedule of operations from a seed.
//!
//! A schedule takes a random subset of the kinds of operations. In some schedules, files therefore
//! stay managed to the end. In others, each kind occurs next to each other kind.

/// Random numbers of a seed (xorshift).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const NR_SLOTS: usize = 8;
const NR_MAPS: usize = 4;
const NAMES: &[&str] = &["f0", "f1", "f2", "f3", "f4"];
const OUTSIDE: usize = 3;
const NR_PROCESSES: usize = 6;

/// A kind of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Open,
    Close,
    Read,
    Write,
    Seek,
    Look,
    Duplicate,
    Flags,
    Length,
    Holes,
    Allocate,
    Sync,
    Advise,
    Names,
    Copy,
    Splice,
    Lock,
    Flock,
    Map,
    Memory,
    Given,
    Threads,
    Apart,
    Fork,
    Exec,
    Shell,
}

/// The kinds, the weight of each in a schedule, and the percentage of schedules that have the kind.
const KINDS: &[(Kind, u64, u64)] = &[
    (Kind::Open, 12, 100),
    (Kind::Close, 4, 90),
    (Kind::Read, 16, 100),
    (Kind::Write, 14, 95),
    (Kind::Seek, 6, 90),
    (Kind::Look, 6, 100),
    (Kind::Duplicate, 5, 60),
    (Kind::Flags, 3, 50),
    (Kind::Length, 4, 70),
    (Kind::Holes, 4, 40),
    (Kind::Allocate, 3, 30),
    (Kind::Sync, 3, 60),
    (Kind::Advise, 2, 40),
    (Kind::Names, 4, 50),
    (Kind::Copy, 6, 50),
    (Kind::Splice, 3, 20),
    (Kind::Lock, 8, 40),
    (Kind::Flock, 4, 25),
    (Kind::Map, 6, 60),
    (Kind::Memory, 16, 60),
    (Kind::Given, 4, 30),
    (Kind::Threads, 2, 40),
    (Kind::Apart, 2, 40),
    (Kind::Fork, 3, 50),
    (Kind::Exec, 1, 40),
    (Kind::Shell, 1, 15),
];

/// Access mode of a slot's descriptor, as far as the generator can tell without the results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reads,
    Writes,
    Both,
}

#[derive(Clone, Copy, Default)]
struct Process {
    is_alive: bool,
    parent: Option<usize>,
    files: [Option<Mode>; NR_SLOTS],
    /// Lengths of mappings. 0 means no mapping.
    maps: [u64; NR_MAPS],
}

struct Generator {
    random: Random,
    kinds: Vec<(Kind, u64)>,
    outside_percent: u64,
    direct_percent: u64,
    processes: [Process; NR_PROCESSES],
    lines: Vec<String>,
}

/// Returns the schedule of a seed.
pub(super) fn schedule(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let kinds = KINDS.iter().filter(|(_, _, percent)| random.percent(*percent));
    let mut kinds: Vec<_> = kinds.map(|&(kind, weight, _)| (kind, weight)).collect();
    let has = |kinds: &[(Kind, u64)], kind| kinds.iter().any(|&(known, _)| known == kind);
    // For reserved but unwritten blocks, the kernel's holes depend on cached pages.
    if has(&kinds, Kind::Holes) {
        kinds.retain(|&(kind, _)| !matches!(kind, Kind::Allocate | Kind::Map));
    }
    if !has(&kinds, Kind::Map) {
        kinds.retain(|&(kind, _)| !matches!(kind, Kind::Memory | Kind::Given));
    }
    let outside_percent = random.one_of(&[0, 0, 2, 12]);
    let direct_percent = random.one_of(&[0, 0, 10, 40]);
    let processes =
        std::array::from_fn(|nth| Process { is_alive: nth <= OUTSIDE, ..Process::default() });
    let lines = Vec::new();
    let mut generator =
        Generator { random, kinds, outside_percent, direct_percent, processes, lines };
    generator.begin();
    let nr_operations = generator.random.one_of(&[60, 150, 300, 300, 600]);
    while generator.lines.len() < nr_operations {
        generator.step();
    }
    generator.end();
    generator.lines
}

impl Generator {
    fn has(&self, kind: Kind) -> bool {
        self.kinds.iter().any(|&(known, _)| known == kind)
    }

    fn begin(&mut self) {
        let memory = self.random.one_of(&["64K", "256K", "256K", "1M", "8M"]);
        self.lines.push(format!("- memory {memory}"));
        for name in &NAMES[..4] {
            let length = self.random.one_of(&[0, 10, 5000, 100_000, 140_000, 200_000, 400_000]);
            let seed = self.random.below(1000);
            self.lines.push(format!("- file {name} {length} {seed}"));
        }
    }

    /// Reads the position, the length and the following bytes of every descriptor.
    fn end(&mut self) {
        for process in 0..NR_PROCESSES {
            for slot in 0..NR_SLOTS {
                if self.processes[process].is_alive && self.processes[process].files[slot].is_some()
                {
                    self.lines.push(format!("{process} seek {slot} 0 1"));
                    self.lines.push(format!("{process} fstat {slot}"));
                    self.lines.push(format!("{process} read {slot} 50000"));
                }
            }
        }
    }

    fn step(&mut self) {
        let process = self.any_process();
        let total: u64 = self.kinds.iter().map(|(_, weight)| weight).sum();
        let mut at = self.random.below(total);
        let chosen = self.kinds.iter().find(|(_, weight)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        let kind = chosen.map_or(Kind::Read, |&(kind, _)| kind);
        if let Some(operation) = self.operation(process, kind) {
            let may_thread = !matches!(kind, Kind::Fork | Kind::Exec | Kind::Apart);
            let thread = if may_thread && self.random.percent(5) { "t:" } else { "" };
            let line = if kind == Kind::Apart {
                format!("0|1|2 {operation}")
            } else {
                format!("{process} {thread}{operation}")
            };
            self.lines.push(line);
        }
    }

    fn any_process(&mut self) -> usize {
        if self.random.percent(self.outside_percent) {
            return OUTSIDE;
        }
        loop {
            let process = self.random.below(NR_PROCESSES as u64) as usize;
            if process != OUTSIDE && self.processes[process].is_alive {
                return process;
            }
        }
    }

    fn operation(&mut self, process: usize, kind: Kind) -> Option<String> {
        Some(match kind {
            Kind::Open => self.open(process),
            Kind::Close => self.close(process),
            Kind::Read => self.read(process),
            Kind::Write => self.write(process),
            Kind::Seek => self.seek(process),
            Kind::Look => self.look(process),
            Kind::Duplicate => self.duplicate(process),
            Kind::Flags => self.flags(process),
            Kind::Length => self.length(process),
            Kind::Holes => self.holes(process),
            Kind::Allocate => self.allocate(process),
            Kind::Sync => self.sync(process),
            Kind::Advise => self.advise(process),
            Kind::Names => self.names(),
            Kind::Copy => self.copy(process),
            Kind::Splice => self.splice(process),
            Kind::Lock => self.lock(process),
            Kind::Flock => {
                format!("flock {} {}", self.file(process), self.random.one_of(&["r", "w", "u"]))
            }
            Kind::Map => self.map(process),
            Kind::Memory => self.memory(process),
            Kind::Given => self.given(process),
            Kind::Threads => self.threads(process),
            Kind::Apart => {
                let slot = self.writable(process);
                format!("apart {slot} {} {} {}", self.random.below(9000), self.place(), self.seed())
            }
            Kind::Fork => return self.fork_or_exit(process),
            Kind::Exec => {
                self.processes[process].maps = [0; NR_MAPS];
                "exec".to_owned()
            }
            Kind::Shell => {
                format!("shell {} {} word{}", self.name(), self.name(), self.random.below(9))
            }
        })
    }

    // ---- arguments ----

    fn name(&mut self) -> &'static str {
        self.random.one_of(NAMES)
    }

    fn seed(&mut self) -> u64 {
        self.random.below(100_000)
    }

    /// Returns a slot, most often one with a file.
    fn file(&mut self, process: usize) -> usize {
        self.slot(process, |file| file.is_some())
    }

    fn free(&mut self, process: usize) -> usize {
        self.slot(process, |file| file.is_none())
    }

    fn readable(&mut self, process: usize) -> usize {
        self.slot(process, |file| file.is_some_and(|mode| mode != Mode::Writes))
    }

    fn writable(&mut self, process: usize) -> usize {
        self.slot(process, |file| file.is_some_and(|mode| mode != Mode::Reads))
    }

    fn slot(&mut self, process: usize, is_wanted: impl Fn(Option<Mode>) -> bool) -> usize {
        let files = self.processes[process].files;
        let wanted: Vec<_> = (0..NR_SLOTS).filter(|&slot| is_wanted(files[slot])).collect();
        if wanted.is_empty() || self.random.percent(4) {
            return self.random.below(NR_SLOTS as u64) as usize;
        }
        self.random.one_of(&wanted)
    }

    /// Returns a mapping and the mapping's length. Most often the mapping exists.
    fn mapping(&mut self, process: usize) -> (usize, u64) {
        let maps = self.processes[process].maps;
        let wanted: Vec<_> = (0..NR_MAPS).filter(|&map| maps[map] > 0).collect();
        if wanted.is_empty() {
            return (self.random.below(NR_MAPS as u64) as usize, 1);
        }
        let map = self.random.one_of(&wanted);
        (map, maps[map])
    }

    /// Returns an offset.
    fn place(&mut self) -> u64 {
        match self.random.below(12) {
            0 => 0,
            1..=3 => (self.random.below(80) * 4096 + self.random.below(5)).saturating_sub(2),
            4..=6 => self.random.below(20_000),
            7..=10 => self.random.below(250_000),
            _ => self.random.below(1_000_000),
        }
    }

    fn len(&mut self) -> u64 {
        match self.random.below(12) {
            0 => self.random.below(3),
            1..=3 => self.random.below(200),
            4 => 4096,
            5..=7 => self.random.below(9000),
            8 => 4096 * self.random.below(20) + self.random.below(3),
            9..=10 => self.random.below(70_000),
            _ => self.random.below(300_000),
        }
    }

    /// Returns an offset, or -1 for the position.
    fn place_or_position(&mut self) -> i64 {
        if self.random.percent(40) { -1 } else { self.place() as i64 }
    }

    fn page(&mut self) -> u64 {
        self.random.below(40) * 4096
    }

    // ---- operations ----

    fn open(&mut self, process: usize) -> String {
        // Slots fill up at first. Later opens replace files.
        let is_free = self.random.percent(75);
        let slot = if is_free { self.free(process) } else { self.file(process) };
        let mut flags = String::from(self.random.one_of(&["r", "r", "w", "+", "+", "+", "+"]));
        let is_outside = process == OUTSIDE;
        let reads_only = flags == "r";
        let mut add = |generator: &mut Self, letter: char, percent: u64| {
            if generator.random.percent(percent) {
                flags.push(letter);
            }
        };
        add(self, 'c', 50);
        add(self, 'x', 3);
        // In calls.md: a truncation by an outside open for reading may not be noticed.
        let keeps_private = self.has(Kind::Map) && !self.has(Kind::Length);
        add(self, 't', if is_outside && reads_only || keeps_private { 0 } else { 6 });
        // O_DIRECT and O_APPEND together need an aligned end of the file.
        let direct = self.direct_percent;
        let is_direct = self.random.percent(direct);
        add(self, 'd', if is_direct { 100 } else { 0 });
        add(self, 'a', if is_direct { 0 } else { 15 });
        add(self, 'e', 20);
        add(self, 's', 3);
        add(self, 'y', 3);
        // In calls.md: an outside open with O_NONBLOCK does not wait.
        add(self, 'n', if is_outside { 0 } else { 5 });
        add(self, 'f', 5);
        add(self, 'm', 2);
        add(self, 'D', 1);
        add(self, 'P', 2);
        add(self, '@', 20);
        let mode = match &flags[..1] {
            "r" => Mode::Reads,
            "w" => Mode::Writes,
            _ => Mode::Both,
        };
        if self.random.percent(2) {
            self.processes[process].files[slot] = Some(Mode::Both);
            return format!("open {slot} . +T");
        }
        self.processes[process].files[slot] = Some(mode);
        format!("open {slot} {} {flags}", self.name())
    }

    fn close(&mut self, process: usize) -> String {
        let slot = self.file(process);
        self.processes[process].files[slot] = None;
        if self.random.percent(10) {
            // With locks, a run's descriptors may have other numbers.
            let has_locks = self.kinds.iter().any(|&(kind, _)| kind == Kind::Lock);
            let nr_more = if has_locks { 0 } else { self.random.below(3) };
            return format!("closerange {slot} {nr_more} {}", self.random.below(2));
        }
        format!("close {slot}")
    }

    fn read(&mut self, process: usize) -> String {
        let (slot, len) = (self.readable(process), self.len());
        let nr = 1 + self.random.below(5);
        match self.random.below(9) {
            0..=2 => format!("read {slot} {len}"),
            3..=5 => format!("pread {slot} {len} {}", self.place()),
            6 => format!("readv {slot} {len} {nr}"),
            7 => format!("preadv {slot} {len} {} {nr}", self.place()),
            _ => format!("preadv2 {slot} {len} {} {nr}", self.place_or_position()),
        }
    }

    fn write(&mut self, process: usize) -> String {
        let (slot, len, seed) = (self.writable(process), self.len(), self.seed());
        let nr = 1 + self.random.below(5);
        match self.random.below(9) {
            0..=2 => format!("write {slot} {len} {seed}"),
            3..=5 => format!("pwrite {slot} {len} {} {seed}", self.place()),
            6 => format!("writev {slot} {len} {seed} {nr}"),
            7 => format!("pwritev {slot} {len} {} {seed} {nr}", self.place()),
            _ => {
                let flags = self.random.one_of(&["-", "-", "a", "s", "y", "as"]);
                format!("pwritev2 {slot} {len} {} {seed} {nr} {flags}", self.place_or_position())
            }
        }
    }

    fn seek(&mut self, process: usize) -> String {
        let slot = self.file(process);
        match self.random.below(6) {
            0..=2 => format!("seek {slot} {} 0", self.place()),
            3 => format!("seek {slot} {} 1", self.random.below(10_000) as i64 - 5000),
            4 => format!("seek {slot} 0 1"),
            _ => format!("seek {slot} -{} 2", self.random.below(5000)),
        }
    }

    fn look(&mut self, process: usize) -> String {
        let slot = self.file(process);
        match self.random.below(6) {
            0..=1 => format!("fstat {slot}"),
            2 => format!("stat {} {}", self.name(), self.random.below(2)),
            3 => format!("statx {slot}"),
            _ => format!("seek {slot} 0 {}", 1 + self.random.below(2)),
        }
    }

    fn duplicate(&mut self, process: usize) -> String {
        let from = self.file(process);
        let to = self.free(process);
        let mode = self.processes[process].files[from];
        match self.random.below(4) {
            0 => {
                let to = self.file(process);
                self.processes[process].files[to] = mode;
                format!("dup2 {from} {to}")
            }
            1 => {
                let to = self.file(process);
                self.processes[process].files[to] = mode;
                format!("dup3 {from} {to} {}", self.random.below(2))
            }
            kind => {
                self.processes[process].files[to] = mode;
                if kind == 2 {
                    return format!("dup {from} {to}");
                }
                format!("dupfd {from} {to} {} {}", self.random.below(40), self.random.below(2))
            }
        }
    }

    fn flags(&mut self, process: usize) -> String {
        let slot = self.file(process);
        match self.random.below(4) {
            0..=1 => format!("getfl {slot}"),
            2 => format!("setfl {slot} {}", self.random.one_of(&["-", "a", "n", "m"])),
            _ => format!("setfd {slot} {}", self.random.below(2)),
        }
    }

    fn length(&mut self, process: usize) -> String {
        let length = self.place();
        if self.random.percent(35) {
            return format!("trunc {} {length}", self.name());
        }
        format!("ftrunc {} {length}", self.writable(process))
    }

    fn holes(&mut self, process: usize) -> String {
        let slot = self.writable(process);
        if self.random.percent(50) {
            return format!("holes {slot} {}", self.place());
        }
        // In calls.md: a partly punched page is data.
        format!("falloc {slot} p {} {}", self.page(), 4096 * (1 + self.random.below(10)))
    }

    fn allocate(&mut self, process: usize) -> String {
        let (slot, mode) =
            (self.writable(process), self.random.one_of(&["-", "k", "z", "zk", "p"]));
        format!("falloc {slot} {mode} {} {}", self.place(), self.len())
    }

    fn sync(&mut self, process: usize) -> String {
        let slot = self.file(process);
        match self.random.below(4) {
            0..=1 => format!("sync {slot}"),
            2 => format!("dsync {slot}"),
            _ => format!("range {slot} {} {}", self.place(), self.len()),
        }
    }

    fn advise(&mut self, process: usize) -> String {
        let slot = self.file(process);
        if self.random.percent(30) {
            return format!("ahead {slot} {} {}", self.place(), self.len());
        }
        format!("advise {slot} {} {} {}", self.place(), self.len(), self.random.below(7))
    }

    fn names(&mut self) -> String {
        let (one, other) = (self.name(), self.name());
        match self.random.below(7) {
            0..=2 => format!("rename {one} {other} {}", self.random.one_of(&["-", "-", "n", "x"])),
            3..=4 => format!("link {one} {other}"),
            5 => format!("unlink {one}"),
            _ => format!("symlink {one} {other}"),
        }
    }

    fn copy(&mut self, process: usize) -> String {
        let (to, from, len) = (self.writable(process), self.readable(process), self.len());
        let (one, other) = (self.place_or_position(), self.place_or_position());
        let name = self.random.one_of(&["sendfile", "copy"]);
        format!("{name} {to} {from} {len} {one} {other}")
    }

    fn splice(&mut self, process: usize) -> String {
        let (from, to) = (self.readable(process), self.writable(process));
        let (len, offset) = (self.len(), self.place_or_position());
        match self.random.below(3) {
            0 => format!("splicefrom {from} {len} {offset}"),
            1 => format!("spliceto {to} {len} {offset} {}", self.seed()),
            _ => format!("sendpipe {from} {len} {offset}"),
        }
    }

    fn lock(&mut self, process: usize) -> String {
        let slot = self.slot(process, |file| file == Some(Mode::Both));
        let start = self.random.below(50);
        let len = self.random.one_of(&[0, 1, 10, 30]);
        let sort = self.random.one_of(&["p", "p", "o"]);
        let kind = self.random.one_of(&["r", "w", "w", "u"]);
        match self.random.below(8) {
            0..=4 => format!("lock {slot} {sort} {kind} {start} {len} {}", self.random.below(3)),
            5..=6 => format!("getlock {slot} {sort} w {start} {len}"),
            _ => format!("lockf {slot} {} {len}", self.random.one_of(&["w", "u", "t"])),
        }
    }

    fn map(&mut self, process: usize) -> String {
        let slot = self.slot(process, |file| file == Some(Mode::Both));
        let map = self.random.below(NR_MAPS as u64) as usize;
        let len = 1 + self.place();
        if self.processes[process].files[slot].is_some() {
            self.processes[process].maps[map] = len;
        }
        let protection = self.random.one_of(&["r", "r", "rw", "rw", "rw", "-"]);
        // In calls.md: bytes stored to a private mapping stay after the file is truncated.
        let is_cut = self.has(Kind::Length);
        let flags = if is_cut {
            self.random.one_of(&["s", "sf"])
        } else {
            self.random.one_of(&["s", "s", "p", "sf", "pf"])
        };
        let offset = if self.random.percent(70) { 0 } else { self.page() };
        format!("map {map} {slot} {offset} {len} {protection} {flags}")
    }

    fn memory(&mut self, process: usize) -> String {
        if self.processes[process].maps == [0; NR_MAPS] {
            return self.map(process);
        }
        let (map, map_len) = self.mapping(process);
        let end = map_len + map_len / 20 + 1;
        let from = self.random.below(end);
        let page = self.random.below(end) & !4095;
        let len = self.len();
        match self.random.below(20) {
            0..=6 => format!("load {map} {from} {len}"),
            7..=12 => format!("store {map} {from} {len} {}", self.seed()),
            13 => format!("storetogether {map} {from} {len} {}", self.seed()),
            14 => format!(
                "protect {map} {page} {len} {}",
                self.random.one_of(&["r", "rw", "rw", "-"])
            ),
            15..=16 => format!("msync {map} {page} {len} {}", self.random.one_of(&["s", "a", "i"])),
            // MADV_NORMAL to MADV_DONTNEED.
            17 => format!("madvise {map} {page} {len} {}", self.random.below(5)),
            18 => {
                let (flags, len) = (self.random.one_of(&["-", "f"]), 1 + self.place());
                self.processes[process].maps[map] = len;
                format!("remap {map} {len} {flags}")
            }
            _ if self.random.percent(40) => {
                self.processes[process].maps[map] = 0;
                format!("unmap {map} 0 2000000")
            }
            _ => format!("unmap {map} {page} {len}"),
        }
    }

    fn given(&mut self, process: usize) -> String {
        if self.processes[process].maps == [0; NR_MAPS] {
            return self.map(process);
        }
        let (map, map_len) = self.mapping(process);
        let (from, len) = (self.random.below(map_len), self.len());
        let offset = self.place_or_position();
        if self.random.percent(50) {
            return format!("readinto {} {map} {from} {len} {offset}", self.readable(process));
        }
        format!("writefrom {} {map} {from} {len} {offset}", self.writable(process))
    }

    fn threads(&mut self, process: usize) -> String {
        if self.random.percent(30) {
            return format!("opentogether {}", self.place());
        }
        let (slot, len) = (self.writable(process), self.len());
        format!("together {slot} {len} {} {}", self.place(), self.seed())
    }

    fn fork_or_exit(&mut self, process: usize) -> Option<String> {
        let has_children =
            self.processes.iter().any(|one| one.is_alive && one.parent == Some(process));
        if process > OUTSIDE && !has_children && self.random.percent(60) {
            self.processes[process].is_alive = false;
            return Some(format!("exit {}", self.random.one_of(&["q", "k", "x"])));
        }
        let child = (OUTSIDE + 1..NR_PROCESSES).find(|&one| !self.processes[one].is_alive)?;
        // A child of the outside process would also be outside.
        if process == OUTSIDE {
            return None;
        }
        self.processes[child] = Process { parent: Some(process), ..self.processes[process] };
        Some(format!("fork {child}"))
    }
}
