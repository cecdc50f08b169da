#!/usr/bin/env bash
# Brings compose.yaml up with a real Docker engine, profile by profile, and sees that each does
# its work: episodes end on the API server with their returns printed, the saved model is
# evaluated, the server plays, TensorBoard shows the run, ports are on loopback only.
#
# Usage: make test-compose. Needs Docker with `docker compose` or docker-compose 1.29; takes the
# image kubernasium/tensorboard as it is where there is one, since its base cannot be pulled
# everywhere.
set -euo pipefail
cd "$(dirname "$0")/.."

docker version >/dev/null || { echo "test-compose needs a Docker engine that runs (DOCKER_HOST)" >&2; exit 1; }
if docker compose version >/dev/null 2>&1; then compose=(docker compose); else compose=(docker-compose); fi
echo "== $("${compose[@]}" version | head -1), engine $(docker version --format '{{.Server.Version}}')"

export COMPOSE_PROJECT_NAME=kubernasium-test-$$
KUBERNASIUM_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export KUBERNASIUM_TOKEN TRAIN_TIMESTEPS=256 EPISODES=2
export CONTROLPLANE_PORT=${CONTROLPLANE_PORT:-16443} SERVER_PORT=${SERVER_PORT:-18765} TENSORBOARD_PORT=${TENSORBOARD_PORT:-16006}

log=$(mktemp)
cleanup() {
	local rc=$?
	if [ $rc != 0 ]; then "${compose[@]}" "${all[@]}" logs --no-color >&2 || true; fi
	"${compose[@]}" "${all[@]}" down --volumes --timeout 20 >/dev/null 2>&1 || true
	rm -f "$log"
	exit $rc
}
all=(--profile train --profile serve --profile evaluate --profile schedule)
trap cleanup EXIT
fail() { echo "test-compose: $*" >&2; exit 1; }
want() { grep -q "$1" "$log" || { cat "$log" >&2; fail "$2"; }; }

if (unset KUBERNASIUM_TOKEN && "${compose[@]}" "${all[@]}" config >/dev/null 2>&1); then fail "it starts without a token"; fi
"${compose[@]}" "${all[@]}" config >"$log"
"${compose[@]}" "${all[@]}" build controlplane server trainer >/dev/null
docker image inspect kubernasium/tensorboard >/dev/null 2>&1 || "${compose[@]}" "${all[@]}" build tensorboard

echo "== train"
"${compose[@]}" --profile train up --no-build --detach >/dev/null
trainer=$("${compose[@]}" --profile train ps --quiet trainer)
[ "$(timeout 300 docker wait "$trainer")" = 0 ] || fail "the trainer failed"
docker logs "$trainer" >"$log" 2>&1
want 'on k8s/.*Kwok-v0: .* steps in .*, mean return' "the trainer printed no returns"
grep 'mean return' "$log"

echo "== TensorBoard"
for ((i = 0; ; i++)); do
	if curl -fsS "http://127.0.0.1:$TENSORBOARD_PORT/data/plugin/scalars/tags" >"$log" 2>/dev/null && grep -q rollout/ep_rew_mean "$log"; then break; fi
	[ $i -lt 60 ] || { cat "$log" >&2; fail "TensorBoard does not show rollout/ep_rew_mean"; }
	sleep 1
done

echo "== evaluate"
"${compose[@]}" --profile evaluate run --rm evaluate >"$log" 2>&1 || { cat "$log" >&2; fail "the evaluation failed"; }
want 'mean return .* over 2 held-out episodes' "the evaluation printed no returns"
grep 'mean return' "$log"

echo "== serve"
"${compose[@]}" --profile serve up --no-build --detach >/dev/null
for ((i = 0; i < 30; i++)); do curl -fsS "http://127.0.0.1:$SERVER_PORT/readyz" >/dev/null 2>&1 && break || sleep 1; done
.cache/images/trainer/trainer train --algo ppo --env classic/CartPole-v1 --url "ws://127.0.0.1:$SERVER_PORT" -n 2048 --eval-freq 0 -f "$(mktemp -d)" >"$log" 2>&1 ||
	{ cat "$log" >&2; fail "no training on the server"; }
grep 'mean return' "$log"
if KUBERNASIUM_TOKEN=wrong .cache/images/trainer/trainer train --algo ppo --env classic/CartPole-v1 --url "ws://127.0.0.1:$SERVER_PORT" -n 64 -f "$(mktemp -d)" >/dev/null 2>&1; then
	fail "the server takes a wrong token"
fi

echo "== isolation"
for service in controlplane server; do
	id=$("${compose[@]}" "${all[@]}" ps --quiet $service)
	[ "$(docker inspect --format '{{.HostConfig.ReadonlyRootfs}} {{.Config.User}}' "$id")" = "true 65532:65532" ] || fail "$service is not read-only, or root"
	docker inspect --format '{{range .NetworkSettings.Ports}}{{range .}}{{.HostIp}} {{end}}{{end}}' "$id" | grep -qx '127.0.0.1 ' || fail "$service is published beyond loopback"
done
echo "test-compose: all profiles work"
