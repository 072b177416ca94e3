"""Pages from miss rings are the file's, even if the thread, the ring or the process ends. Prints ok
at the end."""
import ctypes
import os
import random
import threading

from children import fork_and, kill_amid, wait

PAGE = 4096
NR = os.path.getsize("a") // PAGE


def page_of(page):
    return bytes([page % 251, page >> 8 & 255]) * (PAGE // 2)


def check(fd, page):
    assert os.pread(fd, PAGE, page * PAGE) == page_of(page), page
    # The same in part: resident by now, or still in the ring.
    assert os.pread(fd, 100, page * PAGE + 50) == page_of(page)[50:150], page


def check_all(seed):
    random.seed(seed)
    fd = os.open("a", os.O_RDONLY)
    for page in random.sample(range(NR), NR):
        check(fd, page)
    os.close(fd)


def rings():
    """Returns the address ranges of this process's miss rings."""
    lines = open("/proc/self/maps").read().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if "pagetide-misses" in line]
    return [(int(start, 16), int(end, 16)) for start, end in ranges]


# A ring is made after several misses.
fd = os.open("a", os.O_RDONLY)
check(fd, 0)
assert not rings()
for page in range(20, NR, NR // 16):
    check(fd, page)
assert len(rings()) == 1, rings()

# A child has no ring of the parent, and its reads do not enter the parent's.
check(fd, 77)


def child():
    assert not rings()
    for page in range(30, NR, NR // 16):
        check(fd, page)
    assert len(rings()) == 1


wait(fork_and(child))
check(fd, 77)

# Processes that miss the same pages at once.
children = [fork_and(lambda: check_all(5)) for _ in range(3)]
check_all(5)
for one in children:
    wait(one)

# More threads than rings. A thread's end frees its ring.
before = len(rings())
threads = [threading.Thread(target=check_all, args=(seed,)) for seed in range(80)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# Python joins a thread before it leaves the C library, which frees the ring.
while len(os.listdir("/proc/self/task")) > 1:
    os.sched_yield()
assert len(rings()) == before, rings()

# Killed at any point.
def reader(turn):
    random.seed(turn)
    return lambda: [check(fd, page) for page in random.sample(range(NR), 30 + turn)]


for turn in range(20):
    kill_amid(lambda: reader(turn))

# A process that overwrites its ring gets its pages read again, without harm to other processes.
def scribble():
    own = os.open("b", os.O_RDONLY)
    random.seed(9)
    last = [0] * 3
    for page in random.sample(range(NR), NR):
        assert os.pread(own, PAGE, page * PAGE) == page_of(page), page
        for start, end in rings():
            ctypes.memset(start, random.randrange(256), end - start)
        if page % 8 == 0:
            # Just read, so the ring has other contents.
            assert os.pread(own, PAGE, last[0] * PAGE) == page_of(last[0]), last
        last = last[1:] + [page]


wait(fork_and(scribble))
own = os.open("b", os.O_RDONLY)
for page in range(NR):
    assert os.pread(own, PAGE, page * PAGE) == page_of(page), page
print("ok")
