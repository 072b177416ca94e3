//! A seeded simulation: processes of two runs and one outside execute random operations on a few
//! files, compared with an in-memory twin. Some processes are killed, also during long writes.
//!
//! ```text
//!   seed --> operation --> an agent: inside (three processes), another run, outside
//!                |             | answer
//!                `--> twin ----'--> equal byte by byte, or the seed is printed
//! ```
//!
//! Ignored: operations without a unique correct order. Concurrent writes touch different bytes.

mod twin;

use super::agents::{Agent, Answer, Tree, literal};
use super::{folder, has, is_long};
use std::path::Path;
use std::process::Command;
use twin::{Access, Twin};

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }

    /// Returns an offset that is often near a page or packet boundary.
    fn place(&mut self, end: usize) -> usize {
        let border = [1, 512, 4096, 65_536, 131_072][self.below(5)];
        let near = self.below(end) / border * border + self.below(3);
        if self.below(2) == 0 { self.below(end) } else { near.saturating_sub(1).min(end - 1) }
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let first = self.below(256) as u8;
        (0..count).map(|at| first.wrapping_add((at % 253) as u8)).collect()
    }
}

struct Client {
    agent: Agent,
    descriptors: Vec<(i64, usize)>,
    /// True in the run that may lose processes.
    is_forked: bool,
}

struct Simulation<'a> {
    here: &'a Path,
    random: Random,
    twin: Twin,
    clients: Vec<Client>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Long enough for evictions under a limit of 512 KiB.
const LENGTH_MAX: usize = 900_000;

