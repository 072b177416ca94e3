"""Evaluates expressions from a socket, and answers with a line each.

Argument: the abstract name of a socket to connect to. By default descriptor 0 is the socket.
"""
import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
before = []


def connect(name):
    link = socket.socket(socket.AF_UNIX)
    link.connect("\0" + name)
    return link


def fork(name):
    """Another agent, with the descriptors of this one."""
    global link, lines
    child = os.fork()
    if child == 0:
        # The number stays in use, as it may be standard input's.
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, link.fileno())
        os.close(null)
        before.append(link)
        link = connect(name)
        lines = link.makefile("rw")
    return child


def append(name, text):
    with open(name, "ab", buffering=0) as file:
        return file.write(text)


def contents(name):
    with open(name, "rb", buffering=0) as file:
        return file.read()


def map_read(fd, count, at):
    with mmap.mmap(fd, at + count, prot=mmap.PROT_READ) as mapped:
        return mapped[at : at + count]


def map_write(fd, text, at):
    with mmap.mmap(fd, at + len(text)) as mapped:
        mapped[at : at + len(text)] = text


def fallocate(fd, mode, at, count):
    kinds = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    libc.fallocate.argtypes = kinds
    if libc.fallocate(fd, mode, at, count) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


link = connect(sys.argv[1]) if len(sys.argv) > 1 else socket.socket(fileno=0)
lines = link.makefile("rw")
while request := lines.readline():
    try:
        value = eval(request)
        answer = value.hex() if isinstance(value, bytes) else value
        answer = "ok " + str(answer)
    except OSError as error:
        answer = "errno %d" % error.errno
    except Exception as error:
        answer = "error %r" % error
    # A forked child answers from its next request on.
    if answer != "ok 0" or not request.startswith("fork("):
        lines.write(answer + "\n")
        lines.flush()
