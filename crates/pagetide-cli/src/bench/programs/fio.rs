//! fio's cases: random and sequential reads of one file.

use super::super::{Bench, Row};
use super::program::{PROGRAM_BYTES_MIN, Program};
use super::turns::Work;
use super::{BENCH, FILE_TIMES};
use crate::failure::Failure;
use pagetide_core::units::Bytes;
use std::ffi::OsString;
use std::path::Path;

/// fio's memory beside its file, measured in the cgroup of fio 3.33 with one or two jobs: 5.2 MiB
/// `rss` and 2.2 MiB `shmem` in `memory.stat`, and 1.6 MiB `memory.kmem.usage_in_bytes`.
const FIO_BYTES: u64 = 9_400 << 10;

pub(super) fn measure(
    bench: &Bench<'_>,
    memory: Bytes,
    cases: &[(&'static str, u32)],
) -> Result<Vec<Row>, Failure> {
    let (_folder, data) = bench.make_file(&bench.args.dir, Bytes(memory.0 * FILE_TIMES))?;
    let fio = Fio { bench, memory, file: &data.path };
    cases.iter().map(|&(case, jobs)| fio.measure(case, jobs)).collect()
}

struct Fio<'a> {
    bench: &'a Bench<'a>,
    memory: Bytes,
    file: &'a Path,
}

impl Fio<'_> {
    fn measure(&self, case: &str, jobs: u32) -> Result<Row, Failure> {
        let whole = self.memory.0 * FILE_TIMES;
        let quarter = Bytes((self.memory.0 / 4).max(PROGRAM_BYTES_MIN));
        let part = whole.min(quarter.0 * FILE_TIMES);
        let zipf = |timed: String| format!("--random_distribution=zipf:0.8 {timed}");
        let work = match case {
            "zipf" => self.random(self.memory, whole, jobs, &zipf(self.timed(0, 8000))),
            "warm" => self.random(quarter, part, jobs, &zipf(self.timed(6000, 4000))),
            // 49,152 misses at 512M, of 70 to 100 us each.
            "resident" => {
                self.random(self.memory, self.memory.0 / 8 * 3, jobs, &self.timed(7000, 2000))
            }
            "stream" => self.whole("sync"),
            _ => self.whole("psync"),
        };
        // Sequential cases count KiB, random cases count reads.
        let number = if matches!(case, "seq" | "stream") { "bw" } else { "iops" };
        work.row((BENCH, case, jobs), |printed, _| Some(1e9 / read_fio(printed, number)?))
    }

    fn random(&self, memory: Bytes, len: u64, jobs: u32, more: &str) -> Work<'_> {
        let common = "--ioengine=psync --rw=randread --bs=4k --time_based";
        self.work(memory, &format!("{common} --size={len} --numjobs={jobs} {more}"))
    }

    fn whole(&self, engine: &str) -> Work<'_> {
        let len = self.memory.0 * FILE_TIMES;
        self.work(self.memory, &format!("--ioengine={engine} --rw=read --bs=128k --size={len}"))
    }

    /// Options for warm-up and run time.
    fn timed(&self, ramp: u64, run: u64) -> String {
        let [ramp, run] = [ramp, run].map(|full| self.bench.duration(full).as_millis());
        format!("--ramp_time={ramp}ms --runtime={run}ms")
    }

    fn work(&self, memory: Bytes, more: &str) -> Work<'_> {
        let common = format!(
            "fio --name=bench --thread --group_reporting --randrepeat=0 --invalidate=0 \
             --output-format=json {more}"
        );
        let mut arguments: Vec<OsString> = common.split_whitespace().map(OsString::from).collect();
        let mut name = OsString::from("--filename=");
        name.push(self.file);
        arguments.push(name);
        let program =
            Program { bench: self.bench, memory, beside: FIO_BYTES, nr_mappings: 0, arguments };
        Work { program, file: self.file }
    }
}

pub(crate) fn read_fio(printed: &str, name: &str) -> Option<f64> {
    // Skips warnings.
    let document = &printed[printed.find('{')?..];
    let mut documents = serde_json::Deserializer::from_str(document).into_iter();
    let document: serde_json::Value = documents.next()?.ok()?;
    document["jobs"][0]["read"][name].as_f64().filter(|number| *number > 0.0)
}