impl Simulation<'_> {
    fn step(&mut self) {
        let client = self.random.below(self.clients.len());
        if self.clients[client].descriptors.is_empty() {
            return self.open(client);
        }
        match self.random.below(32) {
            0..3 => self.open(client),
            3 => self.close(client),
            4 => self.duplicate(client),
            5 => self.fork(client),
            6 => self.kill(client),
            7..13 => self.read(client),
            13..20 => self.write(client),
            20 => self.seek(client),
            21..23 => self.cut(client),
            23 => self.allocate(client),
            24 => self.map(client),
            25 => self.by_name(client),
            26 => self.replace(client),
            27 => self.sync(client),
            _ => self.all_at_once(),
        }
    }

    fn compare(&mut self, client: usize, expression: &str, expected: Answer) {
        let agent = &mut self.clients[client].agent;
        let shown: String = expression.chars().take(90).collect();
        println!("{}: {shown}", agent.name());
        let answer = agent.ask(expression);
        if answer != expected {
            let short = |answer: &Answer| match answer {
                Ok(text) if text.len() > 60 => format!("{} digits", text.len()),
                other => format!("{other:?}"),
            };
            let differs = match (&answer, &expected) {
                (Ok(left), Ok(right)) => left.bytes().zip(right.bytes()).position(|(l, r)| l != r),
                _ => None,
            };
            let (answer, expected) = (short(&answer), short(&expected));
            panic!("{shown}: {answer}, expected {expected}, digit {differs:?} is another");
        }
    }

    fn descriptor(&mut self, client: usize) -> (i64, usize) {
        let all = &self.clients[client].descriptors;
        all[self.random.below(all.len())]
    }

    fn open(&mut self, client: usize) {
        let name = NAMES[self.random.below(NAMES.len())];
        let access = [Access::Read, Access::Write, Access::Both][self.random.below(3)];
        let appends = self.random.below(4) == 0;
        let cuts = access != Access::Read && self.random.below(8) == 0;
        let mut flags = match access {
            Access::Read => "O_RDONLY",
            Access::Write => "O_WRONLY",
            Access::Both => "O_RDWR",
        }
        .to_owned();
        for (is_given, flag) in
            [(appends, " | O_APPEND"), (cuts, " | O_TRUNC"), (true, " | O_CREAT")]
        {
            flags += if is_given { flag } else { "" };
        }
        println!("{}: open {name} {flags}", self.clients[client].agent.name());
        let descriptor = self.clients[client].agent.open(name, &flags);
        let description = self.twin.open(name, access, appends, cuts);
        self.clients[client].descriptors.push((descriptor, description));
    }

    fn close(&mut self, client: usize) {
        let descriptors = &mut self.clients[client].descriptors;
        let (descriptor, _) = descriptors.swap_remove(self.random.below(descriptors.len()));
        self.compare(client, &format!("os.close({descriptor})"), Ok("None".into()));
    }

    fn duplicate(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        let new = self.clients[client].agent.number(&format!("os.dup({descriptor})"));
        self.clients[client].descriptors.push((new, description));
    }

    fn fork(&mut self, client: usize) {
        if self.clients.len() < 7 {
            let parent = &mut self.clients[client];
            let name = format!("{} forked", parent.agent.name());
            println!("{name}");
            let agent = parent.agent.fork(&name);
            let descriptors = parent.descriptors.clone();
            self.clients.push(Client { agent, descriptors, is_forked: true });
        }
    }

    /// Kills during a write half of the time. The file then has a prefix of the write.
    fn kill(&mut self, client: usize) {
        if !self.clients[client].is_forked {
            return;
        }
        let (descriptor, description) = self.descriptor(client);
        let mut victim = self.clients.swap_remove(client);
        let id = victim.agent.value("os.getpid()");
        let count = 1 + self.random.below(LENGTH_MAX / 2);
        let name = self.twin.name_of(description).filter(|_| self.twin.may_write(description));
        let name = name.filter(|_| self.random.below(2) == 0);
        println!("{}: killed, amid a write of {count} to {name:?}", victim.agent.name());
        let bytes = self.random.bytes(count);
        if name.is_some() {
            victim.agent.value(&format!("globals().update(late={})", literal(&bytes)));
            victim.agent.tell(&format!("os.write({descriptor}, late)"));
        }
        assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
        while victim.agent.answer("killed").is_some() {}
        if let Some(name) = name {
            let seen = std::fs::read(self.here.join(name)).unwrap();
            let position = self.position_of(description);
            self.twin.write_partly(description, &bytes, &seen, position);
        }
    }

    fn position_of(&mut self, description: usize) -> Option<usize> {
        self.clients.iter_mut().find_map(|client| {
            let own = client.descriptors.iter().find(|(_, own)| *own == description)?;
            Some(client.agent.number(&format!("os.lseek({}, 0, os.SEEK_CUR)", own.0)) as usize)
        })
    }

    fn read(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        let count = 1 + self.random.place(200_000);
        if self.random.below(2) == 0 {
            let expected = self.twin.read(description, count);
            self.compare(client, &format!("os.read({descriptor}, {count})"), expected);
        } else {
            let at = self.random.place(LENGTH_MAX);
            let expected = self.twin.read_at(description, count, at);
            self.compare(client, &format!("os.pread({descriptor}, {count}, {at})"), expected);
        }
    }

    fn write(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        let end = [200_000, 9000][self.random.below(4).min(1)];
        let count = 1 + self.random.place(end);
        let bytes = self.random.bytes(count);
        let text = literal(&bytes);
        if self.random.below(2) == 0 {
            let expected = self.twin.write(description, &bytes);
            self.compare(client, &format!("os.write({descriptor}, {text})"), expected);
        } else {
            let at = self.random.place(LENGTH_MAX - count);
            let expected = self.twin.write_at(description, &bytes, at);
            self.compare(client, &format!("os.pwrite({descriptor}, {text}, {at})"), expected);
        }
    }

    fn seek(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        let (whence, by) = match self.random.below(3) {
            0 => ("SET", self.random.place(LENGTH_MAX)),
            1 => ("CUR", self.random.below(5000)),
            _ => ("END", 0),
        };
        let expected = self.twin.seek(description, whence, by);
        let expression = format!("os.lseek({descriptor}, {by}, os.SEEK_{whence})");
        self.compare(client, &expression, expected);
    }

    fn cut(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        let length = self.random.place(LENGTH_MAX / 2);
        if self.random.below(2) == 0 {
            let expected = self.twin.set_len(description, length);
            self.compare(client, &format!("os.ftruncate({descriptor}, {length})"), expected);
        } else {
            let name = NAMES[self.random.below(NAMES.len())];
            self.twin.file(name).resize(length, 0);
            let expression = format!("os.truncate({name:?}, {length})");
            self.compare(client, &expression, Ok("None".into()));
        }
    }

    fn allocate(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        // Allocation, allocation without length, a hole, zeros.
        let mode = [0, 1, 3, 16][self.random.below(4)];
        let at = self.random.place(LENGTH_MAX / 2);
        let count = 1 + self.random.place(LENGTH_MAX / 4);
        let expected = self.twin.allocate(description, mode, at, count);
        let expression = format!("fallocate({descriptor}, {mode}, {at}, {count})");
        self.compare(client, &expression, expected);
    }

    fn map(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        let length = self.twin.len(description);
        if length < 10 || self.twin.access(description) == Access::Write {
            return;
        }
        let at = self.random.place(length - 9);
        if self.twin.access(description) == Access::Both && self.random.below(2) == 0 {
            self.twin.write_at_anyway(description, b"mapped", at);
            let expression = format!("map_write({descriptor}, b'mapped', {at})");
            self.compare(client, &expression, Ok("None".into()));
        } else {
            let expected = self.twin.read_at(description, 9, at);
            self.compare(client, &format!("map_read({descriptor}, 9, {at})"), expected);
        }
    }

    fn by_name(&mut self, client: usize) {
        let name = NAMES[self.random.below(NAMES.len())];
        if self.random.below(2) == 0 {
            let expected = twin::hex(self.twin.file(name));
            self.compare(client, &format!("contents({name:?})"), Ok(expected));
        } else {
            let count = 1 + self.random.below(200);
            let bytes = self.random.bytes(count);
            self.twin.file(name).extend(&bytes);
            let expression = format!("append({name:?}, {})", literal(&bytes));
            self.compare(client, &expression, Ok(bytes.len().to_string()));
        }
    }

    /// Processes keep the old file open.
    fn replace(&mut self, client: usize) {
        let name = NAMES[self.random.below(NAMES.len())];
        let count = self.random.place(300_000);
        let bytes = self.random.bytes(count);
        let agent = &mut self.clients[client].agent;
        println!("{}: replace {name}", agent.name());
        agent.value(&format!("append('new', {})", literal(&bytes)));
        agent.value(&format!("os.rename('new', {name:?})"));
        self.twin.replace(name, bytes);
    }

    fn sync(&mut self, client: usize) {
        let (descriptor, description) = self.descriptor(client);
        self.compare(client, &format!("os.fsync({descriptor})"), Ok("None".into()));
        let length = self.twin.len(description).to_string();
        self.compare(client, &format!("os.fstat({descriptor}).st_size"), Ok(length));
    }

    /// Writes adjacent ranges by all clients at the same time.
    fn all_at_once(&mut self) {
        let start = self.random.place(LENGTH_MAX / 2);
        let width = 1 + self.random.place(20_000);
        let mut told = Vec::new();
        for client in 0..self.clients.len() {
            if self.clients[client].descriptors.is_empty() {
                continue;
            }
            let (descriptor, description) = self.descriptor(client);
            if !self.twin.may_write(description) || self.twin.appends(description) {
                continue;
            }
            let at = start + client * width;
            let bytes = self.random.bytes(width);
            self.twin.write_at_anyway(description, &bytes, at);
            let expression = format!("os.pwrite({descriptor}, {}, {at})", literal(&bytes));
            self.clients[client].agent.tell(&expression);
            told.push(client);
        }
        println!("{} write {width} bytes each from {start}", told.len());
        for client in told {
            let answer = self.clients[client].agent.answer("a write");
            assert_eq!(answer, Some(Ok(width.to_string())));
        }
    }

    fn compare_files(&mut self) {
        for name in NAMES {
            let seen = std::fs::read(self.here.join(name)).unwrap();
            let expected = self.twin.file(name);
            let differs = seen.iter().zip(expected.iter()).position(|(seen, own)| seen != own);
            let lengths = (seen.len(), expected.len());
            assert!(seen == *expected, "{name}: lengths {lengths:?}, byte {differs:?} is another");
        }
    }
}

