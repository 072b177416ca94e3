//! A few clients, the server and a program outside, in an order told by a seed, against a twin that
//! is a vector of bytes for each file.
//!
//! Judged after each step: what the step returned, and each file's length as the kernel has it; now
//! and then each byte of a file, read by a client or from outside; at the end all bytes, outside.
//! Clients die, also between two packets of a write. Not judged: times, permissions, two calls at
//! once (the tests of the command do that), power loss.
//!
//! `PAGETIDE_SEED` repeats one seed; `PAGETIDE_LONG=1` plays many.

use super::client::{Client, Opened, Reached, Service};
use pagetide::Bytes;
use pagetide_run::wire::{CHUNK_BYTES, Op, Reason, Request};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const NR_FILES: u64 = 3;
const NR_CLIENTS: u64 = 4;
const LEN_MAX: u64 = 700_000;
const NR_STEPS: usize = 1500;

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.next() as u8;
        (0..len).map(|at| first.wrapping_add((at / 7) as u8)).collect()
    }
}

/// What a client has of a file.
enum Held {
    Ours(Opened),
    Kernels(File),
}

struct Description {
    client: usize,
    file: usize,
    held: Option<Held>,
    position: u64,
    writes: bool,
    appends: bool,
}

struct World {
    clients: Vec<Client>,
    paths: Vec<PathBuf>,
    twins: Vec<Vec<u8>>,
    open: Vec<Description>,
    random: Random,
    /// Last, for it waits for the clients.
    service: Service,
}

