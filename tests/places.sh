#!/usr/bin/env bash
# Runs `make test` where a newcomer may stand: twelve places, each with a fresh checkout of its own.
#   bash tests/places.sh                         # all of them, each a whole `make test`
#   bash tests/places.sh nohup zip               # these alone
#   TESTS=tests/schema bash tests/places.sh      # with these tests alone
# The checkouts use this one's .venv, but for those of another Python. Prints a line for each place, and
# the end of its log where it fails. Exits with the number of places that failed.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export TESTS=${TESTS:-}
work=$(mktemp -d)
chmod 755 "$work"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
places="after-grpo nohup one-thread four-threads no-home umlauts another-zone zip python-3.12 python-3.13 read-only twice"

# `make` installs where the environment is older than these files, so they are made old.
checkout() {
  git clone --quiet "$root" "$work/$1"
  cd "$work/$1" || exit 1
  ln -s "$root/.venv" .venv
  touch -t 200001010000 Makefile pyproject.toml requirements.lock
}

# Without root's power to write everywhere, and with a home that cannot be written.
ordinary() {
  local as=()
  [ "$(id -u)" = 0 ] && as=(setpriv --inh-caps=-all --bounding-set=-all)
  mkdir -p "$work/home"
  chmod 500 "$work/home"
  HOME=$work/home ${as[@]+"${as[@]}"} "$@"
}

another_python() {
  local python
  # pyenv's own first: its python3.12 on the PATH runs the version that is chosen, or none.
  python=$(ls -d "$HOME/.pyenv/versions/$1".*/bin/python 2> /dev/null | tail -n 1)
  python=${python:-$(command -v "python$1")}
  if ! "$python" --version > /dev/null 2>&1; then
    echo "NOT RUN: there is no Python $1"
    return
  fi
  checkout "python-$1"
  rm .venv
  make test PYTHON="$python"
}

run() {
  case $1 in
    after-grpo) checkout "$1" && make grpo && make test && make grpo ;;
    nohup) checkout "$1" && nohup make test < /dev/null ;;
    one-thread) checkout "$1" && OMP_NUM_THREADS=1 make test ;;
    four-threads) checkout "$1" && OMP_NUM_THREADS=4 make test ;;
    no-home) checkout "$1" && ordinary make test ;;
    umlauts) checkout "ein Ort für Übungen" && make test ;;
    another-zone) checkout "$1" && TZ=Asia/Kathmandu LC_ALL=C make test ;;
    zip) checkout "$1" && rm -rf .git && without_git make test ;;
    python-*) another_python "${1#python-}" ;;
    read-only) checkout "$1" && mkdir outputs && chmod -R a-w . && chmod u+w outputs && ordinary make test ;;
    twice)
      checkout "$1"
      make test > "$work/first.log" 2>&1 &
      make test
      local second=$?
      wait $! && return "$second" ;;
    *) echo "there is no place $1; there are: $places" && false ;;
  esac
}

# What a downloaded archive on a slim system has: every program of /usr/bin but git.
without_git() {
  mkdir "$work/bin"
  ln -s /usr/bin/* "$work/bin"
  rm "$work/bin/git"
  PATH=$work/bin "$@"
}

failed=0
for place in ${*:-$places}; do
  started=$SECONDS
  if (run "$place") > "$work/$place.log" 2>&1; then
    outcome=$(grep -hE '^NOT RUN|(passed|failed).* in ' "$work/$place.log" | tail -n 1)
    echo "$place: ${outcome:-done} ($((SECONDS - started)) s)"
  else
    failed=$((failed + 1))
    echo "$place: FAILED ($((SECONDS - started)) s)"
    tail -n 30 "$work/$place.log"
  fi
done
exit "$failed"
