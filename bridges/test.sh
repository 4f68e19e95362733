#!/usr/bin/env bash
# The bridges against the real frameworks from the registry, each in a virtual environment of its own:
#
#     bash bridges/test.sh [--log FILE] [--reuse SITE_PACKAGES] [verifiers] [inspect] [openenv] [trl]
#
# Installs this package and the framework, and runs the bridge's tests with what is installed. It needs the network, and for all four
# about ten minutes and 4 GB. --reuse takes torch, TRL and all else that `trl` needs from another environment's site-packages.
# --log also writes versions and results to a file, docs/bridges/last_run.log for the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
log=/dev/null reuse="" names=()
while [ $# -gt 0 ]; do
    case "$1" in
    --log) log=$(realpath "$2") && shift 2 ;;
    --reuse) reuse=$2 && shift 2 ;;
    verifiers | inspect | openenv | trl) names+=("$1") && shift ;;
    *) echo "Expected --log FILE, --reuse SITE_PACKAGES, verifiers, inspect, openenv or trl, got '$1'." >&2 && exit 2 ;;
    esac
done
[ "${#names[@]}" -gt 0 ] || names=(verifiers inspect openenv trl)
declare -A package=([verifiers]=verifiers [inspect]=inspect-ai [openenv]=openenv [trl]=trl)
declare -A tests=([verifiers]=verifiers_taskset [inspect]=inspect_task [openenv]=openenv_server)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/source" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/source" # pip builds in the tree
export GOMP_SPINCOUNT=1000 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
say() { printf '%s\n' "$@" | tee -a "$log"; }

# A virtual environment with this package and what the named framework needs.
install() {
    local python="$work/$1/bin/python"
    python3 -m venv "$work/$1"
    if [ "$1" != trl ]; then
        "$python" -m pip install -q -c bridges/constraints.txt "$work/source" openai "${package[$1]}" pytest pytest-timeout hypothesis
    elif [ -n "$reuse" ]; then
        echo "$reuse" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/reused.pth"
        "$python" -m pip install -q --no-deps --no-build-isolation --force-reinstall "$work/source"
    else
        "$python" -m pip install -q -c constraints.txt "$work/source[train]" pytest pytest-timeout hypothesis
    fi
}

[ "$log" = /dev/null ] || : >"$log"
say "$(date -u +'%Y-%m-%d %H:%M UTC'), commit $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' with changes'), $(python3 --version), $(uname -m), $(nproc) cores"
failed=()
for name in "${names[@]}"; do
    install "$name"
    python="$work/$name/bin/python"
    version() { "$python" -c 'import sys; from importlib.metadata import version; print(*(f"{p} {version(p)}" for p in sys.argv[1:]), sep=", ")' "$@"; }
    say "" "=== $(version "${package[$name]}" colbench-gym gymnasium numpy openai)${reuse:+ (trl: reused site-packages)}"
    if [ "$name" = trl ]; then
        say "    $(version torch transformers datasets accelerate)"
        files=(tests/sweetrl_agent/bridges)
    else
        files=(tests/colbench_gym/bridges/test_conversations.py "tests/colbench_gym/bridges/test_${tests[$name]}.py")
    fi
    # -P: the installed package is what is tested, not the checkout
    (cd "$work/source" && "$work/$name/bin/python" -P -m pytest -v -rs -o pythonpath= -o addopts="--import-mode=importlib --timeout=600" \
        -o filterwarnings=ignore --no-header --tb=short "${files[@]}") 2>&1 | tee "$work/output" || failed+=("$name")
    grep -E '(PASSED|FAILED|SKIPPED|ERROR)|^=+ .* (in|summary)' "$work/output" | sed -E 's/ +\[ *[0-9]+%\]//; s/^=+ ?//; s/ ?=+$//' >>"$log"
done
if [ "${#failed[@]}" -eq 0 ]; then say "" "all passed"; else say "" "failed: ${failed[*]}"; fi
[ "${#failed[@]}" -eq 0 ]
