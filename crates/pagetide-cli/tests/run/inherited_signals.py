"""Signals forwarded by a run, which stops with its program. Prints a line per case.

Arguments: the command, and a folder.
"""

import os
import pty
import resource
import signal
import subprocess
import sys
import time

PATIENCE = 60
RUN = [sys.argv[1], "run", "--memory", "256K", "--quiet", "--"]
os.chdir(sys.argv[2])


def status_of(before, command):
    """The sets of signals in a program's status."""

    def prepare():
        for number in before.get("ignored", []):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, before.get("blocked", []))

    show = ["grep", "-E", "Sig(Blk|Ign|Cgt)|ShdPnd", "/proc/self/status"]
    child = subprocess.run(command + show, stdout=subprocess.PIPE, preexec_fn=prepare, text=True)
    sets = [int(line.split(":")[1], 16) for line in child.stdout.splitlines()]
    # The C library owns 32 and 33 and resets them once there are threads.
    return [one & ~(3 << 31) for one in sets]


cases = {
    "nothing": {},
    "nohup": {"ignored": [signal.SIGHUP]},
    "a service": {"ignored": [signal.SIGPIPE]},
    "a job of a script": {"ignored": [signal.SIGINT, signal.SIGQUIT]},
    "much": {"ignored": [signal.SIGUSR1, 64], "blocked": [signal.SIGUSR2, signal.SIGTERM, 40]},
    "no children": {"ignored": [signal.SIGCHLD]},
}
for name, before in cases.items():
    found, wanted = status_of(before, RUN), status_of(before, [])
    print(name, found == wanted)
    if found != wanted:
        print(name, "found", found, "wanted", wanted, file=sys.stderr)

# An alarm set before the start goes to the program.
for seconds in (1, 4, 16, 64):
    child = subprocess.run(RUN + ["sleep", "1000"], preexec_fn=lambda: signal.alarm(seconds))
    # The alarm came before the command could catch it.
    if child.returncode != -signal.SIGALRM:
        break
print("alarm", child.returncode)

# The server may exceed the program's limits on CPU time and file length.
BUSY = """
import os, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
print(resource.getrlimit(resource.RLIMIT_CPU), resource.getrlimit(resource.RLIMIT_FSIZE))
file = os.open("limited", os.O_RDWR | os.O_CREAT)
print(os.pwrite(file, b"x" * 8192, 100000 - 4096))
try:
    os.pwrite(file, b"x", 100000)
except OSError as error:
    print(error.errno)
"""


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (20, 30))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, most))


show = [sys.executable, "-c", BUSY]
outputs = [
    subprocess.run(before + show, preexec_fn=limit, stdout=subprocess.PIPE).stdout
    for before in [RUN, []]
]
print("limits", outputs[0] == outputs[1], open("limited", "rb").read()[-4096:] == b"x" * 4096)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(") ", 1)[1][0]


def wait_for(pid, states):
    end = time.monotonic() + PATIENCE
    while state_of(pid) not in states:
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def begin_job():
    child = subprocess.Popen(
        RUN + ["sh", "-c", "echo $$; exec sleep 1000"],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    return child, int(child.stdout.readline())


for number in [signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU]:
    child, program = begin_job()
    os.killpg(child.pid, number)
    stops = wait_for(program, "T") and wait_for(child.pid, "T")
    os.killpg(child.pid, signal.SIGCONT)
    goes_on = wait_for(program, "S") and wait_for(child.pid, "S")
    print(f"{number.name} to the job:", stops, goes_on)
    if number != signal.SIGTTOU:
        child.send_signal(number)
        stops = wait_for(program, "T") and wait_for(child.pid, "T")
        child.send_signal(signal.SIGCONT)
        goes_on = wait_for(program, "S") and wait_for(child.pid, "S")
        print(f"{number.name} to the command:", stops, goes_on)
    os.kill(program, number)
    stops = wait_for(program, "T")
    os.kill(program, signal.SIGCONT)
    goes_on = wait_for(program, "S") and state_of(child.pid) != "T"
    print(f"{number.name} to the program:", stops, goes_on)
    child.terminate()
    print("ended", child.wait())
