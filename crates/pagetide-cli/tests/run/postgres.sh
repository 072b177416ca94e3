# A database server whose processes are killed under a load, again and again: each time it recovers
# what it had said was committed. Arguments: kills, transactions each must have had before, scale.
set -eu
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
export PGHOST=$PWD PGUSER=owner PGDATABASE=postgres
kills=$1 transactions=$2 scale=$3
server=

# What is wrong ends here, and never leaves a server behind.
fail() {
  echo "$1" >&2
  tail -n 20 server.log >&2
  [ -z "$server" ] || kill -9 "$server"
  exit 1
}
ask() { psql --no-psqlrc --quiet --tuples-only --no-align --command="$1"; }
start() {
  postgres -D data -k "$PWD" -c listen_addresses= -c shared_buffers=2MB -c fsync=on \
    -c max_wal_size=64MB >>server.log 2>&1 &
  server=$!
  until ask 'select 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { server=; fail 'the server does not begin'; }
  done
}

initdb --username=owner --auth=trust --pgdata=data >initdb.log 2>&1 || fail "$(cat initdb.log)"
start
pgbench --initialize --quiet --scale="$scale" >pgbench.log 2>&1 || fail "$(cat pgbench.log)"
for round in $(seq "$kills"); do
  before=$(ask 'select count(*) from pgbench_history')
  pgbench --no-vacuum --client=4 --transactions=1000000 >pgbench.log 2>&1 &
  load=$!
  until [ "$(ask 'select count(*) from pgbench_history')" -ge $((before + transactions)) ]; do
    kill -0 "$load" || fail "$(cat pgbench.log)"
  done
  committed=$(ask 'select count(*) from pgbench_history')
  children=$(cat "/proc/$server/task/$server/children")
  kill -9 "$server"
  # Some may be gone already.
  kill -9 $children || :
  wait "$server" || :
  wait "$load" || :
  start
  after=$(ask 'select count(*) from pgbench_history')
  [ "$after" -ge "$committed" ] || fail "$committed were committed, and $after are there"
done
# What each transaction adds, it adds to three tables and tells in the fourth.
ask 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
  (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history),
  (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)'
ask 'create extension amcheck' && ask "select bool_and(bt_index_check(c.oid, true) is not null)
  from pg_class c join pg_am a on a.oid = c.relam where amname = 'btree' and relpersistence = 'p'"
kill -INT "$server"
wait "$server" || fail 'the server does not end'
