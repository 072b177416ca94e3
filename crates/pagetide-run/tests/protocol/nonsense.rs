//! What no library of ours sends: any bytes, any requests, any descriptors. The server stays there
//! for others, and does to no file what its sender could not.

use super::client::{Client, Reached, Service};
use pagetide::Bytes;
use pagetide_run::wire::{Op, REQUEST_BYTES, Request};
use proptest::prelude::*;
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};

/// The number of an operation, or of none.
fn op_number() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0..32_u64, 1 => any::<u64>()]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..5_u64, Just(u64::MAX), Just(1 << 43), Just(1 << 63), any::<u64>()]
}

/// A request's head, with any numbers.
fn head() -> impl Strategy<Value = Vec<u8>> {
    (op_number(), proptest::collection::vec(number(), 5)).prop_map(|(op, rest)| {
        let words = std::iter::once(op).chain(rest);
        words.flat_map(u64::to_le_bytes).collect()
    })
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let short = proptest::collection::vec(any::<u8>(), 0..REQUEST_BYTES);
    let data = proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![1 => short, 9 => (head(), data).prop_map(|(head, data)| [head, data].concat())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_server_that_was_sent_anything_still_serves(
        packets in proptest::collection::vec((packet(), 0..3_usize), 1..12),
    ) {
        let service = Service::new(Bytes(1 << 20));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let contents = vec![b'a'; 200_000];
        fs::write(&path, &contents).unwrap();
        let odd = Client::new(&service);
        // A name of the file, and one that can only be read: neither lets anything be written.
        let named = rustix::fs::open(&path, OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let read_only = File::open(folder.path()).unwrap();
        let files: [BorrowedFd<'_>; 2] = [named.as_fd(), read_only.as_fd()];
        for (packet, nr_files) in &packets {
            odd.send(packet, &[], &files[..*nr_files]);
        }
        drop(odd);
        let client = Client::new(&service);
        let opened = client.open(&path, OFlags::RDWR);
        let Some(opened) = opened else { return Ok(()) };
        prop_assert!(client.ask(&Request::new(Op::GetFlags, opened.id), &[], &[]).0.result >= 0);
        if let Reached::Ours(bytes) = client.read_at(&opened, 199_990, 100) {
            prop_assert!(bytes.len() <= 100);
        }
    }
}
