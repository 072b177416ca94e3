"""Outputs of a run to pipes: without a reader, or with one that reads late, stops or ends.

Arguments: the command, and a folder. Prints a line per case.
"""

import os
import signal
import subprocess
import sys
import time

os.chdir(sys.argv[2])
PATIENCE = 60


def begin(option, *command):
    run = [sys.argv[1], "run", "--memory", "1M", option, "pipe", "--", *command]
    return subprocess.Popen(run, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def report(case, child):
    begun = time.monotonic()
    try:
        _, errors = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        print(case, "hangs")
        return
    said = [line for line in errors.splitlines() if "cannot write" in line]
    print(case, child.returncode, *(line.split("pipe: ", 1)[-1] for line in said))
    print(f"{case}: {time.monotonic() - begun:.1f} s", file=sys.stderr)


def reader():
    os.mkfifo("pipe")
    return os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)


for option in ["--json", "--dump", "--report", "--metrics", "--record"]:
    os.mkfifo("pipe")
    report(f"{option} without a reader:", begin(option, "true"))
    os.unlink("pipe")

    # The shell has started and waits for a line.
    fd = reader()
    child = begin(option, "sh", "-c", "echo runs > ready; read line; true")
    while not os.path.exists("ready"):
        assert child.poll() is None
    os.unlink("ready")
    os.close(fd)
    report(f"{option} with a reader that goes:", child)
    os.unlink("pipe")

    fd = reader()
    child = begin(option, "true")
    text = b""
    while child.poll() is None or not text:
        try:
            text += os.read(fd, 65536)
        except BlockingIOError:
            time.sleep(0.001)
    print(f"{option} with a reader:", child.wait(), len(text) > 0)
    child.communicate()
    os.close(fd)
    os.unlink("pipe")

# A full pipe with a reader that does not read.
for number in [signal.SIGTERM, signal.SIGINT]:
    fd = reader()
    filler = os.open("pipe", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filler, b"x" * 4096)
    except BlockingIOError:
        pass
    child = begin("--json", "sh", "-c", "echo $$ > ready; exec sleep 0")
    while not os.path.exists("ready"):
        pass
    os.unlink("ready")
    # The signal ends the program, or the remaining processes after the program.
    while child.poll() is None:
        child.send_signal(number)
        time.sleep(0.05)
    print(f"{number.name} to a run whose reader stops:", child.returncode != 0)
    child.communicate()
    os.close(filler)
    os.close(fd)
    os.unlink("pipe")
