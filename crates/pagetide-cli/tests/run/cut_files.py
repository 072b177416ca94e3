"""Cuts files in many ways, and prints the view of other processes directly after the call. The test
compares a run's lines with the kernel's."""
import mmap
import os
import socket

LEN = 300_000


def by_open(access):
    def cut(name):
        return os.open(name, access | os.O_TRUNC)

    cut.__name__ = {os.O_RDONLY: "read-only", os.O_WRONLY: "write-only", os.O_RDWR: "both"}[access]
    return cut


def reopened(access):
    def cut(name):
        path = os.open(name, os.O_PATH)
        fd = os.open(f"/proc/self/fd/{path}", access | os.O_TRUNC)
        os.close(path)
        return fd

    cut.__name__ = "reopened " + by_open(access).__name__
    return cut


def truncate(name):
    os.truncate(name, 0)


def truncate_in_part(name):
    os.truncate(name, 150_000)


def ftruncate(name):
    fd = os.open(name, os.O_RDWR)
    os.ftruncate(fd, 100)
    return fd


def creat(name):
    return os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)


def stream(name):
    return open(name, "wb")


def append(name):
    return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_TRUNC)


def write_again(name):
    with open(name, "wb") as file:
        file.write(b"new")


def spawned(name):
    cut = (os.POSIX_SPAWN_OPEN, 9, name, os.O_RDWR | os.O_TRUNC, 0)
    child = os.posix_spawnp("true", ["true"], os.environ, file_actions=[cut])
    os.waitpid(child, 0)


def outside(access):
    def cut(name):
        other.sendall(f"{name} {access | os.O_TRUNC}\n".encode())
        other.recv(100)

    cut.__name__ = "outside " + by_open(access).__name__
    return cut


def see(fd, mapped):
    """What a process that has had the file open finds."""
    seen = [len(os.pread(fd, 3, 1000)), os.lseek(fd, 0, os.SEEK_END), os.fstat(fd).st_size]
    seen += [len(os.pread(fd, 10, 0)), os.stat("cut").st_size]
    if mapped is not None:
        seen.append(mapped.size())
    return seen


def case(cut, access, is_mapped):
    with open("cut", "wb") as file:
        file.write(b"o" * LEN)
    turn, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open("cut", access)
        mapped = mmap.mmap(fd, LEN, prot=mmap.PROT_READ) if is_mapped else None
        assert os.pread(fd, 3, 1000) == b"ooo" and (mapped is None or mapped[1000] == ord("o"))
        os.write(done[1], b".")
        os.read(turn[0], 1)
        os.write(done[1], repr(see(fd, mapped)).encode())
        os._exit(0)
    os.read(done[0], 1)
    held = cut("cut")
    os.write(turn[1], b".")
    print(cut.__name__, access, "mapped" if is_mapped else "read", os.read(done[0], 1000).decode(),
          flush=True)
    os.waitpid(child, 0)
    if isinstance(held, int):
        os.close(held)
    for fd in [*turn, *done]:
        os.close(fd)


other = socket.socket(socket.AF_UNIX)
other.connect("outside")
ACCESS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]
CUTS = [*map(by_open, ACCESS), *map(reopened, ACCESS), truncate, truncate_in_part, ftruncate, creat,
        stream, append, write_again, spawned, *map(outside, ACCESS)]
for cut in CUTS:
    for access in (os.O_RDONLY, os.O_RDWR):
        for is_mapped in (False, True):
            # docs/calls.md: this cut of a read-only managed file is not noticed.
            if cut.__name__ == "outside read-only" and access == os.O_RDONLY:
                continue
            case(cut, access, is_mapped)
