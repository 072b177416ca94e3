"""A disk whose requests fail when they are told to: one file, `disk`, of a FUSE file system, kept in
memory, to be had by a loop device.

    failing_disk.py FOLDER BYTES CONTROL

Mounts on FOLDER, prints a line once it is there, and serves until it is unmounted. CONTROL is a
file that is read before each request: words of `read` and `write`, which fail with EIO from then
on, where the disk has, or is to have, a page that begins with MAGIC.
"""

import ctypes
import errno
import os
import struct
import sys

MAGIC = b"this page can fail"
FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36
LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS = 1, 3, 4, 14, 15, 16, 17
RELEASE, FSYNC, FLUSH, INIT, OPENDIR, RELEASEDIR, DESTROY = 18, 20, 25, 26, 27, 29, 38
ROOT, DISK = 1, 2
DIRECT_IO = 1


def attributes(node, disk):
    mode, size = (0o040755, 0) if node == ROOT else (0o100600, len(disk))
    times = [0] * 6
    return struct.pack("<6Q10I", node, size, size // 512, *times[:3], *times[3:], mode, 1, 0, 0, 0, 4096, 0)


def fails(what, control, bytes_):
    with open(control) as file:
        is_told = what in file.read().split()
    return is_told and any(bytes_[at:].startswith(MAGIC) for at in range(0, len(bytes_), 4096))


def answer(opcode, node, body, disk, control):
    """The bytes of the reply, or the error."""
    if opcode == INIT:
        flags = 0
        return struct.pack("<4I2H2I2HI7I", 7, 31, 0, flags, 16, 12, 1 << 17, 1, 32, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        if body.rstrip(b"\0") != b"disk":
            return errno.ENOENT
        return struct.pack("<4Q2I", DISK, 0, 3600, 3600, 0, 0) + attributes(DISK, disk)
    if opcode in (GETATTR, SETATTR):
        return struct.pack("<Q2I", 3600, 0, 0) + attributes(node, disk)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<Q2I", 0, DIRECT_IO, 0)
    if opcode == READ:
        _, at, len_ = struct.unpack_from("<QQI", body)
        bytes_ = bytes(disk[at:at + len_])
        return errno.EIO if fails("read", control, bytes_) else bytes_
    if opcode == WRITE:
        _, at, len_ = struct.unpack_from("<QQI", body)
        bytes_ = body[40:40 + len_]
        if fails("write", control, bytes_):
            return errno.EIO
        disk[at:at + len_] = bytes_
        return struct.pack("<2I", len_, 0)
    if opcode == STATFS:
        return struct.pack("<5Q4I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0) + bytes(24)
    if opcode in (RELEASE, RELEASEDIR, FSYNC, FLUSH, DESTROY):
        return b""
    return errno.ENOSYS


def main():
    folder, nr_bytes, control = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    disk = bytearray(nr_bytes)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"failing", folder.encode(), b"fuse", 0, options) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(fuse, 1 << 18)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        result = answer(opcode, node, request[40:], disk, control)
        error, data = (-result, b"") if isinstance(result, int) else (0, result)
        try:
            os.write(fuse, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
        except OSError as failed:
            # The asker has gone.
            if failed.errno != errno.ENOENT:
                raise


main()
