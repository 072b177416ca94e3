# Repeatedly kills a writing child, waits for it, and reads the file twice.
# Prints the number of differing reads.
import os, select, signal, sys, threading, time

LEN, THREADS = 1 << 20, 4

def see_by_pidfd(child):
    process = os.pidfd_open(child)
    select.select([process], [], [])
    os.close(process)

def see_by_signal(child):
    signal.sigwaitinfo({signal.SIGCHLD})

def see_by_pipe(child):
    assert os.read(ends[0], 1) == b""

ways = {
    "pipe": see_by_pipe,
    "pidfd": see_by_pidfd,
    "signal": see_by_signal,
    "waitpid": lambda child: os.waitpid(child, 0),
    "waitid": lambda child: os.waitid(os.P_PID, child, os.WEXITED),
    "wait": lambda child: os.wait(),
    "wait4": lambda child: os.wait4(child, 0),
    "wait3": lambda child: os.wait3(0),
}
wait, read_by = ways[sys.argv[1]], sys.argv[2]
nr_rounds = int(sys.argv[3])
file = os.open("killed", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.pwrite(file, bytes(LEN), 0)

def write_on(bytes_, at):
    part = LEN // THREADS
    while True:
        os.pwrite(file, bytes_[at * part:(at + 1) * part], at * part)
        bytes_ = bytes(byte ^ 0x80 for byte in bytes_[:1]) * LEN

def look():
    if read_by == "position":
        os.lseek(file, 0, os.SEEK_SET)
        return os.read(file, LEN)
    if read_by == "requests":
        # A read in several parts always asks the server.
        parts = [bytearray(LEN // 2), bytearray(LEN // 2)]
        assert os.preadv(file, parts, 0) == LEN
        return bytes(parts[0] + parts[1])
    return os.pread(file, LEN, 0)

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})

nr_changed = 0
for turn in range(nr_rounds):
    ends = os.pipe()
    child = os.fork()
    os.close(ends[child != 0])
    if child == 0:
        contents = bytes([1 + turn % 100]) * LEN
        for at in range(THREADS - 1):
            threading.Thread(target=write_on, args=(contents, at), daemon=True).start()
        write_on(contents, THREADS - 1)
    while os.pread(file, 1, LEN - 1)[0] & 0x7f != 1 + turn % 100:
        pass
    time.sleep(turn % 7 / 1000)
    os.kill(child, signal.SIGKILL)
    wait(child)
    first = look()
    time.sleep(0.02)
    nr_changed += first != look()
    os.close(ends[0])
print(nr_changed)
