"""Fills a small disk in every way, and prints each result. Arguments: folder, turn.

Accepted data is stored. The call that needs room is refused, and later calls (fsync, close)
succeed."""
import errno
import os
import sys
import time

place = sys.argv[1]
PAGE = 4096
PATIENCE = 60


def attempt(act, *arguments):
    try:
        return act(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def fill(name, chunk, call, flags=0):
    """Writes until something is refused; all that was accepted must be there."""
    fd = os.open(os.path.join(place, name), os.O_RDWR | os.O_CREAT | os.O_TRUNC | flags, 0o600)
    expected = bytearray()
    refused = None
    for turn in range(1 << 20):
        text = bytes([turn % 251]) * chunk
        done = attempt(call, fd, text, len(expected))
        if isinstance(done, str):
            refused = done
            break
        expected += text[:done]
    assert refused == "ENOSPC", refused
    assert os.fstat(fd).st_size == len(expected), (os.fstat(fd), len(expected))
    synced = attempt(os.fsync, fd)
    assert synced is None, "fsync: %s" % synced
    assert os.pread(fd, len(expected) + 1, 0) == expected, "what is there"
    assert attempt(os.close, fd) is None, "close"
    with open(os.path.join(place, name), "rb") as file:
        assert file.read() == expected, "what is there later"
    return len(expected)


def at_position(fd, text, length):
    return os.write(fd, text)


def at_place(fd, text, length):
    return os.pwrite(fd, text, length)


def fill_holes():
    """A length without room behind it: writes into it want room one by one."""
    name = os.path.join(place, "holes")
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, 64 << 20)
    written = 0
    for page in range(16 << 10):
        done = attempt(os.pwrite, fd, b"h" * PAGE, page * PAGE)
        if isinstance(done, str):
            assert done == "ENOSPC", done
            break
        written += done // PAGE
    assert written < 16 << 10
    assert attempt(os.close, fd) is None, "close"
    with open(name, "rb") as file:
        for page in range(written):
            assert file.read(PAGE) == b"h" * PAGE, page
        assert file.read(PAGE) == bytes(PAGE)


def nr_free():
    return os.statvfs(place).f_bavail


def wait_for_free(nr_blocks):
    """Waits for free blocks. A journal commit frees the blocks of deleted files."""
    folder = os.open(place, os.O_RDONLY)
    end = time.monotonic() + PATIENCE
    while nr_free() < nr_blocks:
        assert time.monotonic() < end, (nr_free(), nr_blocks)
        os.fsync(folder)
        time.sleep(0.001)
    os.close(folder)


def make_room():
    for name in os.listdir(place):
        if os.path.isfile(os.path.join(place, name)):
            os.unlink(os.path.join(place, name))
    # The folder may have grown by some blocks.
    wait_for_free(nr_free_at_first - 8)


nr_free_at_first = nr_free()
sizes = []
for chunk in (1000, PAGE, 60000, 3 << 20):
    for call, flags in ((at_position, 0), (at_position, os.O_APPEND), (at_place, 0)):
        make_room()
        sizes.append(fill("big", chunk, call, flags))
make_room()
fill_holes()
# Other programs have made room: new writes are stored, and no older data returns.
make_room()
filler = fill("filler", 60000, at_position)
fd = os.open(os.path.join(place, "late"), os.O_RDWR | os.O_CREAT, 0o600)
old = attempt(os.write, fd, b"old" * 40000)
attempt(os.close, fd)
os.unlink(os.path.join(place, "filler"))
wait_for_free(nr_free_at_first // 2)
fd = os.open(os.path.join(place, "late"), os.O_RDWR | os.O_TRUNC)
os.write(fd, b"new" * 40000)
os.close(fd)
print(*sizes)
