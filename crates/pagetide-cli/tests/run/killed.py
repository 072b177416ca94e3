"""Repeatedly kills a writing child. Its reported writes are stored."""
import os
import signal

for turn in range(20):
    name = "file%d" % turn
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        fd = os.open(name, os.O_RDWR | os.O_CREAT)
        number = 0
        while True:
            os.write(fd, b"%08d" % number * 512)
            os.write(write_end, b"%08d" % number)
            number += 1
    os.close(write_end)
    # It dies somewhere in a write.
    for _ in range(3 + turn * 7):
        told = os.read(read_end, 8)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while True:
        more = os.read(read_end, 8)
        if not more:
            break
        told = more
    contents = open(name, "rb").read()
    assert len(contents) >= (int(told) + 1) * 4096, (len(contents), told)
    for number in range(int(told) + 1):
        assert contents[number * 4096 : (number + 1) * 4096] == b"%08d" % number * 512
print("ok")
