//! `bench run` with memcached, its values in a mapped file (`-e`) larger than memory.
//!
//! ```text
//!   memcached-even   2x memory in values of 2000 bytes   gets of uniform keys
//!   memcached-zipf   4x memory                           gets of keys by zipf 0.99
//! ```
//!
//! The subject runs under `run --mmap cache`, by each policy. *linux* is the kernel's mapping in a
//! cgroup of the same limit. The load (`memcached-load`) counts against the same limit. It sets all
//! keys, then times batched random gets after a warm-up and checks each value. The cgroup gets its
//! limit after the sets, because 8 MiB of readahead around each evicted page would take minutes.
//!
//! Ignored: memcached's expiry threads, and several workers.

use super::super::{Bench, Row};
use super::BENCH;
use super::contest::{self, Turn};
use super::program::{LINUX, PROGRAM_BYTES_MIN, Program, Under, why_not_mapped};
use crate::cgroup;
use crate::dataset::make_folder;
use crate::failure::Failure;
use crate::machine;
use crate::pages::{PagePicker, Shuffle, Skew};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const CASES: [&str; 2] = ["memcached-even", "memcached-zipf"];
pub(crate) const LOAD: &str = "memcached-load";
const POLICIES: [PolicyName; 3] =
    [PolicyName::Mglru, PolicyName::ActiveInactive, PolicyName::Pagetide];
const START: &str = "memcached -u \"$(id -un)\" -t 1 -m \"$2\" -e \"$1/items\" -s \"$1/socket\" & \
                     m=$!; shift 2; \"$0\" \"$@\"; s=$?; kill $m; wait $m; exit $s";
/// Bytes beside the file, as for fio. memcached-even still runs at 64 MiB.
const BESIDE: u64 = 12 << 20;

const VALUE_BYTES: u64 = 2000;
/// The maximum of an item in bytes, as size classes grow by a quarter.
const ITEM_BYTES: u64 = 2400;
/// Keys per get, like `--pipeline 8` of the published memcached test.
const NR_AT_ONCE: usize = 8;

/// Sets and gets values of a memcached; `bench run` starts itself this way.
#[derive(Debug, clap::Args)]
pub(crate) struct MemcachedLoadArgs {
    socket: PathBuf,
    nr_items: u32,
    /// Time of gets; a third as long before that.
    millis: u64,
    #[arg(long)]
    zipf: bool,
    /// Bytes that its cgroup may have from the gets on.
    #[arg(long)]
    limit: Option<u64>,
}

/// Runs only named cases: they are slow.
pub(super) fn run(bench: &Bench<'_>, memory: Bytes) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let memory = Bytes((memory.0 / 8).max(PROGRAM_BYTES_MIN));
    for case in CASES.into_iter().filter(|case| bench.is_named(case)) {
        rows.extend(match why_not_mapped(memory, "memcached") {
            Some(why) => vec![Row::skipped((BENCH, case, 1), LINUX, why)],
            None => measure(bench, memory, case)?,
        });
    }
    Ok(rows)
}

fn measure(bench: &Bench<'_>, memory: Bytes, case: &'static str) -> Result<Vec<Row>, Failure> {
    let is_zipf = case == "memcached-zipf";
    let len = Bytes(memory.0 * if is_zipf { 4 } else { 2 });
    machine::check_disk(&bench.args.dir, len)?;
    let names = if bench.args.policy.is_empty() { &POLICIES[..] } else { &bench.args.policy };
    let nr_items = len.0 / ITEM_BYTES;
    let turn = |under| {
        let folder = make_folder(&bench.args.dir)?;
        let mut arguments = command(bench, folder.path(), len, nr_items, is_zipf)?;
        if under == Under::Linux(LINUX) {
            arguments.push(format!("--limit={}", memory.0 + BESIDE).into());
        }
        let program = Program { bench, memory, beside: BESIDE + len.0, nr_mappings: 1, arguments };
        let ran = program.run(under, None)?;
        Ok(Turn { ns: read_ns(&ran.printed)?, device_read: None })
    };
    contest::rows(bench, (case, 1), names, &[LINUX], &turn)
}

