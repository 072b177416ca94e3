# A C project, made by two jobs: a folder with a Makefile. MAKEFLAGS go to make.
case $1 in
check)
  for program in make cc; do
    command -v $program >/dev/null || echo "$program is not installed: apt install build-essential"
  done
  [ -f "$6/Makefile" ] || echo 'no C project with a Makefile: --source names its folder'
  ;;
before)
  rm -rf "$2/build" && cp -r "$6" "$2/build"
  ;;
run)
  SOURCE_DATE_EPOCH=0 make -j2 -C "$2/build" >"$2/log" 2>&1 || { tail "$2/log" >&2; exit 1; }
  ;;
after)
  cd "$2/build" && find . -name '*.o' | sort | xargs cksum
  ;;
esac
