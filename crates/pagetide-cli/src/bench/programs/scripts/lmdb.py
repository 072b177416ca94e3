# Gets by chance of values of 1000 bytes; but for `linux-default` the mapping is told MADV_RANDOM.
import random, sys, time

step, folder, nr_bytes, nr_gets, reference = sys.argv[1:6]
path, nr = folder + '/bench.lmdb', int(nr_bytes) // 1024
try:
    import lmdb
except ImportError:
    print('python3 has no module lmdb: apt install python3-lmdb')
    sys.exit()

if step == 'make':
    environment = lmdb.open(path, map_size=2 * int(nr_bytes), subdir=False, lock=False, sync=False)
    chance = random.Random(1)
    with environment.begin(write=True) as change:
        for key in range(nr):
            change.put(b'%010d' % key, chance.randbytes(1000), append=True)
    environment.sync(True)
if step == 'run':
    is_default = reference == 'linux-default'
    environment = lmdb.open(path, subdir=False, lock=False, readonly=True, readahead=is_default)
    chance, found, few = random.Random(2), 0, int(nr_gets) // 10
    # The kernel reads around a page that is not advised otherwise, for milliseconds.
    nr_gets = few if is_default else int(nr_gets)
    with environment.begin(buffers=True) as look:
        started = time.perf_counter()
        for get in range(nr_gets):
            value = look.get(b'%010d' % chance.randrange(nr))
            if get < few:
                found = (31 * found + value[0] + value[999]) & 0xffffffff
        print('ns', (time.perf_counter() - started) * 1e9 / nr_gets, nr_gets)
        print(found)
