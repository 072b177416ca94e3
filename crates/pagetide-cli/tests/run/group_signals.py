"""Sends every signal to the group of a run with a program that catches it, and checks the output.

Arguments: the command, and a folder. Prints a line per signal.
"""

import os
import signal
import subprocess
import sys

NOT_SENT = {signal.SIGKILL, signal.SIGSTOP, 32, 33}
# Ignored by default in the command alone.
NOT_FORWARDED = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGPIPE, signal.SIGTTOU}
IGNORED = [signal.SIGHUP, signal.SIGALRM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, 64]
LEN = 1_000_000
PROGRAM = """
import os, signal, sys, time
number, path, wanted = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
got = []
if wanted == 0:
    signal.signal(number, signal.SIG_IGN)
else:
    signal.signal(number, lambda number, frame: got.append(number))
file = os.open(path, os.O_RDWR | os.O_CREAT)
byte = bytes([number])
for nth in range(10):
    for at in range(100):
        os.pwrite(file, byte * 1000, (nth * 100 + at) * 1000)
    if nth < 2:
        print("ready", flush=True)
        sys.stdin.readline()
assert os.pread(file, 1000000, 0) == byte * 1000000
end = time.monotonic() + 60
while len(got) < wanted and time.monotonic() < end:
    time.sleep(0.001)
print(len(got), flush=True)
"""


def run(number, wanted, folder):
    """Returns the command's exit code, whether the file is whole, and how many signals came."""
    path = os.path.join(folder, f"{number}")
    command = [sys.argv[1], "run", "--memory", "256K", "--quiet", "--"]
    command += [sys.executable, "-c", PROGRAM, str(number), path, str(wanted)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    # First to the group, then to the command alone.
    for send in [os.killpg, os.kill]:
        assert child.stdout.readline() == "ready\n", number
        send(child.pid, number)
        child.stdin.write("\n")
        child.stdin.flush()
    got = child.stdout.read().strip()
    code = child.wait()
    with open(path, "rb") as file:
        is_whole = file.read() == bytes([number]) * LEN
    os.unlink(path)
    return code, is_whole, got


handled = [(number, 1 if number in NOT_FORWARDED else 2) for number in range(1, 65)]
failed = []
for number, wanted in handled + [(number, 0) for number in IGNORED]:
    if number in NOT_SENT:
        continue
    try:
        found = run(number, wanted, sys.argv[2])
    except (AssertionError, BrokenPipeError) as error:
        found = error
    if found != (0, True, str(wanted)):
        failed.append((number, found))
print("failed:", failed)
