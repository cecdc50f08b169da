#!/usr/bin/env bash
# Makes the image kubernasium/tensorboard of Debian's Python and PyPI's wheels, where the base image
# of the Dockerfile beside this cannot be pulled.
#
# Usage: tools/tensorboard/from_debian.sh. Needs Docker, mmdebstrap, and python3 with venv; as an
# ordinary user also what mmdebstrap(1) says of its mode unshare.
set -euo pipefail
cd "$(dirname "$0")"

suite=bookworm
version=3.11 # of Python in that suite: wheels with compiled parts are for one version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --only-binary=:all: --python-version "$version" \
	--target "$work/tensorboard" --requirement requirements.txt
mmdebstrap --quiet --variant=minbase --include=python3 --customize-hook="copy-in $work/tensorboard /opt" "$suite" "$work/root.tar"
docker import --change 'ENV PYTHONPATH=/opt/tensorboard PYTHONDONTWRITEBYTECODE=1' \
	--change 'ENTRYPOINT ["python3", "-m", "tensorboard.main"]' "$work/root.tar" kubernasium/tensorboard
