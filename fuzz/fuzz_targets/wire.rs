//! What `pagetide run` and its programs say to each other, from any bytes: each decoder reads them
//! or refuses them, and what was read gives the same bytes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagetide_run::wire::{
    Greeting, RECORD_BYTES, REPLY_BYTES, REQUEST_BYTES, Reply, Request, TOUCH_BYTES, TOUCH_MAX,
    decode_records, decode_small_files, decode_touches, encode_touch,
};

fuzz_target!(|bytes: &[u8]| {
    if let Some(greeting) = Greeting::decode(bytes) {
        assert_eq!(greeting.encode()[..], *bytes);
    }
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(request.encode()[..], bytes[..REQUEST_BYTES]);
        records(&bytes[REQUEST_BYTES..], request.len);
        decode_small_files(&bytes[REQUEST_BYTES..]).for_each(drop);
        touches(&bytes[REQUEST_BYTES..]);
    }
    if let Some(reply) = Reply::decode(bytes) {
        // The upper half of the last word is not read.
        assert_eq!(reply.encode()[..REPLY_BYTES - 4], bytes[..REPLY_BYTES - 4]);
    }
});

/// The records are at the front, at most as many as there are bytes for. The log is the rest.
fn records(data: &[u8], nr: u64) {
    let (records, log) = decode_records(data, nr);
    let front = &data[..data.len() - log.len()];
    let encoded: Vec<_> = records.flat_map(|record| record.encode()).collect();
    assert_eq!(encoded, front);
    assert!((front.len() / RECORD_BYTES) as u64 <= nr);
}

/// All entries but for their number of pages, which has a most.
fn touches(log: &[u8]) {
    for (entry, (id, first, nr)) in log.chunks_exact(TOUCH_BYTES).zip(decode_touches(log)) {
        assert!(nr <= TOUCH_MAX);
        let encoded = encode_touch(id, first, nr);
        assert_eq!(encoded[..14], entry[..14]);
    }
}
