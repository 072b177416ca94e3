"""Pages that a process copies without asking are always the file's. Prints ok at the end."""
import mmap
import os

from children import fork_and, wait

PAGE = 4096

fd = os.open("a", os.O_RDWR | os.O_CREAT)
for page in range(8):
    os.pwrite(fd, bytes([0]) * PAGE, page * PAGE)


# A reader beside a writer sees whole pages, and never an older one after a newer one.
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

# Pages that were copied a moment ago are not copied once they are somebody else's.
def fill(letter):
    other = os.open("b", os.O_RDWR | os.O_CREAT)
    for page in range(200):
        os.pwrite(other, letter * PAGE, page * PAGE)


for turn in range(5):
    assert os.pread(fd, 2 * PAGE, 0) == bytes([199]) * 2 * PAGE
    assert os.pread(fd, 2 * PAGE, 0) == bytes([199]) * 2 * PAGE
    wait(fork_and(lambda: fill(b"b")))

# Cut, and longer again.
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
