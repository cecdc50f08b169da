#!/usr/bin/env bash
# Makes the image kubernasium/debian-stress-ng of Debian's packages: the base of the images stresspod and gangworker
# where debian:bookworm-slim cannot be pulled.
#
# Usage: tools/debian_base.sh && docker build --build-arg BASE=kubernasium/debian-stress-ng .cache/images/gangworker
# Needs Docker and mmdebstrap, which as an ordinary user needs what mmdebstrap(1) says of its mode unshare.
set -euo pipefail

command -v mmdebstrap >/dev/null || { echo "debian_base.sh: needs mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase --include=stress-ng bookworm "$work/root.tar"
docker import "$work/root.tar" kubernasium/debian-stress-ng >/dev/null
