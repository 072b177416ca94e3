"""A stream's next readahead window begins at the read of its marker, before the reader waits.
Prints ok at the end."""
import os
import time

PAGE = 4096
server = os.getppid()


def nr_read():
    """Bytes that the server has asked of the device."""
    with open("/proc/%d/io" % server) as counts:
        return next(int(line.split()[1]) for line in counts if line.startswith("read_bytes"))


def read_and_await(page, window):
    """Reads a page that is there; the server goes and reads the next window."""
    before = nr_read()
    assert len(os.pread(fd, PAGE, page * PAGE)) == PAGE
    deadline = time.monotonic() + 300
    while nr_read() < before + window * PAGE:
        assert time.monotonic() < deadline, (page, nr_read() - before)


fd = os.open("a", os.O_RDONLY)
# Four pages with the marker in the second, sixteen with the marker in their first, and so on.
os.pread(fd, PAGE, 0)
for marker, window in [(1, 16), (4, 64), (20, 128)]:
    os.pread(fd, PAGE, (marker - 1) * PAGE)
    read_and_await(marker, window)
print("ok")
