#!/usr/bin/env bash
# Makes the image kubernasium/python of Debian's Python and PyPI's wheels. It is the base of the
# images tensorboard and jupyter where theirs cannot be pulled, and holds all that their
# requirements.txt name, so that their builds fetch nothing.
#
# Usage: tools/python_base.sh && docker compose build --build-arg BASE=kubernasium/python tensorboard
# Needs Docker, mmdebstrap, and python3 with venv; as an ordinary user also what mmdebstrap(1) says
# of its mode unshare.
set -euo pipefail
cd "$(dirname "$0")"

command -v mmdebstrap >/dev/null || { echo "python_base.sh: needs mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }
suite=bookworm
version=3.11 # of Python in that suite: wheels with compiled parts are for one version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --only-binary=:all: --python-version "$version" \
	--target "$work/dist-packages" --requirement tensorboard/requirements.txt --requirement jupyter/requirements.txt
mv "$work/dist-packages/share" "$work/share" # JupyterLab's pages
mmdebstrap --quiet --variant=minbase --include=python3,python3-pip \
	--customize-hook="copy-in $work/dist-packages /usr/local/lib/python$version" \
	--customize-hook="copy-in $work/share /usr" "$suite" "$work/root.tar"
docker import --change 'ENV PIP_BREAK_SYSTEM_PACKAGES=1' "$work/root.tar" kubernasium/python
