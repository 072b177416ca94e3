"""Forks during other threads' reads and writes. Prints ok at the end."""
import os
import threading
import warnings

from children import fork_and, wait

warnings.simplefilter("ignore", DeprecationWarning)
PAGE = 4096
is_over = threading.Event()
failures = []


def rounds(name, nr):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    for turn in range(nr):
        page, value = turn % 64, bytes([turn % 251])
        os.pwrite(fd, value * PAGE, page * PAGE)
        if os.pread(fd, PAGE, page * PAGE) != value * PAGE:
            failures.append((name, turn))
    os.close(fd)


def until_over(name):
    while not is_over.is_set():
        rounds(name, 100)


threads = [threading.Thread(target=until_over, args=("thread%d" % n,)) for n in range(6)]
[thread.start() for thread in threads]
shared = os.open("shared", os.O_RDWR | os.O_CREAT | os.O_APPEND)
for turn in range(15):
    children = [fork_and(lambda n=n: rounds("child%d" % n, 50)) for n in range(2)]
    children.append(fork_and(lambda: os.write(shared, b"line\n")))
    wait(*children)
is_over.set()
[thread.join() for thread in threads]
assert not failures, failures
assert os.pread(shared, 1000, 0) == b"line\n" * 15
print("ok")
