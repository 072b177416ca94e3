"""Opens files at numbers of earlier descriptors that were kept for record locks."""
import fcntl
import mmap
import os


def open_locked():
    fd = os.open("locked", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


with open("locked", "wb") as file:
    file.write(b"x" * 300000)
# The process has a lock on this file from here on, so its descriptors keep their numbers.
os.close(open_locked())
for turn in range(3):
    locked = open_locked()
    mmap.mmap(locked, 300000, prot=mmap.PROT_READ).close()
    os.close(locked)
    others = [os.open(f"other{n}", os.O_RDWR | os.O_CREAT) for n in range(12)]
    for other in others:
        os.write(other, b"written")
    for other in others:
        os.close(other)
print("ok")