fn command(
    bench: &Bench<'_>,
    folder: &Path,
    len: Bytes,
    nr_items: u64,
    is_zipf: bool,
) -> Result<Vec<OsString>, Failure> {
    let own = machine::own_executable()?;
    let mut arguments: Vec<OsString> = vec!["sh".into(), "-c".into(), START.into(), own.into()];
    // In MiB, with one for each size class.
    let room = (len.0 >> 20) + 64;
    arguments.extend([folder.into(), room.to_string().into(), LOAD.into()]);
    let millis = bench.duration(600).as_millis();
    arguments.push(folder.join("socket").into());
    arguments.extend([nr_items.to_string(), millis.to_string()].map(OsString::from));
    arguments.extend(is_zipf.then(|| "--zipf".into()));
    Ok(arguments)
}

fn read_ns(printed: &str) -> Result<f64, Failure> {
    let ns = printed.lines().last().and_then(|line| line.parse().ok());
    ns.ok_or_else(|| Failure::Refused(format!("cannot make sense of: {printed}")))
}

/// Prints the nanoseconds per get.
pub(crate) fn load(args: &MemcachedLoadArgs) -> Result<(), Failure> {
    let refuse = |error| Failure::on_path("load memcached by", &args.socket, &error);
    let socket = connect(&args.socket).map_err(refuse)?;
    let mut client = Client { answers: BufReader::new(socket), line: String::new() };
    for key in 0..args.nr_items {
        client.set(key).map_err(refuse)?;
    }
    // The answer follows all sets.
    client.get(&[0]).map_err(refuse)?;
    if let Some(limit) = args.limit {
        rustix::fs::sync();
        let limited = cgroup::limit_own_group(Bytes(limit));
        limited.map_err(|error| Failure::on("limit the cgroup", &error))?;
    }
    let shuffle = Shuffle::new(args.nr_items, 1);
    let skew = if args.zipf { Skew::Zipf(0.99) } else { Skew::Uniform };
    let mut picker = PagePicker::new(&shuffle, skew, 2);
    let mut keys = [0; NR_AT_ONCE];
    let mut get_for = |time: Duration| -> Result<f64, Failure> {
        let (start, mut nr) = (Instant::now(), 0);
        while start.elapsed() < time {
            keys.fill_with(|| picker.pick());
            client.get(&keys).map_err(refuse)?;
            nr += keys.len();
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / nr as f64)
    };
    let time = Duration::from_millis(args.millis);
    get_for(time / 3)?;
    println!("{}", get_for(time)?);
    Ok(())
}

fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Err(_) if began.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected,
        }
    }
}

struct Client {
    answers: BufReader<UnixStream>,
    line: String,
}

impl Client {
    fn set(&mut self, key: u32) -> std::io::Result<()> {
        let text = format!("set {key} 0 0 {VALUE_BYTES} noreply\r\n{}\r\n", value_of(key));
        self.answers.get_mut().write_all(text.as_bytes())
    }

    fn get(&mut self, keys: &[u32]) -> std::io::Result<()> {
        let asked: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
        self.answers.get_mut().write_all(asked.as_bytes())?;
        for key in keys {
            self.expect(&format!("VALUE {key} 0 {VALUE_BYTES}\r\n"))?;
            let mut value = [0; VALUE_BYTES as usize];
            self.answers.read_exact(&mut value)?;
            if value != *value_of(*key).as_bytes() {
                return Err(std::io::Error::other(format!("the value of {key} is another")));
            }
            self.expect("\r\n")?;
            self.expect("END\r\n")?;
        }
        Ok(())
    }

    fn expect(&mut self, answer: &str) -> std::io::Result<()> {
        self.line.clear();
        self.answers.read_line(&mut self.line)?;
        match self.line == answer {
            true => Ok(()),
            false => Err(std::io::Error::other(format!("{:?}, not {answer:?}", self.line))),
        }
    }
}

fn value_of(key: u32) -> String {
    format!("{key:020}").repeat(VALUE_BYTES as usize / 20)
}
