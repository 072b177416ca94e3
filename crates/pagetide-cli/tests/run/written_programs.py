"""Writes programs in many ways and executes each directly after the last writer's close. Prints the
results, which the test compares with the kernel's."""
import errno
import fcntl
import mmap
import os
import shutil
import signal
import socket
import subprocess

with open("/bin/true", "rb") as true:
    CONTENTS = true.read() + bytes(200_000)


def execute(name="program"):
    child = os.fork()
    if child == 0:
        try:
            os.execv("./" + name, [name])
        except OSError as error:
            os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return errno.errorcode.get(status, status)


def execute_outside():
    """The process outside takes a line for each program."""
    outside.sendall(b"program\n")
    return outside.recv(100).decode().strip()


def write(flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open("program", flags, 0o755)
    os.write(fd, CONTENTS)
    return fd


class Other:
    """A child that does something, says so, and waits to be told to go on."""

    def __init__(self, act, then=lambda: None):
        self.ready, said = os.pipe()
        heard, self.told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.told)
            os.close(self.ready)
            kept = act()
            os.write(said, b".")
            os.read(heard, 1)
            then()
            os.write(said, b".")
            os.read(heard, 1)
            os._exit(0)
        os.close(said)
        os.close(heard)
        os.read(self.ready, 1)

    def go_on(self):
        os.write(self.told, b".")
        os.read(self.ready, 1)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.ready)
        os.close(self.told)


def open_to_read():
    fd = os.open("program", os.O_RDONLY)
    os.pread(fd, 100, 5000)
    return fd


def map_to_read():
    fd = os.open("program", os.O_RDONLY)
    mapped = mmap.mmap(fd, len(CONTENTS), prot=mmap.PROT_READ)
    os.close(fd)
    return mapped, mapped[5000]


BESIDES = {"alone": None, "beside a reader": open_to_read, "beside a mapping": map_to_read}


def closed():
    os.close(write())
    return [execute()]


def executed_outside():
    os.close(write())
    return [execute_outside()]


def open_still():
    fd = write()
    seen = [execute()]
    os.close(fd)
    return seen + [execute()]


def through_a_stream():
    with open("program", "r+b") as file:
        file.write(CONTENTS)
    return [execute()]


def through_a_copy():
    fd = write()
    copy = os.dup(fd)
    os.close(fd)
    seen = [execute()]
    os.close(copy)
    return seen + [execute()]


def replaced_by_dup2():
    fd = write()
    os.dup2(0, fd)
    seen = [execute()]
    os.close(fd)
    return seen


def renamed():
    os.close(write())
    os.rename("program", "renamed")
    seen = [execute("renamed")]
    os.rename("renamed", "program")
    return seen


def renamed_over():
    with open("new", "wb") as file:
        file.write(CONTENTS)
    os.chmod("new", 0o755)
    os.rename("new", "program")
    return [execute()]


def linked():
    os.close(write())
    os.link("program", "linked")
    seen = [execute("linked")]
    os.unlink("linked")
    return seen


def copied_over():
    shutil.copyfile("new-program", "program")
    return [execute()]


def copied_by_another_program():
    subprocess.check_call(["cp", "new-program", "program"])
    return [execute()]


def written_by_a_child():
    child = os.fork()
    if child == 0:
        write()
        os._exit(0)
    os.waitpid(child, 0)
    return [execute()]


def written_by_a_killed_child():
    Other(write).end()
    return [execute()]


def written_by_a_child_that_executes():
    """The descriptor is closed by the exec, and the program that follows executes the file."""
    child = os.fork()
    if child == 0:
        write()
        os.execvp("sh", ["sh", "-c", "./program; exit $?"])
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def inherited_by_a_child():
    """The child has written as well: docs/calls.md has what differs where it has used nothing."""
    fd = write()
    child = Other(lambda: os.pwrite(fd, b"\x7f", 0), lambda: os.close(fd))
    os.close(fd)
    seen = [execute()]
    child.go_on()
    seen.append(execute())
    child.end()
    return seen


def written_where_mapped():
    fd = write(os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    mapped = mmap.mmap(fd, len(CONTENTS))
    os.close(fd)
    mapped[len(CONTENTS) - 1] = 1
    mapped.close()
    return [execute()]


def cut():
    os.truncate("program", len(CONTENTS) - 10)
    return [execute()]


def locked():
    fd = write()
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.close(fd)
    return [execute()]


def locked_by_record():
    fd = write()
    fcntl.lockf(fd, fcntl.LOCK_EX)
    os.close(fd)
    return [execute()]


def many_times():
    """A writer's close and an exec, in turns."""
    seen = set()
    for _ in range(20):
        os.close(write())
        seen.add(execute())
    return sorted(seen, key=str)


WAYS = [closed, executed_outside, open_still, through_a_stream, through_a_copy, replaced_by_dup2,
        renamed, renamed_over, linked, copied_over, copied_by_another_program, written_by_a_child,
        written_by_a_killed_child, written_by_a_child_that_executes, inherited_by_a_child,
        written_where_mapped, cut, locked, locked_by_record, many_times]

outside = socket.socket(socket.AF_UNIX)
outside.connect("outside")
with open("new-program", "wb") as file:
    file.write(CONTENTS)
for way in WAYS:
    for beside, act in BESIDES.items():
        if os.path.exists("program"):
            os.unlink("program")
        os.close(write())
        other = Other(act) if act else None
        print(way.__name__, beside, *way(), flush=True)
        if other:
            other.end()
