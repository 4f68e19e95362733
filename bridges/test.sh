#!/usr/bin/env bash
# The bridges against the real frameworks from the registry, each in a virtual environment of its own:
#
#     bash bridges/test.sh [--log FOLDER] [--reuse SITE_PACKAGES] [verifiers] [inspect] [openenv] [trl] [skyrl]
#
# Installs this package and the framework, and runs the bridge's tests with what is installed. It needs the network, and for all
# some ten minutes and 4 GB. --reuse takes torch, TRL and all else that `trl` and `skyrl` need from another environment's site-packages.
# --log also writes versions and results to FOLDER/NAME.log; docs/bridges/last_run is that of the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
log="" reuse="" names=()
while [ $# -gt 0 ]; do
    case "$1" in
    --log) log=$2 && shift 2 ;;
    --reuse) reuse=$2 && shift 2 ;;
    verifiers | inspect | openenv | trl | skyrl) names+=("$1") && shift ;;
    *) echo "Expected --log FOLDER, --reuse SITE_PACKAGES, verifiers, inspect, openenv, trl or skyrl, got '$1'." >&2 && exit 2 ;;
    esac
done
[ "${#names[@]}" -gt 0 ] || names=(verifiers inspect openenv trl skyrl)
declare -A package=([verifiers]=verifiers [inspect]=inspect-ai [openenv]=openenv [trl]=trl [skyrl]=skyrl)
declare -A tests=(
    [verifiers]="tests/colbench_gym/bridges/test_conversations.py tests/colbench_gym/bridges/test_verifiers_taskset.py"
    [inspect]="tests/colbench_gym/bridges/test_conversations.py tests/colbench_gym/bridges/test_inspect_task.py"
    [openenv]="tests/colbench_gym/bridges/test_conversations.py tests/colbench_gym/bridges/test_openenv_server.py"
    [trl]="tests/sweetrl_agent/bridges/test_grpo_rollouts.py tests/sweetrl_agent/bridges/test_trl_turn_credit.py"
    [skyrl]="tests/sweetrl_agent/bridges/test_skyrl_turn_credit.py"
)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/source" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/source" # pip builds in the tree
commit="$(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo " with changes")" # of the sources that are tested
export GOMP_SPINCOUNT=1000 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
mkdir "$work/beside" && cp -r "$work/source/examples" "$work/beside" # which no package has
export PYTHONPATH="$work/beside"                                     # and not the checkout

# A virtual environment with this package and what the named framework needs.
install() {
    local python="$work/$1/bin/python"
    python3 -m venv "$work/$1"
    if [ "$1" != trl ] && [ "$1" != skyrl ]; then
        "$python" -m pip install -q -c bridges/constraints.txt "$work/source$([ "$1" != inspect ] || echo "[frontend]")" openai httpx "${package[$1]}" pytest pytest-timeout hypothesis
    elif [ -n "$reuse" ]; then
        echo "$reuse" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/reused.pth"
        "$python" -m pip install -q --no-deps --ignore-installed "$work/source"
    else
        "$python" -m pip install -q -c constraints.txt "$work/source[train,ray]" pytest pytest-timeout hypothesis
    fi
    # SkyRL pins another transformers than ours; what is tested are its registries, which need none of it.
    [ "$1" != skyrl ] || "$python" -m pip install -q --no-deps skyrl skyrl-gym jaxtyping wadler-lindig loguru omegaconf antlr4-python3-runtime==4.9.3
}

# What was run: date, commit, versions.
heading() {
    local from=""
    [[ "$1" != trl && "$1" != skyrl ]] || [ -z "$reuse" ] || from=", reused site-packages"
    echo "$(date -u +'%Y-%m-%d %H:%M UTC'), commit $commit, $(python3 --version), $(uname -m), $(nproc) cores$from"
    "$work/$1/bin/python" -P -c '
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(f"{name}=={version(name)}", end=" ")
    except PackageNotFoundError:
        pass
print()' "${package[$1]}" colbench-gym gymnasium numpy openai pydantic torch transformers datasets accelerate
}

failed=()
for name in "${names[@]}"; do
    install "$name"
    heading "$name" | tee "$work/$name.log"
    # -P: the installed package is what is tested, not the folder
    # shellcheck disable=SC2086
    (cd "$work/source" && "$work/$name/bin/python" -P -m pytest -v -rs -o pythonpath= -o addopts="--import-mode=importlib --timeout=600" \
        -o filterwarnings=ignore --no-header --tb=short ${tests[$name]}) 2>&1 | tee "$work/output" || failed+=("$name")
    grep -E 'PASSED|FAILED|SKIPPED|ERROR|^=+ .* in [0-9]' "$work/output" | sed -E 's/ +\[ *[0-9]+%\]//; s/^=+ ?//; s/ ?=+$//' >>"$work/$name.log"
    [ -z "$log" ] || { mkdir -p "$log" && cp "$work/$name.log" "$log"; }
done
if [ "${#failed[@]}" -gt 0 ]; then echo "failed: ${failed[*]}" && exit 1; fi
echo "all passed: ${names[*]}"
