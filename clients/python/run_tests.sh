#!/usr/bin/env bash
# Tests the Python package as a user would have it: in a virtual environment of its own, with
# the wheel built from this checkout.
#
#   clients/python/run_tests.sh [VENV] [argument of pytest ...]
#
# VENV (default: .cache/venv-python in the repository) is made if need be, and made again when
# the pinned requirements have changed. PYTHON names the interpreter, 3.10 or newer; the pins are
# for 3.11 and newer, and 3.10 takes the newest versions that still support it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${1:-$here/../../.cache/venv-python}
shift || true
python=${PYTHON:-python3}

mkdir -p "$venv"
venv=$(cd "$venv" && pwd)
requirements=("$here/requirements-test.txt" "$here/requirements-torch.txt" "$here/tools/cuda_stubs.py")
wanted=$(cat "${requirements[@]}" <("$python" -VV) | sha256sum)
if [ "$(cat "$venv/.wanted" 2>/dev/null)" != "$wanted" ]; then
	"$python" -m venv --clear "$venv"
	pins=cat
	"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || pins='sed -E s/==[^;]*//'
	$pins "$here/requirements-test.txt" >"$venv/requirements-test.txt"
	$pins "$here/requirements-torch.txt" >"$venv/requirements-torch.txt"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$venv/requirements-test.txt"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$venv/requirements-torch.txt"
	"$venv/bin/python" "$here/tools/cuda_stubs.py"
	echo "$wanted" >"$venv/.wanted"
fi

unset KUBERNASIUM_URL KUBERNASIUM_SERVER PYTHONPATH
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	--force-reinstall "$here"
cd "$here"
"$venv/bin/python" -m ruff check .
"$venv/bin/python" -m ruff format --check .
exec "$venv/bin/python" -m pytest "$@"
