"""Replays and curves: the command's numbers, from files and from arrays."""

import array
import json
import os
import random
import signal
import subprocess
import sys
import threading

import pytest

import pagetide

COMMAND = os.path.join(os.path.dirname(sys.executable), "pagetide")
needs_command = pytest.mark.skipif(
    not os.path.exists(COMMAND), reason="the wheel has no command: build the command first"
)
POLICIES = ["lru", "mglru", "pagetide", "s3fifo", "opt"]


def skewed(nr_accesses=40_000, nr_pages=3000, seed=1):
    uniform = random.Random(seed).random
    return [int(uniform() ** 3 * nr_pages) for _ in range(nr_accesses)]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "skewed.txt"
    path.write_text("".join(f"{page}\n" for page in skewed()))
    return path


def told(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments), "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)["rows"]


@needs_command
def test_the_command_comes_along_and_runs_programs(tmp_path):
    assert pagetide.__version__ in subprocess.check_output([COMMAND, "--version"], text=True)
    (tmp_path / "words").write_text("the tide comes in")
    run = [COMMAND, "run", "--memory", "64M", "--", "cat", tmp_path / "words"]
    assert subprocess.check_output(run, text=True) == "the tide comes in"


@needs_command
def test_a_replay_has_the_numbers_of_the_command(trace):
    sizes = ["1M", "64K", "4M"]
    rows = pagetide.replay(trace, sizes, POLICIES).to_dicts()
    asked = ["--memory", ",".join(sizes), "--policy", ",".join(POLICIES)]
    for row, expected in zip(rows, told("replay", trace, *asked), strict=True):
        del row["seconds"], expected["seconds"]
        assert row == expected


@needs_command
@pytest.mark.parametrize("sample", [None, 0.5])
def test_a_curve_has_the_numbers_of_the_command(trace, sample):
    points = pagetide.mrc(trace, POLICIES, points=7, sample=sample).to_dicts()
    sampled = ["--sample", sample] if sample else []
    expected = told("mrc", trace, "--policy", ",".join(POLICIES), "--points", 7, *sampled)
    assert points == expected


def test_arrays_of_pages_are_as_good_as_a_file(trace):
    np = pytest.importorskip("numpy")
    pages = skewed()
    from_file = pagetide.replay(trace, "256K", POLICIES).to_dicts()
    for given in (pages, array.array("Q", pages), np.array(pages), np.array(pages, "u4"),
                  np.repeat(np.array(pages, "i8"), 2)[::2]):
        rows = pagetide.replay(given, frames=64, policy=POLICIES).to_dicts()
        for row, expected in zip(rows, from_file, strict=True):
            assert row | {"seconds": 0} == expected | {"seconds": 0}
    assert pagetide.mrc(pages, "lru", points=5) == pagetide.mrc(trace, "lru", points=5)
    assert len(pagetide.mrc(pages, "arc", points=3, sample=0.5)) == 3


def test_kinds_and_times_are_what_they_say():
    pages, kinds = [1, 2, 1, 3, 1], "rwrdr"
    [row] = pagetide.replay(pages, "1M", "lru", kinds=kinds)
    assert (row.accesses, row.misses) == (4, 2)
    [row] = pagetide.replay(pages, "1M", "lru", kinds=[False, True, False, True, False])
    assert (row.accesses, row.misses, row.miss_ratio) == (5, 3, 0.6)
    [row] = pagetide.replay(pages, "1M", "lru", times=[0, 0.5, 1, 1.5, 60], clock="trace")
    assert row.misses == 3


@pytest.mark.parametrize("arguments, said", [
    (([],), "no accesses"),
    (([-1],), "page numbers"),
    (([1.5],), "float"),
    (([1], "0"), "at least 4K"),
    (([1], ()), "how much memory"),
    (([1], "64M", "fastest"), "fastest"),
    (([1], "huge"), "huge"),
])
def test_what_makes_no_sense_is_a_sentence(arguments, said):
    memory = arguments[1:2] or ("64M",)
    with pytest.raises((ValueError, TypeError), match=said):
        pagetide.replay(arguments[0], *memory, *arguments[2:])


