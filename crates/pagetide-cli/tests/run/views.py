"""Pages that a process copies without a request are always the file's. Prints ok at the end."""
import mmap
import os

from children import fork_and, wait

PAGE = 4096

fd = os.open("a", os.O_RDWR | os.O_CREAT)
for page in range(8):
    os.pwrite(fd, bytes([0]) * PAGE, page * PAGE)


# A reader beside a writer sees whole pages, in order.
def write():
    for value in range(1, 200):
        for page in range(8):
            os.pwrite(fd, bytes([value]) * PAGE, page * PAGE)


writer = fork_and(write)
seen = [0] * 8
while min(seen) < 199:
    for page in range(8):
        contents = os.pread(fd, PAGE, page * PAGE)
        assert len(set(contents)) == 1 and contents[0] >= seen[page], (page, seen)
        seen[page] = contents[0]
wait(writer)

# Recently copied frames are not copied once they hold another process's pages.
def fill(letter):
    other = os.open("b", os.O_RDWR | os.O_CREAT)
    for page in range(200):
        os.pwrite(other, letter * PAGE, page * PAGE)


for turn in range(5):
    assert os.pread(fd, 2 * PAGE, 0) == bytes([199]) * 2 * PAGE
    assert os.pread(fd, 2 * PAGE, 0) == bytes([199]) * 2 * PAGE
    wait(fork_and(lambda: fill(b"b")))

# Two processes with one description share out the file by position, page by page, resident or
# not, without duplicates.
with open("c", "wb", buffering=0) as whole:
    for page in range(300):
        whole.write(bytes([page % 251]) * 5000)


def drain(shared, target):
    while part := os.read(shared, 5000):
        assert len(part) == 5000 and len(set(part)) == 1, len(part)
        os.write(target, part[:1])


for turn in range(2):
    shared = os.open("c", os.O_RDONLY)
    assert os.pread(shared, 1, 0) == bytes(1)
    ends = [os.pipe() for _ in range(2)]
    children = [fork_and(lambda: drain(shared, end)) for _, end in ends]
    for child in children:
        wait(child)
    assert os.lseek(shared, 0, os.SEEK_CUR) == 300 * 5000
    seen = b""
    for near, far in ends:
        os.close(far)
        while part := os.read(near, 4096):
            seen += part
        os.close(near)
    assert sorted(seen) == sorted(page % 251 for page in range(300)), len(seen)

# The file goes to the kernel between two reads at the position.
shared = os.open("c", os.O_RDONLY)
assert os.read(shared, 5000) == bytes(5000) and os.read(shared, 5000) == bytes([1]) * 5000


def map_it():
    mine = os.open("c", os.O_RDONLY)
    assert mmap.mmap(mine, PAGE, prot=mmap.PROT_READ)[0] == 0


wait(fork_and(map_it))
assert os.read(shared, 5000) == bytes([2]) * 5000 and os.lseek(shared, 0, os.SEEK_CUR) == 15000

# Cut, then extended.
assert os.pread(fd, PAGE, PAGE) == os.pread(fd, PAGE, PAGE)
wait(fork_and(lambda: os.truncate("a", PAGE + 100)))
assert os.pread(fd, PAGE, PAGE) == bytes([199]) * 100
wait(fork_and(lambda: os.truncate("a", 2 * PAGE)))
assert os.pread(fd, PAGE, PAGE) == bytes([199]) * 100 + bytes(PAGE - 100)

# Mapped by another process, and changed there.
assert os.pread(fd, PAGE, 0) == os.pread(fd, PAGE, 0)


def change():
    mine = os.open("a", os.O_RDWR)
    mmap.mmap(mine, PAGE)[0:5] = b"there"


wait(fork_and(change))
assert os.pread(fd, 5, 0) == b"there"
print("ok")
