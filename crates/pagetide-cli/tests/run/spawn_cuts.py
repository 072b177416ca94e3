"""posix_spawn opens and cuts a managed file. Prints ok at the end."""
import os

from children import wait

PAGE = 4096
CUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

fd = os.open("log", os.O_RDWR | os.O_CREAT)
os.write(fd, b"a" * 4 * PAGE)
actions = [(os.POSIX_SPAWN_OPEN, 1, "log", CUT, 0o600)]
command = ["sh", "-c", "printf new"]
wait(os.posix_spawn("/bin/sh", command, os.environ, file_actions=actions))
assert os.fstat(fd).st_size == 3, os.fstat(fd)
assert os.pread(fd, PAGE, 0) == b"new", os.pread(fd, PAGE, 0)
# The write sets the position, with a hole before.
os.write(fd, b"end")
assert os.fstat(fd).st_size == 4 * PAGE + 3, os.fstat(fd)
assert os.pread(fd, PAGE, 0) == b"new" + bytes(PAGE - 3)
# New files and irregular files are not managed.
actions = [(os.POSIX_SPAWN_OPEN, 1, "fresh", CUT, 0o600), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", CUT, 0)]
wait(os.posix_spawn("/bin/sh", command, os.environ, file_actions=actions))
with open("fresh", "rb") as fresh:
    assert fresh.read() == b"new"
print("ok")
