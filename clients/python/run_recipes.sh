#!/usr/bin/env bash
# Tests RECIPES.md, the action masks for other libraries, datasets of Minari and studies of Optuna, with the libraries themselves.
#
#   clients/python/run_recipes.sh [VENV] [BASE] [argument of pytest ...]
#
# BASE (default: .cache/venv-client) is a virtual environment of run_tests.sh, with PyTorch and this
# package. VENV (default: .cache/venv-recipes) has the libraries, and sees BASE through a .pth file,
# so that PyTorch is there once. PYTHON names the interpreter, 3.11 or newer: Minari and Tianshou want it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${1:-$here/../../.cache/venv-recipes}
base=${2:-$here/../../.cache/venv-client}
shift $(($# < 2 ? $# : 2))
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	echo "recipes need Python 3.11 or newer, and $("$python" -V) is older; set PYTHON"
	exit 1
fi
"$here/run_tests.sh" "$base" --collect-only --quiet >/dev/null
mkdir -p "$venv"
venv=$(cd "$venv" && pwd)
base=$(cd "$base" && pwd)
wanted=$(cat "$here/requirements-recipes.txt" <("$python" -VV) <(echo "$base") | sha256sum)
if [ "$(cat "$venv/.wanted" 2>/dev/null)" != "$wanted" ]; then
	"$python" -m venv --clear "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --no-binary gym -r "$here/requirements-recipes.txt"
	site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	"$base/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/base.pth"
	echo "$wanted" >"$venv/.wanted"
fi

unset KUBERNASIUM_URL KUBERNASIUM_SERVER PYTHONPATH
cd "$here"
exec "$venv/bin/python" -m pytest tests/test_recipes.py tests/test_rllib.py tests/test_masks.py tests/test_minari.py tests/test_optuna.py "$@"
