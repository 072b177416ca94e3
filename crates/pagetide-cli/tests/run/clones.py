"""Clones files with shared blocks and prints each result."""
import fcntl, os, struct, subprocess

FICLONE, FICLONERANGE, FIDEDUPERANGE = 0x40049409, 0x4020940D, 0xC0189436


def say(name, call, *arguments):
    try:
        result = call(*arguments)
    except OSError as error:
        result = error.errno
    print(name, "=", result)


source = os.open("source", os.O_RDWR | os.O_CREAT)
os.write(source, b"old" * 100000)
target = os.open("target", os.O_RDWR | os.O_CREAT)
os.write(target, b"new" * 10)
os.pwrite(source, b"dirty", 70000)
say("clone", fcntl.ioctl, target, FICLONE, source)
print(os.pread(target, 1 << 20, 0) == os.pread(source, 1 << 20, 0), os.lseek(target, 0, 1))
os.pwrite(target, b"apart", 5)
print(os.pread(source, 20, 0), os.pread(target, 20, 0))
for at, length, to in [(4096, 8192, 4096), (1, 4096, 0), (0, 0, 1 << 20), (1 << 20, 4096, 0)]:
    say("range", fcntl.ioctl, target, FICLONERANGE, struct.pack("qQQQ", source, at, length, to))
    print(len(os.pread(target, 2 << 20, 0)), sum(os.pread(target, 2 << 20, 0)))
head = struct.pack("QQHHI", 4096, 4096, 1, 0, 0)
say("dedupe", fcntl.ioctl, source, FIDEDUPERANGE, head + struct.pack("qQQiI", target, 4096, 0, 0, 0))
read_only = os.open("target", os.O_RDONLY)
say("read only", fcntl.ioctl, read_only, FICLONE, source)
os.close(source)
say("closed", fcntl.ioctl, target, FICLONE, source)
copied = subprocess.run(["cp", "--reflink=always", "target", "copy"])
print(copied.returncode, open("copy", "rb").read() == open("target", "rb").read())
print("end")
