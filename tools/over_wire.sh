#!/usr/bin/env bash
# Starts the server, evaluates a model over the wire and in process, and stops the server. Fails
# unless both give the same returns bit for bit.
#
#   tools/over_wire.sh MODEL [argument of `trainer eval` ...]
set -euo pipefail
cd "$(dirname "$0")/.."
model=$1
shift
coproc server { exec bin/server --listen 127.0.0.1:0 --exit-with-stdin --log-level warn; }
pid=$server_PID
trap 'kill "$pid" 2>/dev/null || true' EXIT
read -r ready <&"${server[0]}"
url=$(sed -E 's/.*"url":"([^"]*)".*/\1/' <<<"$ready")
bin/trainer eval --model "$model" --url "$url" --verify "$@"
exec {server[1]}>&- # the end of its standard input stops the server
wait "$pid"
trap - EXIT
