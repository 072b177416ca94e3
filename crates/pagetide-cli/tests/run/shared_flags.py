"""Another process sets O_APPEND on a description: copies into it are refused from then on."""
import errno
import fcntl
import os

LEN = 300000
source = os.open("source", os.O_RDWR | os.O_CREAT)
os.write(source, bytes(LEN))
target = os.open("target", os.O_RDWR | os.O_CREAT)


def copy(at):
    try:
        return os.copy_file_range(source, target, LEN, at)
    except OSError as error:
        return errno.errorcode[error.errno]


def by_a_child(flags):
    child = os.fork()
    if child == 0:
        fcntl.fcntl(target, fcntl.F_SETFL, flags)
        os._exit(0)
    os.waitpid(child, 0)


assert copy(0) == LEN
assert copy(LEN) == 0
by_a_child(os.O_APPEND)
assert copy(LEN) == "EBADF"
assert copy(0) == "EBADF"
by_a_child(0)
assert copy(LEN) == 0
print("ok")
