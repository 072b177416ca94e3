# Programs that map their data: filled once, then used with the kernel's and the run's mappings.
import hashlib, random, sys

work, is_fill = sys.argv[1], sys.argv[2] == 'fill'
chance, found = random.Random(1), hashlib.sha256()


def use_sqlite():
    import sqlite3
    database = sqlite3.connect('data.db')
    database.execute('pragma mmap_size=1000000000')
    if is_fill:
        database.execute('create table t(a integer primary key, b)')
        rows = ((row, '%0300d' % chance.getrandbits(64)) for row in range(30000))
        database.executemany('insert into t values(?, ?)', rows)
        return database.commit()
    for turn in range(2000):
        row = database.execute('select b from t where a = ?', (chance.randrange(30000),)).fetchone()
        found.update(repr(row).encode())
        if turn % 10 == 0:
            row = (str(turn), chance.randrange(30000))
            database.execute('update t set b = b || ? where a = ?', row)
        if turn % 300 == 0:
            database.commit()
    database.commit()
    print(database.execute('pragma integrity_check').fetchone())
    print(database.execute('select sum(length(b)) from t').fetchone())


def use_lmdb():
    import lmdb
    # Mapped for reading, written with pwrite.
    environment = lmdb.open('data.lmdb', map_size=1 << 28, subdir=False)
    for _ in range(5 if is_fill else 10):
        with environment.begin(write=True) as change:
            for _ in range(5000 if is_fill else 100):
                key = b'%08d' % chance.randrange(50000)
                found.update(change.get(key) or b'-')
                change.put(key, b'%0400d' % chance.getrandbits(64))
    with environment.begin() as look:
        for key, value in look.cursor():
            found.update(key + value)


def use_usearch():
    import numpy
    from usearch.index import Index
    vectors = numpy.random.default_rng(1).standard_normal((6000, 96), dtype=numpy.float32)
    if is_fill:
        index = Index(ndim=96, metric='l2sq', dtype='f32')
        index.add(numpy.arange(6000), vectors, threads=1)
        return index.save('data.usearch')
    index = Index.restore('data.usearch', view=True)
    found.update(index.search(vectors[::40], 10, threads=1).keys.tobytes())


def use_faiss():
    import faiss, numpy
    faiss.omp_set_num_threads(1)
    vectors = numpy.random.default_rng(1).standard_normal((20000, 64), dtype=numpy.float32)
    if is_fill:
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(64), 64, 50)
        index.train(vectors[:4000])
        index.add(vectors)
        return faiss.write_index(index, 'data.faiss')
    index = faiss.read_index('data.faiss', faiss.IO_FLAG_MMAP)
    index.nprobe = 8
    found.update(index.search(vectors[::100], 5)[1].tobytes())


def use_memmap():
    import numpy
    if is_fill:
        return numpy.random.default_rng(5).standard_normal(1500000).tofile('data.bin')
    array = numpy.memmap('data.bin', dtype='f8', mode='r')
    at = numpy.random.default_rng(6).integers(0, len(array), 5000)
    found.update(array)
    print(repr(float(array.sum())), repr(float(array[at].sum())), float(numpy.sort(array)[1000]))
    own = numpy.memmap('data.bin', dtype='f8', mode='c')
    own[5] = 1
    found.update(own[:1000])


globals()['use_' + work]()
print(found.hexdigest())
