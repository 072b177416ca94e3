"""Inserts rows into a database with concurrent writers.

Arguments: name, rows, journal mode, and the mapping size in bytes if mapped.
"""
import sqlite3
import sys

name, count, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rows = sqlite3.connect("rows.db", timeout=5, isolation_level=None)


def persist(statement, *values):
    """Waits for others however long they take."""
    while True:
        try:
            return rows.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise


for size in sys.argv[4:]:
    assert persist("pragma mmap_size=%s" % size) == [(int(size),)]
while persist("pragma journal_mode=%s" % mode) != [(mode,)]:
    pass
persist("pragma synchronous=normal")
persist("create table if not exists t(a integer primary key, who text, nr int, b text)")
persist("create index if not exists i on t(b)")
for number in range(count):
    persist("begin immediate")
    persist("insert into t(who, nr, b) values(?, ?, hex(randomblob(300)))", name, number)
    if number % 7 == 0:
        persist("update t set b = hex(randomblob(200)) where nr = ?", number // 2)
    persist("commit")
    if number % 20 == 0:
        own = persist("select count(*) from t where who = ?", name)
        assert own == [(number + 1,)], (own, number)
