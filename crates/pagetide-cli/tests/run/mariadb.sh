# A database server under a load, with buffered I/O: sysbench reads and writes, the server ends and
# begins again, every table is checked. Arguments: threads, transactions, rows of a table.
set -eu
PATH=$PATH:/usr/sbin
here=$PWD who=$(id -un) threads=$1 transactions=$2 rows=$3
server=

# What is wrong ends here, and never leaves a server behind.
fail() {
  cat "$1" >&2
  [ -z "$server" ] || kill -9 "$server"
  exit 1
}
sql() { mariadb --no-defaults --socket=data/s --user=root --skip-column-names "$@"; }
load() {
  sysbench oltp_read_write --db-driver=mysql --mysql-socket=data/s --mysql-user=root \
    --mysql-db=t --tables=2 --table-size="$rows" --threads="$threads" \
    --events="$transactions" --time=0 "$1" >"$1.log" 2>&1 || fail "$1.log"
}
start() {
  mariadbd --no-defaults --user="$who" --datadir="$here/data" --socket=s --skip-networking \
    --innodb-use-native-aio=0 --innodb-flush-method=fsync --innodb-buffer-pool-size=8M \
    --innodb-log-file-size=8M --log-error="$here/server.log" 2>>server.err &
  server=$!
  until sql --execute='select 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { server=; fail server.log; }
  done
}
stop() {
  sql --execute=shutdown || fail server.log
  wait "$server" || { server=; fail server.log; }
}

mariadb-install-db --no-defaults --user="$who" --datadir="$here/data" --skip-test-db \
  --innodb-use-native-aio=0 --auth-root-authentication-method=normal >install.log 2>&1 ||
  fail install.log
start
sql --execute='create database t'
load prepare
load run
sql --execute='checksum table t.sbtest1, t.sbtest2' >before
stop
start
sql --execute='checksum table t.sbtest1, t.sbtest2' >after
cmp before after || fail after
mariadb-check --no-defaults --socket=data/s --user=root --extended t
stop
grep 'transactions:' run.log
grep -c 'mariadbd: Shutdown complete' server.log
