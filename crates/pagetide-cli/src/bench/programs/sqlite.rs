//! The sqlite shell: point queries in a database larger than memory.

use super::super::{Bench, Row};
use super::program::{Program, output_of};
use super::turns::Work;
use super::{BENCH, FILE_TIMES, SQLITE};
use crate::failure::Failure;
use pagetide_core::units::Bytes;
use std::process::Command;

pub(super) const SHELL: &str = "sqlite3";
/// What the sqlite shell takes beside its database, by fio's measure: 2.3 MiB and the kernel's
/// 2.4 MiB.
pub(super) const SHELL_BYTES: u64 = 5 << 20;

/// The row of a query.
///
/// # Errors
/// A refusal (disk, cgroup), a program that fails, an interrupt.
pub(super) fn measure(bench: &Bench<'_>, memory: Bytes) -> Result<Row, Failure> {
    let folder = crate::dataset::make_folder(&bench.args.dir)?;
    let database = folder.path().join("bench.db");
    // About a page each.
    let nr_rows = memory.0 * FILE_TIMES / 4096;
    let make = format!(
        "pragma journal_mode=off; pragma synchronous=off; create table t(a integer primary key, \
         b blob); with recursive n(i) as (select 1 union all select i + 1 from n where i < \
         {nr_rows}) insert into t select i, randomblob(3900) from n;"
    );
    let made = output_of(Command::new(SHELL).arg(&database).arg(make), bench.interrupt)?;
    if !made.status.success() {
        let status = made.status;
        return Err(Failure::Refused(format!("sqlite3 could not make a database: {status}")));
    }
    let nr_queries = if bench.args.quick { 2_000 } else { 40_000 };
    let queries = folder.path().join("queries.sql");
    // Every query a row by chance, the same for subject and reference.
    let mut state = 1_u64;
    let mut text = String::new();
    for _ in 0..nr_queries {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!(
            "select length(b) from t where a={};\n",
            1 + (state >> 33) % nr_rows
        ));
    }
    std::fs::write(&queries, text).map_err(|error| Failure::on_path("write", &queries, &error))?;
    let read = format!(".read {}", queries.display());
    let arguments = vec![SHELL.into(), database.clone().into_os_string(), read.into()];
    let program = Program { bench, memory, beside: SHELL_BYTES, arguments };
    let work = Work { program, file: &database };
    let expected = nr_queries as usize;
    work.row((BENCH, SQLITE, 1), |printed, seconds| {
        (printed.lines().count() == expected).then_some(seconds * 1e9 / expected as f64)
    })
}
