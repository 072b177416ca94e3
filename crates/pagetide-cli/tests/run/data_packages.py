"""Reads and writes files larger than the limit through data packages.

Arguments: the package, `fill` or `use`, and the size of the files in MB. `fill` runs natively.
`use` prints the results, which must be equal natively and in a run.
"""
import hashlib
import random
import sys

package, is_fill, megabytes = sys.argv[1], sys.argv[2] == "fill", int(sys.argv[3])
chance, found = random.Random(1), hashlib.sha256()
nr_doubles = megabytes << 17


def use_numpy():
    import numpy

    if is_fill:
        return numpy.random.default_rng(1).standard_normal(nr_doubles).tofile("in.bin")
    source = numpy.memmap("in.bin", dtype="f8", mode="r")
    found.update(source)
    # A copy through a writable mapping in random order.
    target = numpy.memmap("out.bin", dtype="f8", mode="w+", shape=source.shape)
    step = 1 << 16
    starts = list(range(0, nr_doubles, step))
    chance.shuffle(starts)
    for start in starts:
        target[start : start + step] = source[start : start + step] * 2
    target[::4096] = 1
    target.flush()
    found.update(numpy.fromfile("out.bin"))
    private = numpy.memmap("in.bin", dtype="f8", mode="c")
    private[::1024] = 3
    found.update(private)
    numpy.save("out.npy", numpy.array(source[::-1]))
    # numpy writes each of these with one call, from the mapping.
    with open("out.few", "wb") as few:
        source[: 1 << 13][::-1].tofile(few)
    found.update(numpy.ascontiguousarray(numpy.load("out.npy", mmap_mode="r")[::7]))
    found.update(numpy.load("out.npy"))


def use_h5py():
    import h5py
    import numpy

    if is_fill:
        with h5py.File("data.h5", "w") as data:
            whole = numpy.random.default_rng(2).standard_normal((nr_doubles // 1024, 1024))
            data.create_dataset("chunked", data=whole, chunks=(64, 128))
            data.create_dataset("plain", data=whole[: len(whole) // 4])
        return
    # With locks, the library calls flock.
    for is_locked in (False, True):
        change_h5py(h5py, numpy, is_locked)


def change_h5py(h5py, numpy, is_locked):
    with h5py.File("data.h5", "r+", locking=is_locked) as data:
        chunked, plain = data["chunked"], data["plain"]
        for _ in range(100):
            row, column = chance.randrange(len(chunked) - 64), chance.randrange(1024 - 64)
            piece = chunked[row : row + 64, column : column + 64]
            found.update(piece.tobytes())
            chunked[row : row + 64, column : column + 64] = piece + 1
        plain[::3] = plain[1::3][: len(plain[::3])].sum()
        grown = data.create_dataset("grown%d" % is_locked, (0,), "f8", maxshape=(None,), chunks=(4096,))
        for turn in range(64):
            grown.resize((grown.shape[0] + 10000,))
            grown[-10000:] = numpy.arange(10000) * turn
        data.flush()
    with h5py.File("data.h5", "r", locking=is_locked) as data:
        for name in sorted(data):
            for start in range(0, len(data[name]), 512):
                found.update(data[name][start : start + 512].tobytes())


def table(library):
    import numpy

    doubles, nr_rows = numpy.random.default_rng(3), megabytes << 15
    whole = {"key": numpy.arange(nr_rows), "group": doubles.integers(0, 50, nr_rows)}
    whole["word"] = numpy.char.add("w", whole["group"].astype(str)).tolist()
    return library({**whole, "value": doubles.integers(0, 1 << 40, nr_rows)})


def use_pyarrow():
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    if is_fill:
        whole = table(pyarrow.table)
        pyarrow.feather.write_feather(whole, "in.feather", compression="uncompressed")
        options = {"compression": "none", "use_dictionary": False, "row_group_size": 100000}
        return pyarrow.parquet.write_table(whole, "in.parquet", **options)

    def note(part):
        sums = [part[name].to_numpy().sum() for name in ("key", "group", "value")]
        print(part.num_rows, *sums, len(part["word"].unique()))

    for is_mapped in (True, False):
        feather = pyarrow.feather.read_table("in.feather", memory_map=is_mapped)
        note(feather)
        note(pyarrow.parquet.read_table("in.parquet", memory_map=is_mapped))
        with pyarrow.memory_map("in.feather") as whole:
            found.update(whole.read_buffer())
        name = "out%d" % is_mapped
        pyarrow.feather.write_feather(feather.slice(1000), name + ".feather", compression="lz4")
        pyarrow.parquet.write_table(feather.slice(2000), name + ".parquet")
        note(pyarrow.feather.read_table(name + ".feather", memory_map=is_mapped))
        note(pyarrow.parquet.read_table(name + ".parquet", memory_map=is_mapped))
    with pyarrow.memory_map("in.feather", "r+") as changed:
        for _ in range(200):
            changed.seek(chance.randrange(changed.size() // 2, changed.size() - 4096))
            found.update(changed.read(4096))


def use_polars():
    import polars

    if is_fill:
        whole = table(polars.DataFrame)
        whole.write_parquet("in.parquet", compression="uncompressed", row_group_size=50000)
        whole.write_ipc("in.arrow", compression="uncompressed")
        return whole.write_csv("in.csv")
    column = polars.col
    for scan in (
        polars.scan_parquet("in.parquet"),
        polars.scan_ipc("in.arrow"),
        polars.scan_csv("in.csv"),
    ):
        groups = scan.group_by("group", "word").agg(column("value").sum(), column("key").max())
        found.update(groups.sort("group", "word").collect().write_csv().encode())
        few = scan.filter(column("value") % 1009 == 0).sort("key").collect()
        found.update(few.write_csv().encode())
    # Threads of the package write while it reads the mapped file.
    polars.scan_parquet("in.parquet").filter(column("group") < 25).sink_parquet("out.parquet")
    polars.read_ipc("in.arrow").write_ipc("out.arrow")
    for again in (polars.read_parquet("out.parquet"), polars.read_ipc("out.arrow")):
        sums = again.sort("key").select(column("key", "group", "value").sum())
        print(again.height, sums.row(0))


globals()["use_" + package]()
print(found.hexdigest())
