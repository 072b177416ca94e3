# Reads skewed pages of a file, and sometimes allocates memory for a while.
# Arguments: file, seconds, bytes of a burst, seconds between bursts.
import os, random, sys, threading, time

path, seconds, burst, pause = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
end = time.monotonic() + seconds
nr_bursts = 0


def take():
    global nr_bursts
    while time.monotonic() + pause < end:
        time.sleep(pause)
        memory = bytearray(burst)
        memory[:: 4096] = b"x" * len(memory[:: 4096])
        nr_bursts += 1
        time.sleep(pause / 4)
        del memory


taker = threading.Thread(target=take)
taker.start()
file = os.open(path, os.O_RDONLY)
pages, nr, chance = os.fstat(file).st_size // 4096, 0, random.Random(1)
while time.monotonic() < end:
    for _ in range(64):
        os.pread(file, 4096, int(chance.random() ** 3 * pages) * 2654435761 % pages * 4096)
        nr += 1
taker.join()
print(nr, nr_bursts)
