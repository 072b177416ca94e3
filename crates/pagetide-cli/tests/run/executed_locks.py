"""A process with record locks on many files executes another program, which keeps the locks and
loses each with its first close of a descriptor of the file. Prints ok at the end."""
import fcntl
import os
import resource
import sys

sys.path.insert(0, ".")
from children import fork_and, wait

NR = 600


def is_locked(nr):
    fd = os.open(f"f{nr}", os.O_RDWR)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def must_be(wanted):
    def look():
        found = [is_locked(nr) for nr in range(NR)]
        assert found == wanted, [nr for nr in range(NR) if found[nr] != wanted[nr]]

    wait(fork_and(look))


def open_locked(nr):
    fd = os.open(f"f{nr}", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x" * 5000, 0)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    os.set_inheritable(fd, True)
    return fd


resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
if len(sys.argv) == 1:
    fds = [open_locked(nr) for nr in range(NR)]
    must_be([True] * NR)
    os.execv(sys.executable, [sys.executable, sys.argv[0], "1", *map(str, fds)])
turn, fds = int(sys.argv[1]), [int(fd) for fd in sys.argv[2:]]
must_be([True] * NR)
if turn < 3:
    # The same in a program that inherits the locks.
    os.execv(sys.executable, [sys.executable, sys.argv[0], str(turn + 1), *map(str, fds)])
for nr in range(0, NR, 2):
    os.close(fds[nr])
must_be([nr % 2 == 1 for nr in range(NR)])
os.closerange(min(fds), max(fds) + 1)
must_be([False] * NR)
print("ok")
