# Calls that end near or beyond the last possible offset.
import errno, os

file = os.open("far", os.O_RDWR | os.O_CREAT)
os.write(file, b"x" * 300000)


def attempt(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


for back in (1, 3, 5):
    at = (1 << 63) - back
    for nr in range(4):
        print(back, nr, attempt(lambda: os.pread(file, nr, at)), attempt(lambda: os.pwrite(file, b"y" * nr, at)))
        print(attempt(lambda: os.preadv(file, [bytearray(nr)], at)), attempt(lambda: os.pwritev(file, [b"y" * nr], at)))
    print(attempt(lambda: os.ftruncate(file, at)), attempt(lambda: os.posix_fallocate(file, at, 1)))
print(os.fstat(file).st_size)
