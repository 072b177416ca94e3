"""A full disk: the program gets the error, and writes with room continue. Prints ok."""
import errno
import os
import sys

small = sys.argv[1]
PAGE = 4096


def fill():
    """Writes more than there is room for; returns what was said, or None."""
    fd = os.open(small + "/big", os.O_RDWR | os.O_CREAT)
    said = None
    try:
        for page in range(1024):
            os.pwrite(fd, b"x" * PAGE, page * PAGE)
        os.fsync(fd)
    except OSError as error:
        said = error.errno
    try:
        os.close(fd)
    except OSError as error:
        said = said or error.errno
    return said


assert fill() == errno.ENOSPC
# Other files are unharmed.
other = os.open("other", os.O_RDWR | os.O_CREAT)
for page in range(200):
    os.pwrite(other, bytes([page]) * PAGE, page * PAGE)
os.fsync(other)
assert all(os.pread(other, PAGE, page * PAGE) == bytes([page]) * PAGE for page in range(200))
# With room again, the same file is writable.
os.truncate(small + "/big", 0)
fd = os.open(small + "/big", os.O_RDWR)
os.write(fd, b"again" * 1000)
os.fsync(fd)
assert os.pread(fd, 5, 0) == b"again"
os.close(fd)
print("ok")
