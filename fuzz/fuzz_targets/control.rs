//! What is asked over a cache's socket, from any bytes: each request is read or refused, and what
//! was read is said again in one line that means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagetide::control::ControlRequest;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = ControlRequest::decode(bytes) {
        let line = request.encode();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(ControlRequest::decode(&line), Ok(request));
    }
});
