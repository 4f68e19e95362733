#!/usr/bin/env bash
# Builds the documentation into build/site, with warnings as errors: bash docs/build.sh [FOLDER_OF_ITS_VIRTUAL_ENVIRONMENT]
# Only the installation of the tools uses the network; it is skipped where the environment has them.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-build/docs-venv}
if ! cmp -s docs/requirements.txt "$venv/requirements.txt"; then
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install -q -r docs/requirements.txt
    cp docs/requirements.txt "$venv/requirements.txt"
fi
export NO_MKDOCS_2_WARNING=1
"$venv/bin/mkdocs" build --strict # not --quiet, which would also hide warnings from --strict
echo "build/site/index.html"
