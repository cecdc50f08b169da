#!/usr/bin/env bash
# Builds the image of stress pods and sees one work: it registers at a utilisation server, takes
# the targets of two steps, and stress-ng holds their memory.
#
# Usage: make test-stresspod. Needs a Docker engine, and mmdebstrap where Debian's image cannot
# be pulled.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "test-stresspod: $*" >&2; exit 1; }
image=kubernasium/stresspod
folder=.cache/images/stresspod
work=$(mktemp -d)
pod=
server=
cleanup() {
	local rc=$?
	if [ -n "$pod" ]; then
		if [ $rc != 0 ]; then docker logs "$pod" >&2 || true; fi
		docker rm --force "$pod" >/dev/null
	fi
	if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi
	rm -rf "$work"
	exit $rc
}
trap cleanup EXIT

docker build --quiet --tag $image $folder >"$work/log" 2>&1 || {
	echo "Debian's image cannot be had: $(tail -1 "$work/log"); making one of its packages"
	tools/debian_base.sh
	docker build --quiet --build-arg BASE=kubernasium/debian-stress-ng --tag $image $folder >/dev/null
}

echo '{"*": [{"ram": 64, "cpu": 100}, {"ram": 128, "cpu": 200}, {"ram": 32, "cpu": 100}]}' >"$work/targets.json"
bin/trainer kwok load serve --targets "$work/targets.json" 2>"$work/serve" &
server=$!
for _ in $(seq 100); do
	url=$(grep -o 'http://[0-9.:]*' "$work/serve" || true)
	if [ -n "$url" ]; then break; fi
	sleep 0.1
done
[ -n "$url" ] || fail "the utilisation server does not start: $(cat "$work/serve")"

pod=$(docker run --detach --network host --read-only --tmpfs /tmp --cap-drop ALL $image \
	--server "$url" --listen 127.0.0.1:0 --name-port)

# holds MIB: the container's largest process comes to hold that much.
holds() {
	local kib=0
	for _ in $(seq 200); do
		kib=$(docker top "$pod" -eo pid,rss,comm | awk '/stress-ng/ && $2 > most {most = $2} END {print most + 0}')
		if [ "$kib" -ge $(($1 * 1024)) ]; then echo "stress-ng holds $((kib / 1024)) MiB of $1"; return; fi
		sleep 0.1
	done
	fail "stress-ng holds $kib KiB after 20 s, want $1 MiB"
}
holds 64
curl --silent --show-error --fail -X POST "$url/step" >/dev/null
holds 128
[ "$(docker inspect --format '{{.Config.User}}' "$pod")" = 65532:65532 ] || fail "it runs as root"
docker stop --time 10 "$pod" >/dev/null
[ "$(docker inspect --format '{{.State.ExitCode}}' "$pod")" = 0 ] || fail "it does not end cleanly"
echo "ok: the stress pod's image"
