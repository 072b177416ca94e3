"""Pages that a process reads from the file by itself are the file's. Prints ok at the end."""
import fcntl
import mmap
import os
import random

from children import fork_and, kill_amid, wait

PAGE = 4096
NR = 512
random.seed(1)


def page_of(page, turn):
    return bytes([page % 251, turn]) * (PAGE // 2)


def check(fd, turn, nr=NR):
    for page in random.sample(range(NR), nr):
        assert os.pread(fd, PAGE, page * PAGE) == page_of(page, turn), (page, turn)
        assert os.pread(fd, 100, page * PAGE + 50) == page_of(page, turn)[50:150], (page, turn)


# Written outside, so the disk has the contents.
fd = os.open("a", os.O_RDONLY)
check(fd, 0)
# Only this program has read the file.
assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT == 0
fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
check(fd, 0, 50)


# Readers killed during a read do no harm.
def reader():
    own = os.open("a", os.O_RDONLY)
    return lambda: check(own, 0, 20)


for turn in range(10):
    kill_amid(reader)
check(fd, 0)


# A reader beside a writer sees pages in order.
def write():
    own = os.open("a", os.O_RDWR)
    for turn in range(1, 6):
        for page in range(NR):
            os.pwrite(own, page_of(page, turn), page * PAGE)


writer = fork_and(write)
seen = [0] * NR
for _ in range(20000):
    page = random.randrange(NR)
    turn = os.pread(fd, PAGE, page * PAGE)[1]
    assert turn >= seen[page], (page, turn, seen[page])
    seen[page] = turn
wait(writer)
check(fd, 5)

# Written, closed by all, and reopened.
os.close(fd)
fd = os.open("a", os.O_RDONLY)
check(fd, 5)
wait(fork_and(lambda: os.truncate("a", 3 * PAGE + 7)))
assert os.pread(fd, PAGE, 3 * PAGE) == page_of(3, 5)[:7]
assert os.pread(fd, PAGE, 9 * PAGE) == b""

# The kernel reads a file that was handed over.
other = os.open("b", os.O_RDONLY)
for page in random.sample(range(NR), 100):
    assert os.pread(other, PAGE, page * PAGE) == page_of(page, 0)
mine = mmap.mmap(os.open("b", os.O_RDONLY), PAGE, access=mmap.ACCESS_READ)
assert mine[:PAGE] == page_of(0, 0)
assert os.pread(other, 3, 1) == page_of(0, 0)[1:4]
assert os.read(other, 5) == page_of(0, 0)[:5]
print("ok")
