//! The table as a Parquet file.
//!
//! Shape: one row group, one column per field, zstd. Failed cells have null numbers. The message
//! below lists the columns and types.

use crate::row::Numbers;
use crate::table::TableRow;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "message sweep {
  required binary trace (UTF8);
  required binary group (UTF8);
  optional binary content (UTF8);
  required binary settings (UTF8);
  required binary version (UTF8);
  required binary policy (UTF8);
  required binary size (UTF8);
  optional int64 frames;
  optional int64 memory_bytes;
  optional int64 pages;
  optional int64 accesses;
  optional int64 misses;
  optional double miss_ratio;
  optional int64 device_read_bytes;
  optional int64 evictions;
  optional int64 refaults;
  optional int64 activations;
  optional double seconds;
  optional binary error (UTF8);
}";

/// The file could not be written, see the cause.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the table as Parquet")]
pub struct WriteTableError {
    #[from]
    source: ParquetError,
}

/// A column's values, in the schema's order.
enum Values<'a> {
    Text(fn(&TableRow) -> &str),
    TextOrNone(fn(&TableRow) -> Option<&str>),
    Count(&'a dyn Fn(&Numbers) -> u64),
    Real(&'a dyn Fn(&Numbers) -> f64),
}

/// Writes the table to `out`.
///
/// # Errors
/// Fails if `out` refuses.
pub fn write_table(rows: &[TableRow], out: impl Write + Send) -> Result<(), WriteTableError> {
    let columns: [Values<'_>; 19] = [
        Values::Text(|row| &row.trace),
        Values::Text(|row| &row.group),
        Values::TextOrNone(|row| row.content.as_deref()),
        Values::Text(|row| &row.settings),
        Values::Text(|row| row.version),
        Values::Text(|row| row.policy),
        Values::Text(|row| &row.size),
        Values::Count(&|it| it.frames.into()),
        Values::Count(&Numbers::memory_bytes),
        Values::Count(&|it| it.pages),
        Values::Count(&|it| it.accesses),
        Values::Count(&|it| it.misses),
        Values::Real(&Numbers::miss_ratio),
        Values::Count(&|it| it.device_read_bytes),
        Values::Count(&|it| it.evictions),
        Values::Count(&|it| it.refaults),
        Values::Count(&|it| it.activations),
        Values::Real(&|it| it.seconds),
        Values::TextOrNone(|row| row.error.as_deref()),
    ];
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut file = SerializedFileWriter::new(out, schema, properties)?;
    let mut group = file.next_row_group()?;
    for values in columns {
        write_column(&mut group, rows, &values)?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[TableRow],
    values: &Values<'_>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let numbers = || rows.iter().filter_map(|row| row.numbers.as_ref());
    let has_numbers: Vec<i16> = rows.iter().map(|row| row.numbers.is_some().into()).collect();
    match (values, column.untyped()) {
        (Values::Text(text), ColumnWriter::ByteArrayColumnWriter(to)) => {
            let texts: Vec<ByteArray> = rows.iter().map(|row| text(row).into()).collect();
            to.write_batch(&texts, None, None)?;
        }
        (Values::TextOrNone(text), ColumnWriter::ByteArrayColumnWriter(to)) => {
            let texts: Vec<ByteArray> =
                rows.iter().filter_map(|row| Some(text(row)?.into())).collect();
            let there: Vec<i16> = rows.iter().map(|row| text(row).is_some().into()).collect();
            to.write_batch(&texts, Some(&there), None)?;
        }
        (Values::Count(count), ColumnWriter::Int64ColumnWriter(to)) => {
            let counts: Vec<i64> =
                numbers().map(|it| i64::try_from(count(it)).unwrap_or(i64::MAX)).collect();
            to.write_batch(&counts, Some(&has_numbers), None)?;
        }
        (Values::Real(real), ColumnWriter::DoubleColumnWriter(to)) => {
            let reals: Vec<f64> = numbers().map(real).collect();
            to.write_batch(&reals, Some(&has_numbers), None)?;
        }
        _ => return Err(ParquetError::General("a column is not of its schema's type".to_owned())),
    }
    column.close()
}
