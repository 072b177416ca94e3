//! A file is ours or the kernel's, and what changes hands is whole: a client by hand, programs
//! outside as they are.

use super::client::{Client, Opened, Reached, Service};
use pagetide::Bytes;
use pagetide_run::wire::{CHUNK_BYTES, Op, Reason, Request, Status};
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

struct Setting {
    service: Service,
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn setting(contents: &[u8]) -> Setting {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, contents).unwrap();
    Setting { service: Service::new(Bytes(4 << 20)), _folder: folder, path }
}

fn opened(client: &Client, setting: &Setting, flags: OFlags) -> Opened {
    client.open(&setting.path, flags).expect("the temporary folder has leases")
}

fn ours<T>(reached: Reached<T>) -> T {
    match reached {
        Reached::Ours(value) => value,
        Reached::Kernel(_) => panic!("the kernel has it"),
    }
}

fn kernels<T>(reached: Reached<T>) -> fs::File {
    match reached {
        Reached::Ours(_) => panic!("it is ours still"),
        Reached::Kernel(file) => file,
    }
}

#[test]
fn a_reader_outside_sees_what_was_written_at_once() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    let file = opened(&client, &setting, OFlags::RDWR);
    assert_eq!(ours(client.write(&file, Op::WriteAt, 200_000, b"inside", 1)), (200_000, 6));
    let seen = fs::read(&setting.path).unwrap();
    assert_eq!((&seen[200_000..200_006], seen.len()), (&b"inside"[..], 300_000));
    // From here on the kernel has it, for all.
    let outside = OpenOptions::new().write(true).open(&setting.path).unwrap();
    outside.write_all_at(b"OUT", 200_000).unwrap();
    let real = kernels(client.read_at(&file, 200_000, 6));
    let mut bytes = [0; 6];
    real.read_exact_at(&mut bytes, 200_000).unwrap();
    assert_eq!(&bytes, b"OUTide");
    let reasons: Vec<_> = setting.service.server.handed_over().filter(|(_, nr)| *nr > 0).collect();
    assert_eq!(reasons, [(Reason::Outside, 1)]);
}

#[test]
fn a_file_that_changed_hands_keeps_position_and_flags() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    let file = opened(&client, &setting, OFlags::RDWR | OFlags::APPEND);
    ours(client.write(&file, Op::Write, 0, b"0123456789", 1));
    drop(fs::File::open(&setting.path).unwrap());
    let mut real = kernels(client.read_at(&file, 0, 1));
    assert_eq!(real.stream_position().unwrap(), 300_010);
    real.seek(SeekFrom::Start(5)).unwrap();
    real.write_all(b"end").unwrap();
    assert_eq!(fs::read(&setting.path).unwrap().len(), 300_013);
}

#[test]
fn readers_outside_go_with_readers_inside() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    let file = opened(&client, &setting, OFlags::RDONLY);
    assert_eq!(ours(client.read_at(&file, 0, 10)), [b'a'; 10]);
    assert_eq!(fs::read(&setting.path).unwrap().len(), 300_000);
    assert_eq!(ours(client.read_at(&file, 5, 10)), [b'a'; 10]);
    // A writer does not.
    OpenOptions::new().write(true).open(&setting.path).unwrap().write_all_at(b"b", 5).unwrap();
    let real = kernels(client.read_at(&file, 5, 10));
    let mut byte = [0];
    real.read_exact_at(&mut byte, 5).unwrap();
    assert_eq!(&byte, b"b");
}

#[test]
fn a_file_that_is_open_outside_is_left_to_the_kernel_until_it_is_closed() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    let outside = OpenOptions::new().write(true).open(&setting.path).unwrap();
    assert!(client.open(&setting.path, OFlags::RDONLY).is_none());
    drop(outside);
    assert!(client.open(&setting.path, OFlags::RDWR).is_some());
}

#[test]
fn what_changed_outside_between_two_opens_is_seen() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    for round in 0..20_u8 {
        let file = opened(&client, &setting, OFlags::RDONLY);
        let expected = if round == 0 { b'a' } else { round - 1 };
        assert_eq!(ours(client.read_at(&file, 7, 1)), [expected]);
        client.close(file);
        // The same length, and perhaps in the same tick of the clock.
        let outside = OpenOptions::new().write(true).open(&setting.path).unwrap();
        outside.write_all_at(&[round], 7).unwrap();
    }
}

#[test]
fn a_reader_and_a_writer_inside_share_the_pages() {
    let setting = setting(&[b'a'; 300_000]);
    let (one, other) = (Client::new(&setting.service), Client::new(&setting.service));
    let reader = opened(&one, &setting, OFlags::RDONLY);
    assert_eq!(ours(one.read_at(&reader, 9, 1)), b"a");
    let writer = opened(&other, &setting, OFlags::RDWR);
    ours(other.write(&writer, Op::WriteAt, 9, b"b", 1));
    assert_eq!(ours(one.read_at(&reader, 9, 1)), b"b");
    other.close(writer);
    assert_eq!(ours(one.read_at(&reader, 9, 1)), b"b");
}

