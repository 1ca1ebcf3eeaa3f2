#!/usr/bin/env bash
# The fast tests where a machine gives as little as it may:
#   benchmarks/bare_machines.sh [PYTHON...]    names or paths; default: python3.11 to python3.14, those that are there
# Each Python gets a fresh clone and a new environment in a folder whose name has a blank and a letter beyond ASCII. The
# tests run as a user without rights (from root: nobody), with a HOME that cannot be written and a PATH of what .ci/bare
# lists, in the locale C; those of text, files and configuration (LESS) also in C.UTF-8 and Turkish. One line a case.
# ARGS chooses other tests for the first run, KEEP=1 keeps the folder.
set -uo pipefail
repo=$(cd "$(dirname "$0")/.." && pwd)
LESS=${LESS:-tests/io tests/config tests/data tests/test_cli.py}
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13 python3.14
work=$(mktemp -d)
chmod 755 "$work"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
place="$work/Prüf stand"
mkdir -p "$place" "$work/tmp" "$work/home" "$work/locales"
as=()
if [ "$(id -u)" = 0 ]; then
    as=("$(command -v setpriv)" --reuid=65534 --regid=65534 --clear-groups)
    chown 65534:65534 "$place" "$work/tmp"
fi
chmod 555 "$work/home"
localedef -i tr_TR -f UTF-8 "$work/locales/tr_TR.UTF-8" 2>/dev/null || echo "no Turkish locale: localedef has no tr_TR here"

# inside FOLDER LOCALE COMMAND...: run a command as that user, with nothing else at hand.
inside() {
    local folder=$1 locale=$2
    shift 2
    local found=()
    # Only there: with LOCPATH, the system's own C.UTF-8 is not found, which Python takes in place of C.
    [ "$locale" != tr_TR.UTF-8 ] || found=(LOCPATH="$work/locales")
    (cd "$folder" && env -u LC_ALL -u LC_CTYPE -u PYTHONPATH -u VIRTUAL_ENV -u XDG_CACHE_HOME -u XDG_CONFIG_HOME HOME="$work/home" \
        TMPDIR="$work/tmp" "${found[@]}" LANG="$locale" PATH="$bin" "${as[@]}" "$@" </dev/null)
}

failed=0
for python in "$@"; do
    name=$(basename "$python")
    bin=$work/bin-$name folder=$place/$name
    if ! found=$(command -v "$python"); then
        echo "$name: not on this machine"
        continue
    fi
    PATH="$(dirname "$found"):$PATH" "$repo/.ci/bare" "$bin" >/dev/null
    if ! version=$(inside "$place" C "$name" -c 'import sys; print(sys.version.split()[0])' 2>&1); then
        echo "$name: the user without rights may not run it (${version##*$'\n'})"
        continue
    fi
    git clone -q "$repo" "$folder"
    [ ${#as[@]} = 0 ] || chown -R 65534:65534 "$folder"
    if ! inside "$folder" C make env PYTHON="$name" >"$work/log" 2>&1; then
        echo "$version: no environment: $(tail -n 1 "$work/log")"
        failed=1
        continue
    fi
    for locale in C C.UTF-8 tr_TR.UTF-8; do
        tests=$LESS
        [ "$locale" != C ] || tests=${ARGS:-}
        [ "$locale" != tr_TR.UTF-8 ] || [ -d "$work/locales/$locale" ] || continue
        inside "$folder" "$locale" make test ARGS="$tests" >"$work/log" 2>&1
        status=$?
        echo "$version, $locale, ${tests:-all fast tests}: $(tail -n 1 "$work/log" | tr -d =)"
        [ $status = 0 ] || { failed=1; grep -E '^(FAILED|ERROR|make:)' "$work/log"; }
    done
done
exit $failed
