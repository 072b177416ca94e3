# A load that one client repeats exactly, a clean restart, and a digest of each table.
# Arguments: scale, transactions.
set -eu
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
export PGHOST=$PWD PGUSER=owner PGDATABASE=postgres
scale=$1 transactions=$2

ask() { psql --no-psqlrc --quiet --tuples-only --no-align --command="$1"; }
fail() {
  echo "$1" >&2
  tail -n 20 server.log >&2
  kill -9 "$server"
  exit 1
}
start() {
  postgres -D data -k "$PWD" -c listen_addresses= -c shared_buffers=2MB -c max_wal_size=64MB \
    >>server.log 2>&1 &
  server=$!
  until ask 'select 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || fail 'the server does not begin'
  done
}
stop() {
  kill -INT "$server"
  wait "$server" || fail 'the server does not end'
}

initdb --username=owner --auth=trust --data-checksums --no-locale --pgdata=data >initdb.log 2>&1 ||
  { cat initdb.log >&2; exit 1; }
start
pgbench --initialize --quiet --scale="$scale" >pgbench.log 2>&1 || fail "$(cat pgbench.log)"
pgbench --no-vacuum --client=1 --transactions="$transactions" --random-seed=1 >pgbench.log 2>&1 ||
  fail "$(cat pgbench.log)"
stop
start
for table in 'accounts order by aid' 'branches order by bid' 'tellers order by tid'; do
  ask "select * from pgbench_$table" | md5sum
done
ask 'select tid, bid, aid, delta from pgbench_history order by 1, 2, 3, 4' | md5sum
stop
