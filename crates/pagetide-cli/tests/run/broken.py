# Reads and writes that fail with EIO. `control` selects the failing pages of the file
# `pages`.
import errno, os, sys

control = sys.argv[1]
MAGIC = b"this page can fail"
NR = 64


def fail(what):
    with open(control + ".next", "w") as file:
        file.write(what)
    os.rename(control + ".next", control)


def pages(number):
    return b"".join(MAGIC + bytes([index + number & 0xff]) * (4096 - len(MAGIC)) for index in range(NR))


def attempt(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


file = os.open("data", os.O_RDWR | os.O_CREAT)
print(os.pwrite(file, pages(0), 0), attempt(os.fsync, file))

fail("read")
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
print("read", attempt(os.read, file, 10), attempt(os.pread, file, 10, 40960))
print(attempt(os.preadv, file, [bytearray(5), bytearray(5)], 100), os.lseek(file, 0, os.SEEK_CUR))
fail("")
print(os.read(file, NR * 4096) == pages(0))

fail("write")
print("write", os.pwrite(file, pages(1), 0), attempt(os.fsync, file))
other = os.open("other", os.O_RDWR | os.O_CREAT)
print(os.write(other, b"fine" * 100000), attempt(os.fsync, other), attempt(os.close, other))
print(os.pread(file, NR * 4096, 0) == pages(1))
fail("")
os.pwrite(file, pages(2), 0)
# A run retries the failed write now. The kernel has dropped the data.
attempt(os.fsync, file)
print(attempt(os.fsync, file), os.pread(file, NR * 4096, 0) == pages(2))

fail("write")
second = os.open("data", os.O_WRONLY)
os.pwrite(second, pages(3), 0)
attempt(os.close, second)
print("close", attempt(os.fdatasync, file))
fail("")
os.pwrite(file, pages(3), 0)
attempt(os.fsync, file)
print(attempt(os.fsync, file))

os.pwrite(file, pages(4), 0)
fail("write")
# The kernel reports nothing. A run's last close reports the lost data.
attempt(os.close, file)
fail("")
file = os.open("data", os.O_RDWR)
print("open", os.read(file, NR * 4096) == pages(4))
attempt(os.fsync, file)
print(attempt(os.fsync, file), attempt(os.close, file))
