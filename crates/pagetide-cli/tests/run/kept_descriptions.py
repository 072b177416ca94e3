"""A child without earlier requests holds the last descriptor of a locked description. If the server
cannot compare descriptors, it keeps the description. Prints ok at the end."""
import fcntl
import os

for turn in range(3):
    with open("locked", "wb") as file:
        file.write(b"x" * 300_000)
    fd = os.open("locked", os.O_RDWR)
    told, said = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(told[0], 1)
        # The child's descriptor still has the locked description.
        is_whole = os.pread(fd, 5, 1000) == b"xxxxx" and os.pwrite(fd, b"child", 0) == 5
        os.write(said[1], b"yes" if is_whole else b"no")
        os.read(told[0], 1)
        os._exit(0)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.close(fd)
    os.write(told[1], b".")
    assert os.read(said[0], 3) == b"yes"
    other = os.open("locked", os.O_RDWR)
    assert os.pread(other, 5, 0) == b"child"
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise AssertionError("the child holds the lock")
    except BlockingIOError:
        pass
    os.write(told[1], b".")
    os.waitpid(child, 0)
    # The kernel, or the server if no process has the file open.
    fcntl.flock(other, fcntl.LOCK_EX)
    os.close(other)
print("ok")
