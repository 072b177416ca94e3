//! Raw page numbers without any header or separator. The format must be named, because any bytes
//! fit.

use super::input::Input;
use super::{AccessKind, Format, Request, Source, TraceError};

pub(super) struct Raw {
    input: Input,
    format: Format,
}

impl Raw {
    pub(super) fn new(input: Input, format: Format) -> Raw {
        Raw { input, format }
    }
}

impl Source for Raw {
    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        let input = &mut self.input;
        // A negative number keeps its bits, which identify a page just as well.
        let word = match self.format {
            Format::U32Le => input.read_record()?.map(|word| u32::from_le_bytes(word).into()),
            Format::I32Be => input.read_record()?.map(|word| u32::from_be_bytes(word).into()),
            Format::I64Be => input.read_record()?.map(u64::from_be_bytes),
            _ => input.read_record()?.map(u64::from_le_bytes),
        };
        Ok(word.map(|word| match self.format {
            Format::U64LeRw if word & 1 == 1 => Request::page(word >> 1, AccessKind::TableWrite),
            Format::U64LeRw => Request::page(word >> 1, AccessKind::Table),
            _ => Request::page(word, AccessKind::Read),
        }))
    }
}