impl World {
    fn new(folder: &Path, seed: u64) -> World {
        let service = Service::new(Bytes(1 << 20));
        let clients = (0..NR_CLIENTS).map(|_| Client::new(&service)).collect();
        let paths: Vec<_> = (0..NR_FILES).map(|nr| folder.join(format!("file{nr}"))).collect();
        paths.iter().for_each(|path| fs::write(path, b"").unwrap());
        let twins = vec![Vec::new(); NR_FILES as usize];
        World { clients, paths, twins, open: Vec::new(), random: Random(seed), service }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..4 => self.open_one(),
            4 => self.close_one(),
            5..10 => self.write_one(),
            10..14 => self.read_one(),
            14 => self.cut_one(),
            15 => self.write_outside(),
            16 => self.check_outside(),
            17 => self.hand_over_one(),
            18 if self.random.chance(4) => self.kill_a_client(),
            _ => self.read_one(),
        }
        for (path, twin) in self.paths.iter().zip(&self.twins) {
            assert_eq!(fs::metadata(path).unwrap().len(), twin.len() as u64, "{path:?}");
        }
    }

    fn open_one(&mut self) {
        let client = self.random.below(NR_CLIENTS) as usize;
        let file = self.random.below(NR_FILES) as usize;
        let writes = !self.random.chance(3);
        let appends = writes && self.random.chance(4);
        let truncates = writes && self.random.chance(12);
        let mut flags = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::APPEND, appends);
        flags.set(OFlags::TRUNC, truncates);
        let held = match self.clients[client].open(&self.paths[file], flags) {
            Some(opened) => Held::Ours(opened),
            None => {
                let opened = rustix::fs::open(&self.paths[file], flags, Mode::empty()).unwrap();
                Held::Kernels(File::from(opened))
            }
        };
        if truncates {
            self.twins[file].clear();
        }
        let held = Some(held);
        self.open.push(Description { client, file, held, position: 0, writes, appends });
    }

    fn pick(&mut self) -> Option<usize> {
        let nr = self.open.len() as u64;
        (nr > 0).then(|| self.random.below(nr) as usize)
    }

    fn close_one(&mut self) {
        let Some(one) = self.pick() else { return };
        let mut gone = self.open.swap_remove(one);
        if let Some(Held::Ours(opened)) = gone.held.take() {
            assert_eq!(self.clients[gone.client].close(opened), 0);
        }
    }

    fn write_one(&mut self) {
        let Some(one) = self.pick().filter(|one| self.open[*one].writes) else { return };
        let len = match self.random.below(4) {
            0 => 1 + self.random.below(100),
            1 | 2 => 1 + self.random.below(9000),
            _ => 1 + self.random.below(4 * CHUNK_BYTES as u64),
        };
        let source = self.random.bytes(len as usize);
        let op = [Op::Write, Op::WriteAt, Op::Append][self.random.below(3) as usize];
        let offset = self.random.below(LEN_MAX);
        let dies = self.random.chance(40);
        let nr_packets = if dies { 1 + self.random.below(2) as usize } else { usize::MAX };
        let description = &mut self.open[one];
        let twin_len = self.twins[description.file].len() as u64;
        let place = match op {
            Op::WriteAt if !description.appends => offset,
            Op::Write if !description.appends => description.position,
            _ => twin_len,
        };
        let client = &self.clients[description.client];
        let written = match description.held.take().expect("held between steps") {
            Held::Ours(opened) => match client.write(&opened, op, offset, &source, nr_packets) {
                Reached::Ours((base, written)) => {
                    assert_eq!(base, place);
                    description.held = Some(Held::Ours(opened));
                    written
                }
                Reached::Kernel(real) => {
                    description.held = Some(Held::Kernels(real));
                    return;
                }
            },
            Held::Kernels(real) => {
                real.write_all_at(&source, place).unwrap();
                description.held = Some(Held::Kernels(real));
                source.len()
            }
        };
        if op != Op::WriteAt {
            description.position = place + written as u64;
        }
        let client = description.client;
        let file = description.file;
        put(&mut self.twins[file], place, &source[..written]);
        if dies {
            self.kill(client);
        }
    }

    fn read_one(&mut self) {
        let Some(one) = self.pick() else { return };
        let (offset, len) = (self.random.below(LEN_MAX), 1 + self.random.below(60_000));
        let description = &mut self.open[one];
        let twin = &self.twins[description.file];
        let start = (offset as usize).min(twin.len());
        let expected = &twin[start..(start + len as usize).min(twin.len())];
        let client = &self.clients[description.client];
        if let Some(Held::Ours(opened)) = &description.held {
            match client.read_at(opened, offset, len as usize) {
                Reached::Ours(bytes) => assert!(bytes == expected, "{} at {offset}", one),
                Reached::Kernel(real) => description.held = Some(Held::Kernels(real)),
            }
        } else if let Some(Held::Kernels(real)) = &description.held {
            let mut bytes = vec![0; expected.len()];
            real.read_exact_at(&mut bytes, start as u64).unwrap();
            assert!(bytes == expected, "{} at {offset}, from the kernel", one);
        }
    }

    fn cut_one(&mut self) {
        let Some(one) = self.pick().filter(|one| self.open[*one].writes) else { return };
        let len = self.random.below(LEN_MAX);
        let description = &mut self.open[one];
        let client = &self.clients[description.client];
        match &description.held {
            Some(Held::Ours(opened)) => {
                match client.plain(opened, Request { len, ..Request::new(Op::SetLen, 0) }) {
                    Reached::Ours(result) => assert_eq!(result, 0),
                    Reached::Kernel(real) => {
                        description.held = Some(Held::Kernels(real));
                        return;
                    }
                }
            }
            Some(Held::Kernels(real)) => real.set_len(len).unwrap(),
            None => return,
        }
        self.twins[description.file].resize(len as usize, 0);
    }

    fn write_outside(&mut self) {
        let file = self.random.below(NR_FILES) as usize;
        let len = 1 + self.random.below(5000) as usize;
        let (offset, source) = (self.random.below(LEN_MAX), self.random.bytes(len));
        let outside = OpenOptions::new().write(true).open(&self.paths[file]).unwrap();
        outside.write_all_at(&source, offset).unwrap();
        put(&mut self.twins[file], offset, &source);
    }

    fn check_outside(&mut self) {
        let file = self.random.below(NR_FILES) as usize;
        assert!(fs::read(&self.paths[file]).unwrap() == self.twins[file], "file {file}, outside");
    }

    fn hand_over_one(&mut self) {
        let Some(one) = self.pick() else { return };
        let description = &mut self.open[one];
        if let Some(Held::Ours(opened)) = &description.held {
            let client = &self.clients[description.client];
            let flags = Reason::Mapped as u64;
            let one = Request { flags, ..Request::new(Op::HandOver, 0) };
            let Reached::Kernel(real) = client.plain(opened, one) else { panic!("it stayed") };
            description.held = Some(Held::Kernels(real));
        }
    }

    fn kill_a_client(&mut self) {
        let client = self.random.below(NR_CLIENTS) as usize;
        self.kill(client);
    }

    fn kill(&mut self, client: usize) {
        self.clients[client] = Client::new(&self.service);
        self.open.retain(|description| description.client != client);
    }
}

fn put(twin: &mut Vec<u8>, offset: u64, source: &[u8]) {
    let end = offset as usize + source.len();
    if twin.len() < end {
        twin.resize(end, 0);
    }
    twin[offset as usize..end].copy_from_slice(source);
}

fn play(seed: u64) {
    println!("PAGETIDE_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), seed);
    (0..NR_STEPS).for_each(|_| world.step());
    for (path, twin) in world.paths.iter().zip(&world.twins) {
        assert!(fs::read(path).unwrap() == *twin, "{path:?} at the end");
    }
}

#[test]
fn every_byte_is_right_whatever_the_order() {
    if let Some(seed) = std::env::var("PAGETIDE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return play(seed);
    }
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some();
    let nr_seeds = if is_long { 500 } else { 12 };
    (1..=nr_seeds).for_each(play);
}
