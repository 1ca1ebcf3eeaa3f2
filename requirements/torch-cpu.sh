#!/bin/sh
# Install torch's CPU build by hash, or add the hash of the file that the package index has here:
#   torch-cpu.sh install PIP [INDEX]    0: done; 3: no such build in the index; 2: another file
#   torch-cpu.sh lock PIP VERSION [INDEX]    VERSION as in requirements/core.in
# The index (TORCH_INDEX of make) is asked only where pip itself knows no such build.
set -u
# $pip is unquoted where it is called: it may be "python -m pip".
lock=$(dirname "$0")/torch-cpu.lock
action=$1 pip=$2
shift 2

# asked ARGUMENTS...: run pip, then once more with the index where pip found no such build.
asked() {
    $pip "$@" >"$log" 2>&1 && return 0
    mismatch && return 1
    [ -n "$index" ] && $pip "$@" --index-url "$index" >"$log" 2>&1
}
mismatch() { grep -q "DO NOT MATCH THE HASHES" "$log"; }
# pip has said this in several ways, by version: "No matching distribution found", "ResolutionImpossible".
missing() { grep -qE "No matching distribution|Could not find a version|ResolutionImpossible" "$log"; }

scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
case $action in
install)
    index=${1:-}
    asked install -q --no-deps --require-hashes -r "$lock" && exit 0
    if mismatch; then
        echo "error: the CPU build of torch that the package index gives here has a SHA-256 that is not in $lock: a build for another platform, or not the file it should be; where you trust that index, \`make lock-torch\` adds the hash" >&2
        exit 2
    fi
    missing && exit 3
    tail -n 3 "$log" >&2
    echo "error: the CPU build of torch could not be installed (pip's last lines are above); run the same command again" >&2
    exit 2
    ;;
lock)
    version=$1 index=${2:-}
    if ! asked download -q --no-deps "torch==$version+cpu" -d "$scratch/wheel"; then
        tail -n 3 "$log" >&2
        echo "error: the package index gives no CPU build of torch $version; set TORCH_INDEX to one that has it" >&2
        exit 2
    fi
    hash=$(sha256sum "$scratch"/wheel/* | cut -d' ' -f1)
    # Hashes of another version go; those of the same version for other platforms stay.
    old=$(grep -qxF "torch==$version+cpu \\" "$lock" 2>/dev/null && grep -o 'sha256:[0-9a-f]*' "$lock")
    all=$(printf '%s\n' $old "sha256:$hash" | sort -u)
    { printf 'torch==%s+cpu' "$version"; printf ' \\\n    --hash=%s' $all; echo; } >"$scratch/lock"
    cat "$scratch/lock" >"$lock"
    ;;
*)
    echo "error: expected install or lock, got $action" >&2
    exit 2
    ;;
esac
