"""Uses descriptors after close_range has refused its flags."""
import ctypes
import os

EINVAL = 22
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("file", os.O_RDWR | os.O_CREAT)
os.write(fd, b"here")
assert libc.close_range(fd, fd, 1 << 7) == -1 and ctypes.get_errno() == EINVAL
assert os.pread(fd, 4, 0) == b"here"
os.close(fd)
print("ok")
