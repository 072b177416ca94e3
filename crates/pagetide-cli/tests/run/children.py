"""What the scripts here share: children that do something, and must do it without a failure."""
import os
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