fn simulate(seed: u64, nr_steps: usize) {
    println!("PAGETIDE_SEED={seed} cargo test -p pagetide-cli --test run simulation");
    let here = folder();
    let mut twin = Twin::default();
    for name in NAMES {
        std::fs::write(here.path().join(name), b"").unwrap();
        twin.replace(name, Vec::new());
    }
    let trees = [
        Tree::under_run(here.path(), "512K", "inside"),
        Tree::under_run(here.path(), "512K", "another"),
        Tree::outside(here.path(), "outside"),
    ];
    let mut all = Vec::new();
    let client = |(tree, agent)| {
        all.push(tree);
        Client { agent, descriptors: Vec::new(), is_forked: false }
    };
    let clients = trees.into_iter().map(client).collect();
    let random = Random::new(seed);
    let mut simulation = Simulation { here: here.path(), random, twin, clients };
    simulation.fork(0);
    simulation.fork(0);
    for step in 0..nr_steps {
        simulation.step();
        if step % 64 == 63 {
            simulation.compare_files();
        }
    }
    simulation.compare_files();
    simulation.clients.clear();
    for tree in all {
        tree.finish();
    }
}

#[test]
fn random_clients_see_what_a_twin_sees() {
    if !has("python3", "random_clients_see_what_a_twin_sees") {
        return;
    }
    let given = std::env::var("PAGETIDE_SEED").ok().and_then(|seed| seed.parse().ok());
    let (nr_seeds, nr_steps) = if is_long() { (300, 1500) } else { (4, 300) };
    match given {
        Some(seed) => simulate(seed, 1500),
        None => (1..=nr_seeds).for_each(|seed| simulate(seed, nr_steps)),
    }
}
