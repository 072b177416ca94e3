# Transactions that read and write a MariaDB whose buffer pool is small (sysbench).
PATH=$PATH:/usr/sbin
folder=$2 user=$(id -un) rows=$(($3 / 500))
sql() { mariadb --no-defaults --socket="$folder/s" --user=root --skip-column-names "$@"; }
load() {
  sysbench oltp_read_write --db-driver=mysql --mysql-socket="$folder/s" --mysql-user=root \
    --mysql-db=t --tables=2 --table-size="$rows" --threads=4 --time=0 "$@"
}
fail() {
  cat "$folder/log" >&2
  kill "$server"
  exit 1
}
start() {
  mariadbd --no-defaults --user="$user" --datadir="$folder/$1" --socket="$folder/s" \
    --skip-networking --innodb-use-native-aio=0 --innodb-flush-method=fsync \
    --innodb-buffer-pool-size=8M --innodb-log-file-size=8M --log-error="$folder/log" \
    >/dev/null 2>&1 &
  server=$!
  until sql --execute='select 1' >/dev/null 2>&1; do kill -0 $server || fail; done
}
trap 'kill "$server"; exit 1' INT TERM
stop() { sql --execute=shutdown && wait $server || fail; }
case $1 in
check)
  for program in mariadbd sysbench mariadb; do
    command -v $program >/dev/null ||
      echo "$program is not installed: apt install mariadb-server sysbench"
  done
  ;;
make)
  mariadb-install-db --no-defaults --user="$user" --datadir="$2/made" --skip-test-db \
    --innodb-use-native-aio=0 --auth-root-authentication-method=normal >"$2/log" 2>&1 || exit
  start made
  sql --execute='create database t' && load prepare >"$2/load" || fail
  stop
  ;;
before)
  rm -rf "$2/data" && cp -r "$2/made" "$2/data"
  ;;
run)
  start data
  load --events="$4" run >"$2/load" || fail
  stop
  awk '/total time:/ { sub("s", "", $3); print "ns", $3 * 1e9 / '"$4"', '"$4"' }' "$2/load"
  ;;
after)
  start data
  mariadb-check --no-defaults --socket="$2/s" --user=root --extended t || fail
  stop
  ;;
esac
