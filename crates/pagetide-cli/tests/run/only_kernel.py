"""Calls left to the kernel. Prints each result."""
import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)
COLLAPSE, INSERT = 8, 32
TIB = 1 << 40


def say(name, call, *arguments):
    try:
        result = call(*arguments)
    except OSError as error:
        result = error.errno
    print(name, *arguments[1:], "=", result)


def fallocate(file, mode, offset, length):
    numbers = ctypes.c_int(file), ctypes.c_int(mode), ctypes.c_long(offset), ctypes.c_long(length)
    if libc.fallocate(*numbers) < 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def look(file, name):
    size = os.fstat(file).st_size
    at = os.lseek(file, 0, os.SEEK_CUR)
    print(name, size, at, hash_of(os.pread(file, 70000, 0)), hash_of(os.pread(file, 100, size - 50)))


def hash_of(data):
    return len(data), sum(data), sum(byte * place for place, byte in enumerate(data))


def each_place(name, act):
    """Runs `act` on a file of its own for each place."""
    edges = [8 * TIB, 9 * TIB, 16 * TIB - 4096, 16 * TIB, 1 << 53, 1 << 62, (1 << 63) - 4096]
    for edge in edges:
        for place in (edge - 4096, edge - 2, edge - 1, edge, edge + 1):
            with open("far", "wb") as new:
                new.write(bytes(range(256)) * 200)
            file = os.open("far", os.O_RDWR)
            os.pwrite(file, b"before", 10)
            act(file, place)
            look(file, name)
            say("sync", os.fsync, file)
            os.close(file)


def write_far(file, place):
    say("pwrite", os.pwrite, file, b"four", place)
    say("pread", os.pread, file, 8, place - 2)
    say("pwritev", os.pwritev, file, [b"ab", b"cd"], place)


def seek_far(file, place):
    say("seek", os.lseek, file, place, os.SEEK_SET)
    say("read", os.read, file, 4)
    say("write", os.write, file, b"four")
    say("seek", os.lseek, file, place, os.SEEK_END)
    say("seek", os.lseek, file, place, os.SEEK_CUR)


def lengthen(file, place):
    say("ftruncate", os.ftruncate, file, place)
    say("pwrite", os.pwrite, file, b"four", 100)
    say("fallocate", fallocate, file, 1, place, 4096)


def copy_far(file, place):
    say("copy", lambda _, at: os.copy_file_range(file, file, 10, 0, at), file, place)


for name, act in [("w", write_far), ("s", seek_far), ("l", lengthen), ("c", copy_far)]:
    each_place(name, act)

for mode, offset, length in [
    (COLLAPSE, 4096, 8192), (COLLAPSE, 100, 4096), (COLLAPSE, 0, 1 << 20),
    (INSERT, 4096, 8192), (INSERT, 1, 4096), (INSERT, 1 << 30, 4096), (64, 0, 4096),
]:
    file = os.open("a", os.O_RDWR)
    os.pwrite(file, b"x" * 5000, 6000)
    os.lseek(file, 7000, os.SEEK_SET)
    say("fallocate", fallocate, file, mode, offset, length)
    look(file, "blocks")
    os.close(file)

for flags in (1, 2, 4, 6, 16, 32, 64, 1 << 20, -1):
    file = os.open("a", os.O_RDWR)
    os.pwrite(file, b"y" * 100, 50)
    say("pwritev", lambda _, flags: os.pwritev(file, [b"flag", b"s"], 20, flags), file, flags)
    say("preadv", lambda _, flags: os.preadv(file, [bytearray(9)], 18, flags), file, flags)
    look(file, "flags")
    os.close(file)
print("end")
