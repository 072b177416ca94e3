"""`pagetide top` on terminals that close or take no output.

Arguments: the command, and a folder. Prints the end of each case, a line each.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

PATIENCE = 60


def begin(own_session, ignored=None):
    """Starts it on a new terminal, and returns once it has drawn."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))

    def prepare():
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)
        if own_session:
            os.setsid()
            os.close(os.open(os.ttyname(slave), os.O_RDWR))

    child = subprocess.Popen(
        [sys.argv[1], "top"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=prepare,
        env={**os.environ, "TERM": "xterm", "XDG_RUNTIME_DIR": sys.argv[2]},
    )
    drawn = b""
    while b"socket" not in drawn:
        assert select.select([master], [], [], PATIENCE)[0], drawn
        drawn += os.read(master, 4096)
    return child, master, slave


def finish(case, child):
    begun = time.monotonic()
    try:
        print(case, "ended", child.wait(PATIENCE))
    except subprocess.TimeoutExpired:
        child.kill()
        print(case, "hangs")
    used = os.times().children_user + os.times().children_system
    print(f"{case}: {time.monotonic() - begun:.2f} s, CPU so far {used:.2f} s", file=sys.stderr)


for own_session in [True, False]:
    child, master, slave = begin(own_session)
    os.close(slave)
    os.close(master)
    finish(f"closed, own session {own_session}:", child)

child, master, slave = begin(True, signal.SIGHUP)
os.close(slave)
os.close(master)
finish("closed, with SIGHUP ignored:", child)

for number in [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]:
    child, master, slave = begin(False)
    os.kill(child.pid, number)
    finish(f"{number.name}:", child)
    os.close(slave)
    os.close(master)

    child, master, slave = begin(False)
    termios.tcflow(slave, termios.TCOOFF)
    # A key makes a waiting or drawing process draw.
    os.write(master, b"j")
    os.kill(child.pid, number)
    finish(f"{number.name} to a terminal that is stopped:", child)
    termios.tcflow(slave, termios.TCOON)
    os.close(slave)
    os.close(master)

child, master, slave = begin(False)
os.write(master, b"q")
finish("q:", child)
