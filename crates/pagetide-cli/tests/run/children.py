"""Shared helpers: children that must succeed."""
import os
import signal
import traceback


def fork_and(act):
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def wait(*children):
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


def kill_amid(begin):
    """A child does what `begin` returns there, over and over, and is killed with -9 amid it."""
    ready, told = os.pipe()

    def act_on():
        act = begin()
        while True:
            act()
            os.write(told, b"x")

    child = fork_and(act_on)
    os.close(told)
    assert os.read(ready, 1) == b"x"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
