# Point queries by rowid, rows of about a page; as sqlite-mapped, the database is mapped.
shell="sqlite3 $2/bench.db" rows=$(($3 / 4096))
case $1 in
check)
  command -v sqlite3 >/dev/null || echo 'sqlite3 is not installed: apt install sqlite3'
  ;;
make)
  $shell "pragma journal_mode=off; pragma synchronous=off;
    create table t(a integer primary key, b blob);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < $rows)
      insert into t select i, randomblob(3900) from n;" &&
  # Every query a row by chance, the same for subject and reference.
  $shell "with recursive n(i, x) as (select 1, 1 union all
      select i + 1, (x * 1103515245 + 12345) & 2147483647 from n where i < $4)
    select 'select hex(substr(b, 2000, 8)) from t where a=' || (1 + (x >> 8) % $rows) || ';'
      from n;" >"$2/queries.sql"
  ;;
run)
  mapped=0 nr=$4
  [ "$0" = sqlite-mapped ] && [ "$5" != linux-read ] && mapped=$((2 * $3))
  # The kernel reads around a page that is not advised otherwise, for milliseconds.
  [ "$5" = linux-mapped ] && nr=$(($4 / 10))
  began=$(date +%s%N)
  head -n "$nr" "$2/queries.sql" | sqlite3 -cmd "pragma mmap_size=$mapped" "$2/bench.db" |
    sed -n "2,$(($4 / 10 + 1))p" | cksum
  echo "ns $((($(date +%s%N) - began) / nr)) $nr"
  ;;
esac
