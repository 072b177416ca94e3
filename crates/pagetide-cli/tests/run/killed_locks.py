"""Locks of a killed process are free after wait. Prints ok at the end."""
import fcntl
import os
import signal

with open("lock", "wb") as f:
    f.write(b"lock")
for mode in [os.O_RDONLY, os.O_RDWR] * 50:
    ready = os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open("lock", mode)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(ready[1], b".")
        signal.pause()
    os.read(ready[0], 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    fd = os.open("lock", mode)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    os.close(ready[0])
    os.close(ready[1])
print("ok")
