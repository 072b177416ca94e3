"""Writes by a thread's write window: prints the results, which are the kernel's."""
import ctypes, errno, hashlib, mmap, os, resource, signal, sys, threading

MIB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.write.restype = ctypes.c_ssize_t
libc.pwrite.argtypes = libc.write.argtypes + [ctypes.c_long]
libc.pwrite.restype = ctypes.c_ssize_t
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def bytes_of(seed, nr_bytes):
    return hashlib.shake_128(str(seed).encode()).digest(nr_bytes)


def told(name, *results):
    print(name, *results, os.lseek(fd, 0, os.SEEK_CUR), os.fstat(fd).st_size)


fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
# A thread that has written 1 MiB gets a window.
told("first", os.write(fd, bytes_of(0, 3 * MIB)))
for nr_bytes in (1, 4095, 4096, 4097, 65535, 65536, 65537, MIB - 1, MIB, MIB + 1, 2 * MIB + 5):
    told(nr_bytes, os.write(fd, bytes_of(nr_bytes, nr_bytes)))
    told("at", os.pwrite(fd, bytes_of(-nr_bytes, nr_bytes), 12345))
told("parts", os.writev(fd, [bytes_of(nr, nr * 37) for nr in range(100)]))

# Memory that ends after some pages.
held = mmap.mmap(-1, 2 * MIB)
held[:] = bytes_of("held", 2 * MIB)
start = ctypes.addressof(ctypes.c_char.from_buffer(held))
for there in (4096, 65536, 300 * 1024, MIB):
    assert libc.mprotect(start + there, 4096, 0) == 0
    for skip, nr_bytes in ((0, there + 100), (there - 5, 100), (there, 100), (7, 2 * MIB - 7)):
        result = libc.pwrite(fd, start + skip, nr_bytes, 3 * MIB + skip)
        told("ends", there, skip, result, ctypes.get_errno() if result < 0 else 0)
        told("overlaps", libc.write(fd, start + skip, min(nr_bytes, there - skip)))
    assert libc.mprotect(start + there, 4096, 3) == 0

# The limit on lengths, in the middle of a write and before one.
signal.signal(signal.SIGXFSZ, lambda *_: print("SIGXFSZ"))
end = os.lseek(fd, 0, os.SEEK_END)
resource.setrlimit(resource.RLIMIT_FSIZE, (end + 5000, resource.RLIM_INFINITY))
for nr_bytes in (4096, 4096, 1):
    try:
        told("limited", os.write(fd, bytes_of("limit", nr_bytes)))
    except OSError as error:
        told("limited", errno.errorcode[error.errno])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

# A child writes to the same description, then the parent.
child = os.fork()
if child == 0:
    os._exit(0 if os.write(fd, b"child" * 1000) == 5000 else 1)
told("child", os.waitpid(child, 0)[1], os.write(fd, b"parent" * 1000))

# Handlers write in the middle of writes.
handled = []
signal.signal(signal.SIGALRM, lambda *_: handled.append(os.pwrite(fd, b"handler", 777)))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for nr in range(300):
    assert os.write(fd, bytes_of(nr % 7, 40000)) == 40000
signal.setitimer(signal.ITIMER_REAL, 0)
told("handled", set(handled) <= {7}, os.pwrite(fd, b"handler", 777))

# Threads append at once: no write is lost or split.
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)


def append(letter):
    for _ in range(200):
        assert os.write(log, letter * 20000) == 20000


threads = [threading.Thread(target=append, args=(bytes([65 + nr]),)) for nr in range(12)]
[one.start() for one in threads]
[one.join() for one in threads]
with open("log", "rb") as all_of:
    records = [all_of.read(20000) for _ in range(2400)]
    assert all(len(set(one)) == 1 for one in records) and not all_of.read(1)
print("appended", sorted((chr(65 + nr), sum(one[0] == 65 + nr for one in records)) for nr in range(12)))

# A closed socket of the library: later writes use another one.
os.closerange(20, 65536)
told("closed", os.write(fd, bytes_of("closed", MIB)))
told("direct", os.pwrite(os.open("f", os.O_WRONLY | os.O_SYNC), bytes_of("sync", 70000), 4 * MIB))
os.lseek(fd, 0, os.SEEK_SET)
print(hashlib.sha256(os.read(fd, 64 * MIB)).hexdigest())