def test_wrong_keywords_and_lengths_are_sentences(trace):
    for wrong in ({"times": [1, 2]}, {"kinds": "rr"}, {"kinds": "x"}, {"clock": "sun"},
                  {"format": "docx"}, {"readahead": "all"}, {"times": [-1]}):
        with pytest.raises((ValueError, OverflowError)):
            pagetide.replay([1], "64M", **wrong)
    for wrong in ({"points": 0}, {"sample": 0}, {"sample": 0.001}, {"policy": "fastest"}):
        with pytest.raises(ValueError):
            pagetide.mrc(trace, **wrong)
    with pytest.raises(ValueError, match="its own"):
        pagetide.replay(trace, "64M", kinds="r")


def test_a_file_that_is_none_is_an_error_of_pythons(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        pagetide.replay(tmp_path / "absent", "64M")
    assert caught.value.filename == str(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        pagetide.replay(tmp_path, "64M")
    damaged = tmp_path / "damaged.txt"
    damaged.write_text("1\n2\nthree\n")
    with pytest.raises(ValueError, match="line 3.*lenient"):
        pagetide.replay(damaged, "64M")
    assert pagetide.replay(damaged, "64M", "lru", lenient=True)[0].accesses == 2
    unknown = tmp_path / "unknown"
    unknown.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="format="):
        pagetide.mrc(unknown)


class PythonLru(pagetide.Policy):
    def __init__(self, frames):
        self.pages = {}

    def hit(self, pages):
        for page in pages:
            self.pages[page] = self.pages.pop(page)

    def miss(self, page):
        self.pages[page] = None

    def evict(self):
        page = next(iter(self.pages))
        del self.pages[page]
        return page

    def discard(self, page):
        del self.pages[page]


class PythonFifo(PythonLru):
    def hit(self, pages):
        pass


def test_a_policy_in_python_plays_beside_the_others(trace):
    asked = ["lru", PythonLru, PythonFifo, "fifo"]
    rows = pagetide.replay(trace, ["1M", "2M"], asked)
    for lru, python_lru, python_fifo, fifo in (rows[:4], rows[4:]):
        assert python_lru.misses == lru.misses and python_lru.evictions == lru.evictions
        assert python_fifo.misses == fifo.misses != lru.misses
        assert (python_lru.policy, python_lru.frames) == ("PythonLru", lru.frames)
    [row] = pagetide.replay([1, 2, 1, 1, 3, 1], frames=2, policy=PythonLru, kinds="rrdrwr")
    assert (row.accesses, row.misses, row.evictions) == (5, 4, 1)


def test_a_policy_in_python_that_errs_is_told_so():
    class Wrong(PythonLru):
        def evict(self):
            return 77

    with pytest.raises(ValueError, match="Wrong.evict returned 77"):
        pagetide.replay([1, 2, 3], frames=2, policy=[Wrong])
    with pytest.raises(TypeError, match="abstract"):
        pagetide.replay([1], "1M", pagetide.Policy)


def test_a_signal_that_another_thread_sends_ends_a_replay():
    def raised(*_):
        raise KeyboardInterrupt

    pages, before = array.array("Q", skewed(400_000) * 25), signal.signal(signal.SIGUSR1, raised)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                pagetide.replay(pages, "1M", ["lirs", "arc", "opt"], jobs=1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_rows_are_tables_of_others(trace):
    rows = pagetide.replay(trace, ["1M", "2M"], ["lru", "opt"])
    assert (len(rows), len(rows[:2]), rows[0].policy, rows[-1].frames) == (4, 2, "lru", 512)
    assert "miss_ratio" in str(rows) and "<table>" in rows._repr_html_()
    assert rows.to_columns()["policy"] == ["lru", "opt"] * 2
    pandas = pytest.importorskip("pandas")
    assert isinstance(rows.to_pandas(), pandas.DataFrame) and len(rows.to_pandas()) == 4
    arrow = pytest.importorskip("pyarrow")
    assert isinstance(rows.to_arrow(), arrow.Table)


def test_curves_draw_themselves(trace):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    for sample in (None, 0.5):
        ax = pagetide.mrc(trace, ["lru", "arc"], points=4, sample=sample).plot()
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["lru", "arc"]
