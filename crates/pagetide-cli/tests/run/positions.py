"""The file position, moved by processes without requests. Prints ok at the end."""
import mmap
import os
import select
import signal
import subprocess
import sys

from children import fork_and, wait

PAGE = 4096
NR = 300
SIZE = 1000
server = os.getppid()

with open("a", "wb", buffering=0) as whole:
    whole.write(b"".join(b"%04d" % number * (SIZE // 4) for number in range(NR)))


def number_of(part):
    assert len(part) == SIZE and part == part[:4] * (SIZE // 4), part
    return int(part[:4])


def open_known():
    """A description whose position is known to move without the server."""
    fd = os.open("a", os.O_RDONLY)
    assert len(os.pread(fd, NR * SIZE, 0)) == NR * SIZE
    assert number_of(os.read(fd, SIZE)) == 0 and number_of(os.read(fd, SIZE)) == 1
    return fd


# Reads and seeks at the position continue while the server is stopped. A writable description whose
# position was asked for before still tells it.
writable = os.open("a", os.O_RDWR)
for _ in range(3):
    assert os.lseek(writable, 0, os.SEEK_END) == NR * SIZE
fd = open_known()
done, end = os.pipe()
watchdog = os.fork()
if watchdog == 0:
    os.close(end)
    is_done = select.select([done], [], [], 20)[0]
    os.kill(server, signal.SIGCONT)
    os._exit(0 if is_done else 1)
os.kill(server, signal.SIGSTOP)
numbers = [number_of(os.read(fd, SIZE)) for _ in range(50)]
seeks = [
    os.lseek(fd, -40 * SIZE, os.SEEK_CUR),
    os.lseek(fd, -SIZE, os.SEEK_END),
    os.lseek(fd, 52 * SIZE, os.SEEK_SET),
    os.lseek(writable, 0, os.SEEK_END),
    os.lseek(writable, 0, os.SEEK_CUR),
]
os.write(end, b"x")
wait(watchdog)
assert numbers == list(range(2, 52)), numbers
assert seeks == [12 * SIZE, (NR - 1) * SIZE, 52 * SIZE, NR * SIZE, NR * SIZE], seeks

# Another process, another program, and lseek move the same position.
wait(fork_and(lambda: number_of(os.read(fd, SIZE))))
assert number_of(os.read(fd, SIZE)) == 53
program = "import os; os.lseek(%d, 46 * 1000, os.SEEK_CUR); assert len(os.read(%d, 1000)) == 1000"
subprocess.run([sys.executable, "-c", program % (fd, fd)], pass_fds=[fd], check=True)
assert number_of(os.read(fd, SIZE)) == 101
assert os.lseek(fd, -SIZE, os.SEEK_CUR) == 101 * SIZE and number_of(os.read(fd, SIZE)) == 101
assert os.lseek(fd, -SIZE, os.SEEK_END) == 299 * SIZE and number_of(os.read(fd, SIZE)) == 299
assert os.read(fd, SIZE) == b"" and os.lseek(fd, 0, os.SEEK_CUR) == NR * SIZE
assert os.lseek(fd, NR * SIZE - 10, os.SEEK_SET) and os.read(fd, SIZE) == b"0299"[2:] + b"0299" * 2

# Parts of a call, and calls served by the server, continue at the same position.
os.lseek(fd, 0, os.SEEK_SET)
parts = [bytearray(SIZE), bytearray(SIZE)]
assert os.readv(fd, parts) == 2 * SIZE and [number_of(part) for part in parts] == [0, 1]
assert number_of(os.read(fd, SIZE)) == 2

# Killed readers lose their reservation, and nothing is read twice.
for turn in range(10):
    shared = open_known()
    pipes = [os.pipe() for _ in range(3)]
    children = []
    for near, end in pipes:
        child = os.fork()
        if child == 0:
            while part := os.read(shared, SIZE):
                os.write(end, b"%04d" % number_of(part))
            os._exit(0)
        children.append(child)
        if len(children) == 1:
            # It dies somewhere in a read.
            os.read(near, 4)
    os.kill(children[0], signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    seen = []
    for near, end in pipes:
        os.close(end)
        told = b"".join(iter(lambda: os.read(near, 4096), b""))
        seen += [int(told[at : at + 4]) for at in range(0, len(told), 4)]
        os.close(near)
    # One number was read above, and at most one is lost.
    assert len(set(seen)) == len(seen) and len(seen) in (NR - 4, NR - 3), len(seen)
    os.close(shared)

# The server keeps the position of a writable file, shared by reads and writes.
both = os.open("b", os.O_RDWR | os.O_CREAT)
for number in range(20):
    os.write(both, b"%04d" % number * (SIZE // 4))
os.lseek(both, 0, os.SEEK_SET)
assert [number_of(os.read(both, SIZE)) for _ in range(5)] == list(range(5))
os.write(both, b"0099" * (SIZE // 4))
assert number_of(os.read(both, SIZE)) == 6 and os.lseek(both, 0, os.SEEK_CUR) == 7 * SIZE
assert os.pread(both, SIZE, 5 * SIZE) == b"0099" * (SIZE // 4)

# What a process sees of a writable position is what others have made of it.
size = os.lseek(both, 0, os.SEEK_END)
assert os.lseek(both, 0, os.SEEK_END) == size and os.lseek(both, 0, os.SEEK_CUR) == size
wait(fork_and(lambda: os.write(both, b"0020" * (SIZE // 4))))
assert os.lseek(both, 0, os.SEEK_CUR) == size + SIZE
wait(fork_and(lambda: os.lseek(both, 3 * SIZE, os.SEEK_SET)))
assert os.lseek(both, 0, os.SEEK_CUR) == 3 * SIZE and number_of(os.read(both, SIZE)) == 3
assert os.lseek(both, 0, os.SEEK_CUR) == 4 * SIZE
os.lseek(both, 0, os.SEEK_END)
other = os.open("b", os.O_WRONLY | os.O_APPEND)
os.write(other, b"0021" * (SIZE // 4))
os.close(other)
assert os.lseek(both, 0, os.SEEK_CUR) == size + SIZE
assert os.lseek(both, 0, os.SEEK_END) == size + 2 * SIZE
os.ftruncate(both, size)
assert os.lseek(both, 0, os.SEEK_END) == size and os.lseek(both, 0, os.SEEK_CUR) == size
whole = b"0030" * (400 << 10)
assert os.write(both, whole) == len(whole)
assert os.lseek(both, 0, os.SEEK_CUR) == size + len(whole)
for turn in range(3):
    assert os.lseek(both, 0, os.SEEK_END) == size + len(whole)
try:
    os.lseek(both, -1, os.SEEK_SET)
    raise AssertionError("no error")
except OSError as error:
    assert error.errno == 22, error
assert os.lseek(both, 0, os.SEEK_CUR) == size + len(whole)

# The file goes to the kernel while two processes read at the position.
shared = open_known()
there, back = os.pipe(), os.pipe()


def read_too():
    assert number_of(os.read(shared, SIZE)) == 2
    os.write(there[1], b"x")
    os.read(back[0], 1)
    assert number_of(os.read(shared, SIZE)) == 4


child = fork_and(read_too)
os.read(there[0], 1)
mine = mmap.mmap(os.open("a", os.O_RDONLY), PAGE, prot=mmap.PROT_READ)
assert mine[:4] == b"0000"
assert number_of(os.read(shared, SIZE)) == 3
os.write(back[1], b"x")
wait(child)
assert number_of(os.read(shared, SIZE)) == 5 and os.lseek(shared, 0, os.SEEK_CUR) == 6 * SIZE
print("ok")
