#!/usr/bin/env bash
# Builds the images of .cache/images with a real container engine, and runs each as user 65532 on a read-only root file
# system: programs answer, a server plays for a client, the control plane runs an autoscaler, workers do supersteps, and
# the chart's components work with its arguments, accounts and volumes.
#
# Usage: make test-images. Without an engine it skips and says so. Images and containers of the test have names and
# labels of their own, and are removed at its end. Where Debian's image cannot be pulled, tools/debian_base.sh makes a base.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "test-images: $*" >&2; exit 1; }
if ! timeout 30 docker version >/dev/null 2>&1; then
	echo "test-images: skipped, no container engine answers: start Docker, or set DOCKER_HOST"
	exit 0
fi
registry=test-$$.invalid # of no host: nothing is pulled or pushed
base= # an image that this run has made
work=$(mktemp -d)
cleanup() {
	local rc=$? id
	for id in $(docker ps --all --quiet --filter "label=kubernasium.test=$registry"); do docker rm --force "$id" >/dev/null || true; done
	for id in $(docker images --format '{{.Repository}}:{{.Tag}}' | grep "^$registry/" || true) $base; do docker rmi "$id" >/dev/null || true; done
	rm -rf "$work"
	exit $rc
}
trap cleanup EXIT

# build NAME [FLAG...]: under the name that the chart gives it with imageRegistry.
build() {
	timeout 600 docker build --quiet --label "kubernasium.test=$registry" --tag "$registry/kubernasium/$1:0.1.0" "${@:2}" ".cache/images/$1" >"$work/log" 2>&1
}
start=$SECONDS
for name in server trainer scheduler controlplane vpa-upstream; do
	build $name || { cat "$work/log" >&2; fail "the image $name cannot be built"; }
done
for name in gangworker stresspod; do
	build $name && continue
	echo "Debian's image cannot be had: $(tail -1 "$work/log"); making one of its packages"
	if ! docker image inspect kubernasium/debian-stress-ng >/dev/null 2>&1; then
		base=kubernasium/debian-stress-ng
		tools/debian_base.sh
	fi
	build $name --build-arg BASE=kubernasium/debian-stress-ng || { cat "$work/log" >&2; fail "the image $name cannot be built"; }
done
echo "== built in $((SECONDS - start)) s"
docker images --format '{{.Repository}} {{.Size}}' | sed -n "s,^$registry/,,p" | sort

export KUBERNASIUM_ENGINE=docker KUBERNASIUM_REGISTRY=$registry
start=$SECONDS
${GO:-go} test -count=1 -v -timeout 15m -run '^(TestImages(Start|Play|OfAutoscaling)|TestServer|TestScheduler|TestRecommender|TestShadow)$' ./deploy >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "a program does not work in its image"; }
${GO:-go} test -count=1 -v -timeout 10m -run '^TestWorkersImage$' ./kwok/bsp/gangworker >>"$work/log" 2>&1 || { cat "$work/log" >&2; fail "a worker does not work in its image"; }
! grep -e '--- SKIP' "$work/log" || fail "a test was skipped"
grep -e '^--- PASS' "$work/log"
echo "== ran in $((SECONDS - start)) s"
