"""Two programs alternate on one database, and each finds it locked while the other one writes.

Arguments: journal mode, rounds, and the words that begin the second program. This program runs
outside. The second one runs under pagetide and maps the database.
"""
import sqlite3
import subprocess
import sys

mode, rounds, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


class Writer:
    """A connection that never waits for a lock."""

    def open(self, name):
        self.rows = sqlite3.connect(name, timeout=0, isolation_level=None)
        self.rows.execute("pragma mmap_size=1000000000")
        self.count()

    def count(self):
        # Reads every page of the database and of its mapping.
        return self.rows.execute("select sum(length(b)), sum(nr) from t").fetchone()[1]

    def begin(self):
        try:
            self.rows.execute("begin immediate")
        except sqlite3.OperationalError as error:
            return str(error)
        return "begun"

    def add(self):
        self.rows.execute("update t set nr = nr + 1 where a = 7")

    def commit(self):
        self.rows.execute("commit")

    def close(self):
        self.rows.close()


class Inside:
    """A writer that the second program runs."""

    def __init__(self):
        pipe = subprocess.PIPE
        command = words + [sys.executable, __file__, mode, "0"]
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __getattr__(self, name):
        def ask(*values):
            self.child.stdin.write(repr((name, values)) + "\n")
            self.child.stdin.flush()
            return eval(self.child.stdout.readline())

        return ask


def turn(first, second, name):
    """The first writes a row; the second one, which opens the database meanwhile, has to wait."""
    first.open(name)
    before = first.count()
    assert first.begin() == "begun"
    first.add()
    second.open(name)
    for _ in range(3):
        refusal = second.begin()
        assert refusal == "database is locked", refusal
        assert (first.count(), second.count()) == (before + 1, before)
    first.commit()
    assert second.begin() == "begun"
    second.add()
    refusal = first.begin()
    assert refusal == "database is locked", refusal
    second.commit()
    assert (first.count(), second.count()) == (before + 2, before + 2)
    first.close()
    second.close()


if rounds == 0:
    writer = Writer()
    for line in sys.stdin:
        call, values = eval(line)
        print(repr(getattr(writer, call)(*values)), flush=True)
    sys.exit()

outside, inside = Writer(), Inside()
for number in range(rounds):
    # A database opened by nobody before, then one opened by both.
    name = "turns%d.db" % (number // 2)
    if number % 2 == 0:
        made = sqlite3.connect(name)
        made.execute("pragma journal_mode=%s" % mode)
        made.execute("create table t(a integer primary key, nr int, b text)")
        made.executemany("insert into t values(?, 0, ?)", [(a, "b" * 900) for a in range(400)])
        made.commit()
        made.close()
    turn(inside, outside, name)
    turn(outside, inside, name)
    whole = sqlite3.connect(name)
    assert whole.execute("pragma integrity_check").fetchone() == ("ok",)
    assert whole.execute("select sum(nr) from t").fetchone() == (4 * (number % 2 + 1),)
    whole.close()
inside.child.stdin.close()
assert inside.child.wait() == 0
print("ok")
