"""Every kind of call on files, compared with POSIX. Prints ok at the end."""
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading

from children import fork_and, wait

# Lengths and positions.
with open("a", "wb") as f:
    f.write(b"x" * 300000)
assert os.stat("a").st_size == 300000
fd = os.open("a", os.O_RDWR)
assert os.lseek(fd, -5, os.SEEK_END) == 299995
assert os.read(fd, 10) == b"xxxxx" and os.read(fd, 10) == b""
assert os.lseek(fd, 0, os.SEEK_DATA) == 0 and os.lseek(fd, 0, os.SEEK_HOLE) == 300000

# One open file description: dup, fork.
copy = os.dup(fd)
os.lseek(fd, 0, os.SEEK_SET)
os.read(copy, 100)
assert os.lseek(fd, 0, os.SEEK_CUR) == 100
wait(fork_and(lambda: os.read(fd, 50)))
assert os.lseek(fd, 0, os.SEEK_CUR) == 150

# A child that inherits while the parent closes, at once.
shared = os.open("shared", os.O_RDWR | os.O_CREAT)
os.write(shared, b"one ")
go, gone = os.pipe(), None


def late():
    os.read(go[0], 1)
    os.write(shared, b"two ")


child = fork_and(late)
os.close(shared)
os.write(go[1], b".")
wait(child)
assert open("shared", "rb").read() == b"one two "

# Appends of several processes do not overlap.
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def append(letter):
    for _ in range(200):
        os.write(log, letter * 10 + b"\n")


wait(*[fork_and(lambda letter=letter: append(letter)) for letter in (b"a", b"b", b"c", b"d")])
lines = open("log", "rb").read().split()
assert len(lines) == 800 and all(len(set(line)) == 1 and len(line) == 10 for line in lines)
assert sorted(set(lines)) == [b"a" * 10, b"b" * 10, b"c" * 10, b"d" * 10]

# Another program inherits a descriptor with its position.
out = os.open("out", os.O_RDWR | os.O_CREAT)
os.write(out, b"one\n")
code = 'import os; os.write(%d, b"two\\n")' % out
subprocess.check_call([sys.executable, "-c", code], pass_fds=[out])
os.write(out, b"three\n")
assert os.pread(out, 100, 0) == b"one\ntwo\nthree\n"
assert subprocess.check_output(["cat", "out"]) == b"one\ntwo\nthree\n"
with open("redirected", "wb") as f:
    f.write(b"head\n")
    f.flush()
    subprocess.check_call(["echo", "middle"], stdout=f)
    f.write(b"tail\n")
assert open("redirected", "rb").read() == b"head\nmiddle\ntail\n"

# Concurrent writers and readers in threads and processes.
def write_and_check(number):
    fd = os.open("t%d" % number, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for page in range(100):
        os.pwrite(fd, bytes([page]) * 4096, page * 4096)
    for page in range(100):
        assert os.pread(fd, 4096, page * 4096) == bytes([page]) * 4096
    os.close(fd)


threads = [threading.Thread(target=write_and_check, args=(n,)) for n in range(6)]
[thread.start() for thread in threads]
wait(fork_and(lambda: write_and_check(7)), fork_and(lambda: write_and_check(8)))
[thread.join() for thread in threads]
assert all(os.path.getsize("t%d" % n) == 409600 for n in (0, 1, 2, 3, 4, 5, 7, 8))

# Calls longer than a packet, and vectors.
big = os.urandom(1 << 20)
fd2 = os.open("big", os.O_RDWR | os.O_CREAT)
assert os.write(fd2, big) == len(big) and os.lseek(fd2, 0, os.SEEK_CUR) == len(big)
os.lseek(fd2, 0, os.SEEK_SET)
assert os.read(fd2, 2 << 20) == big and os.read(fd2, 1) == b""
parts = [bytearray(3), bytearray(200000), bytearray(4)]
assert os.preadv(fd2, parts, 5) == 200007
assert b"".join(parts) == big[5:200012]
assert os.pwritev(fd2, [b"abc", b"", b"de"], 1) == 5 and os.pread(fd2, 6, 1) == b"abcde" + big[6:7]

# Truncation and extension by descriptor and path, ordered with other calls.
os.truncate("a", 1000)
assert os.pread(fd, 5000, 990) == b"x" * 10
os.ftruncate(fd, 2000)
assert os.pread(fd, 5000, 990) == b"x" * 10 + bytes(1000)
os.posix_fallocate(fd, 0, 3000)
assert os.fstat(fd).st_size == 3000
os.pwrite(fd, b"end", 9000)
assert os.stat("a").st_size == 9003
cut = os.open("a", os.O_WRONLY | os.O_TRUNC)
assert os.fstat(fd).st_size == 0 and os.pread(fd, 10, 0) == b""
os.close(cut)
os.write(os.open("a", os.O_WRONLY | os.O_APPEND), b"again")
assert os.pread(fd, 10, 0) == b"again"

# A mapping shows the file.
os.ftruncate(fd, 8192)
mapped = mmap.mmap(fd, 8192)
mapped[0:3] = b"abc"
assert os.pread(fd, 3, 0) == b"abc"
os.pwrite(fd, b"zz", 4096)
assert mapped[4096:4098] == b"zz"
other = os.open("a", os.O_RDWR)
os.pwrite(other, b"yy", 4096)
assert mapped[4096:4098] == b"yy"

# Copies inside the kernel, times, deleted files, temporary files.
shutil.copyfile("big", "copy")
assert open("copy", "rb").read() == os.pread(fd2, 2 << 20, 0)
assert os.copy_file_range(fd2, os.open("part", os.O_WRONLY | os.O_CREAT), 70000, 3) == 70000
assert open("part", "rb").read() == os.pread(fd2, 70000, 3)
os.utime("copy", (1, 1))
assert os.stat("copy").st_mtime == 1
os.unlink("big")
assert len(os.pread(fd2, 2 << 20, 0)) == len(big)
with tempfile.TemporaryFile() as f:
    f.write(b"temporary" * 1000)
    f.seek(9)
    assert f.read(9) == b"temporary"
os.fsync(fd2)
os.fdatasync(fd2)
os.close(fd2)
try:
    os.read(fd2, 1)
    assert False
except OSError as error:
    assert error.errno == 9

# Refusals as in POSIX.
for call, number in (
    (lambda: os.write(os.open("a", os.O_RDONLY), b"x"), 9),
    (lambda: os.read(os.open("a", os.O_WRONLY), 1), 9),
    (lambda: os.lseek(fd, -1, os.SEEK_SET), 22),
    (lambda: os.ftruncate(os.open("a", os.O_RDONLY), 1), 22),
    (lambda: os.open("a", os.O_CREAT | os.O_EXCL), 17),
    (lambda: os.open("none", os.O_RDONLY), 2),
):
    try:
        call()
        assert False
    except OSError as error:
        assert error.errno == number, error

# Closing all descriptors, as daemons do, keeps the connection.
os.closerange(3, 4096)
os.write(os.open("daemon", os.O_WRONLY | os.O_CREAT), b"there")
assert open("daemon", "rb").read() == b"there"
print("ok")
