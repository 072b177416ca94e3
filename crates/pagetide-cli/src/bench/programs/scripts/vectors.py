# Nearest neighbours of vectors by chance, in an index that is viewed from its file (usearch).
import sys, time

step, folder, nr_bytes, nr_queries, reference = sys.argv[1:6]
# 768 numbers, as text models make, and the node's neighbours.
path, nr, ndim = folder + '/bench.usearch', int(nr_bytes) // 3220, 768
try:
    import numpy
    from usearch.index import Index
except ImportError:
    print('python3 has no module usearch: pip install usearch, in a venv that is first in PATH')
    sys.exit()

if step == 'make':
    index = Index(ndim=ndim, metric='l2sq', dtype='f32', connectivity=16, expansion_add=16)
    vectors = numpy.random.default_rng(1).standard_normal((nr, ndim), dtype=numpy.float32)
    index.add(numpy.arange(nr), vectors)
    index.save(path)
if step == 'run':
    index = Index.restore(path, view=True)
    # The kernel reads around a page that is not advised otherwise, for milliseconds.
    nr_queries = 1 if reference == 'linux' else int(nr_queries)
    queries = numpy.random.default_rng(2).standard_normal((nr_queries, ndim), numpy.float32)
    started = time.perf_counter()
    found = [index.search(query, 10, threads=1) for query in queries]
    print('ns', (time.perf_counter() - started) * 1e9 / nr_queries, nr_queries)
    print(found[0].keys)