#[test]
fn a_stand_in_is_recognised_by_a_process_that_does_not_know_it() {
    let setting = setting(&[b'a'; 300_000]);
    let (parent, child) = (Client::new(&setting.service), Client::new(&setting.service));
    let file = opened(&parent, &setting, OFlags::RDWR);
    let inherited = file.stand_in.try_clone().unwrap();
    let id = file.id;
    let adopted = |from: &Client, stand_in: &std::os::fd::OwnedFd| {
        let (reply, _, _) = from.ask(&Request::new(Op::Adopt, 0), &[], &[stand_in.as_fd()]);
        (reply.status, reply.result)
    };
    assert_eq!(adopted(&child, &inherited), (Status::Done, id as i64));
    parent.close(file);
    let file = Opened { id, stand_in: inherited };
    assert_eq!(ours(client_append(&child, &file)), (300_000, 4));
    let mut options = OpenOptions::new();
    let own = options.read(true).custom_flags(OFlags::PATH.bits() as i32).open(&setting.path);
    let own = own.unwrap().into();
    assert_eq!(adopted(&child, &own), (Status::Stranger, 0));
}

fn client_append(client: &Client, file: &Opened) -> Reached<(u64, usize)> {
    client.write(file, Op::Append, 0, b"more", 1)
}

#[test]
fn a_writer_that_dies_between_two_packets_has_written_the_first() {
    let setting = setting(b"");
    let dying = Client::new(&setting.service);
    let file = opened(&dying, &setting, OFlags::RDWR);
    let source = vec![b'x'; 5 * CHUNK_BYTES];
    let (_, written) = ours(dying.write(&file, Op::Write, 0, &source, 2));
    assert_eq!(written, 2 * CHUNK_BYTES);
    drop(dying);
    let next = Client::new(&setting.service);
    let file = opened(&next, &setting, OFlags::RDWR);
    // Behind what was written, with no hole between.
    assert_eq!(ours(client_append(&next, &file)), (2 * CHUNK_BYTES as u64, 4));
    next.close(file);
    let bytes = fs::read(&setting.path).unwrap();
    assert_eq!(bytes.len(), 2 * CHUNK_BYTES + 4);
    assert!(bytes[..2 * CHUNK_BYTES].iter().all(|byte| *byte == b'x'));
}

#[test]
fn the_kernel_knows_the_length_at_any_time() {
    let setting = setting(b"");
    let client = Client::new(&setting.service);
    let file = opened(&client, &setting, OFlags::RDWR);
    for len in [1_usize, 4096, 70_000, 130_000, 131_073, 900_000, 5_000_000] {
        ours(client.write(&file, Op::WriteAt, len as u64 - 1, b"e", 1));
        assert_eq!(fs::metadata(&setting.path).unwrap().len(), len as u64);
    }
    ours(client.plain(&file, Request { len: 12, ..Request::new(Op::SetLen, 0) }));
    assert_eq!(fs::metadata(&setting.path).unwrap().len(), 12);
    client.close(file);
    let mut text = Vec::new();
    fs::File::open(&setting.path).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!(text, b"e\0\0\0\0\0\0\0\0\0\0\0"[..12].to_vec());
}

#[test]
fn the_last_close_leaves_the_file_alone() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    let file = opened(&client, &setting, OFlags::RDWR);
    ours(client.write(&file, Op::WriteAt, 300_000, &[b'b'; 100_000], 1));
    assert_eq!(client.close(file), 0);
    let metadata = fs::metadata(&setting.path).unwrap();
    assert_eq!(metadata.len(), 400_000);
    // No blocks ahead are left, and no lease: an open that must not wait goes through.
    use std::os::unix::fs::MetadataExt;
    assert!(metadata.blocks() * 512 < 400_000 + (64 << 10), "{} blocks", metadata.blocks());
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(&setting.path).unwrap();
}

#[test]
fn a_made_file_is_ours_from_the_start() {
    let setting = setting(b"");
    let client = Client::new(&setting.service);
    let path = setting.path.with_extension("new");
    let file = client.create(&path).expect("the temporary folder has leases");
    ours(client.write(&file, Op::Write, 0, b"new", 1));
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_description_does_no_more_than_it_was_opened_for() {
    let setting = setting(&[b'a'; 300_000]);
    let client = Client::new(&setting.service);
    let file = opened(&client, &setting, OFlags::RDONLY);
    let writer = opened(&client, &setting, OFlags::RDWR);
    let (reply, _, _) = client.ask(
        &Request { len: u64::MAX, total: 3, ..Request::new(Op::WriteAt, file.id) },
        b"bad",
        &[],
    );
    assert_eq!(reply.result, -i64::from(rustix::io::Errno::BADF.raw_os_error()));
    // The descriptor of ours can write: a reader does not get it.
    let (reply, _, files) = client.ask(&Request::new(Op::Lend, file.id), &[], &[]);
    assert_eq!((reply.result, files.len()), (0, 0));
    let (reply, _, files) = client.ask(&Request::new(Op::Lend, writer.id), &[], &[]);
    assert_eq!((reply.result & 1, files.len()), (1, 1));
}

#[test]
fn nothing_is_written_by_the_descriptors_of_frames() {
    let setting = setting(b"");
    let client = Client::new(&setting.service);
    let (reply, _, files) = client.ask(&Request::new(Op::Share, 0), &[], &[]);
    assert_eq!((reply.result, files.len()), (1024, 5));
    for file in &files[..2] {
        // Opened to be read only: neither does the kernel map it to be written.
        assert_eq!(rustix::io::pwrite(file, b"x", 0), Err(rustix::io::Errno::BADF));
        let mode = rustix::fs::fstat(file).unwrap().st_mode & 0o777;
        assert_eq!(mode, 0o400, "no other user opens it to be written");
    }
}
