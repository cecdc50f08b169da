#!/usr/bin/env bash
# Brings compose.yaml up with a real Docker engine, profile by profile, and sees that each does
# its work: episodes end on the API server with their returns printed, the saved model is
# evaluated, the server plays, TensorBoard shows the run, ports are on loopback only. It does so
# with `docker compose` and with docker-compose, where both are there.
#
# Usage: make test-compose. The base of the images of TensorBoard and JupyterLab cannot be pulled
# everywhere: without it and without these images, tools/python_base.sh makes another base.
# With KWOK_CLUSTER_BASE=IMAGE, upstream's cluster image or one like it, the variant of
# compose.kwok.yaml is brought up too, and not only read.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "test-compose: $*" >&2; exit 1; }
docker version >/dev/null || fail "needs a Docker engine that runs (DOCKER_HOST)"
variants=()
if docker compose version >/dev/null 2>&1; then variants+=("docker compose"); fi
if command -v docker-compose >/dev/null; then variants+=(docker-compose); fi
[ ${#variants[@]} -gt 0 ] || fail "needs docker compose or docker-compose"

KUBERNASIUM_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export KUBERNASIUM_TOKEN TRAIN_TIMESTEPS=256 EPISODES=2
export CONTROLPLANE_PORT=${CONTROLPLANE_PORT:-16443} SERVER_PORT=${SERVER_PORT:-18765} TENSORBOARD_PORT=${TENSORBOARD_PORT:-16006} SCHEDULER_PORT=${SCHEDULER_PORT:-20359} JUPYTER_PORT=${JUPYTER_PORT:-18888}
all=(--profile train --profile serve --profile evaluate --profile schedule --profile autoscale)
scratch=$(mktemp -d)
log=$scratch/log
compose=() # the command with its files, of the variant that runs

down() { # docker-compose 1 gives an engine that deletes slowly 60 s
	COMPOSE_HTTP_TIMEOUT=300 "${compose[@]}" "${all[@]}" down --volumes --timeout 20 >"$log" 2>&1 || { cat "$log" >&2; fail "what ran cannot be removed"; }
}
cleanup() {
	local rc=$?
	if [ $rc != 0 ] && [ ${#compose[@]} -gt 0 ]; then "${compose[@]}" "${all[@]}" logs --no-color >&2 || true; fi
	if [ ${#compose[@]} -gt 0 ]; then (down) || true; fi
	rm -rf "$scratch"
	exit $rc
}
trap cleanup EXIT
want() { grep -q "$1" "$log" || { cat "$log" >&2; fail "$2"; }; }
up() { "${compose[@]}" --profile "$1" up --no-build --detach "${@:2}" >"$log" 2>&1 || { cat "$log" >&2; fail "profile $1 does not come up"; }; }
trainer() { .cache/images/trainer/trainer train --algo ppo --env classic/CartPole-v1 --url "ws://127.0.0.1:$SERVER_PORT" -f "$scratch/logs" "$@"; }

images() {
	"${compose[@]}" "${all[@]}" build controlplane server trainer scheduler updater >"$log" 2>&1 || { cat "$log" >&2; fail "the images cannot be built"; }
	for service in tensorboard jupyter; do
		docker image inspect "kubernasium/$service" >/dev/null 2>&1 || "${compose[@]}" "${all[@]}" build "$service" >"$log" 2>&1 || {
			echo "the base image of $service cannot be had: $(tail -1 "$log"); making one of Debian's packages"
			docker image inspect kubernasium/python >/dev/null 2>&1 || tools/python_base.sh
			"${compose[@]}" "${all[@]}" build --build-arg BASE=kubernasium/python "$service" >"$log" 2>&1 || { cat "$log" >&2; fail "the image of $service cannot be built"; }
		}
	done
}

# The profile without the images that need Python: nothing asks for them.
without_python() {
	echo "== train with PYTHON_PROFILES=no-"
	PYTHON_PROFILES=no- "${compose[@]}" --profile train up --no-build --no-start >"$log" 2>&1 || { cat "$log" >&2; fail "profile train does not come up"; }
	docker ps --all --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --format '{{.Label "com.docker.compose.service"}}' | sort | tr '\n' ' ' >"$log"
	want '^controlplane server trainer $' "the profile train wants more than our own images"
	down
}

# What the host needs for kubectl, as the service prints it.
kubeconfig() {
	echo "== kubeconfig"
	"${compose[@]}" --profile kubeconfig run --rm kubeconfig >"$scratch/kubeconfig" 2>"$log" || { cat "$log" >&2; fail "no kubeconfig"; }
	.cache/images/trainer/trainer kwok top --once --kubeconfig "$scratch/kubeconfig" >"$log" 2>&1 || { cat "$log" >&2; fail "the kubeconfig does not work on the host"; }
}

jupyter() {
	echo "== JupyterLab"
	for ((i = 0; i < 60; i++)); do curl -fsS "http://127.0.0.1:$JUPYTER_PORT/api/status?token=$KUBERNASIUM_TOKEN" >"$log" 2>/dev/null && break || sleep 1; done
	want kernels "JupyterLab does not answer with the token"
	if curl -fsS "http://127.0.0.1:$JUPYTER_PORT/api/contents" >/dev/null 2>&1; then fail "JupyterLab answers without a token"; fi
	"${compose[@]}" --profile train exec -T jupyter python3 -c '
import gymnasium, kubernasium, os, urllib.request
gymnasium.make("k8s/GangWindow-v0").reset(seed=0)
print("tensorboard", urllib.request.urlopen(os.environ["TENSORBOARD_URL"]).status)' >"$log" 2>&1 || { cat "$log" >&2; fail "a notebook reaches no server"; }
	want 'tensorboard 200' "a notebook does not reach TensorBoard"
}

train() {
	echo "== train"
	up train
	local id
	id=$("${compose[@]}" --profile train ps --all --quiet trainer)
	[ "$(timeout 600 docker wait "$id")" = 0 ] || fail "the trainer failed"
	docker logs "$id" >"$log" 2>&1
	want 'on k8s/.*Kwok-v0: .* steps in .*, mean return' "the trainer printed no returns"
	grep 'mean return' "$log"
}

tensorboard() {
	echo "== TensorBoard"
	for ((i = 0; ; i++)); do
		if curl -fsS "http://127.0.0.1:$TENSORBOARD_PORT/data/plugin/scalars/tags" >"$log" 2>/dev/null && grep -q rollout/ep_rew_mean "$log"; then break; fi
		[ $i -lt 120 ] || { cat "$log" >&2; fail "TensorBoard does not show rollout/ep_rew_mean"; }
		sleep 1
	done
}

evaluate() {
	echo "== evaluate"
	"${compose[@]}" --profile evaluate run --rm evaluate >"$log" 2>&1 || { cat "$log" >&2; fail "the evaluation failed"; }
	want 'mean return .* over 2 held-out episodes' "the evaluation printed no returns"
	grep 'mean return' "$log"
	MODEL=/models/pretrained/k8s-PodBalance-v0/ppo.safetensors EVALUATE_ENV=k8s/PodBalanceKwok-v0 \
		"${compose[@]}" --profile evaluate run --rm evaluate >"$log" 2>&1 || { cat "$log" >&2; fail "the evaluation of a pretrained model failed"; }
	want 'on k8s/PodBalanceKwok-v0: mean return .* over 2 held-out episodes' "a pretrained model did not play on the API server"
	grep 'mean return' "$log"
}

serve() {
	echo "== serve"
	up serve
	for ((i = 0; i < 60; i++)); do curl -fsS "http://127.0.0.1:$SERVER_PORT/readyz" >/dev/null 2>&1 && break || sleep 1; done
	trainer -n 2048 --eval-freq 0 >"$log" 2>&1 || { cat "$log" >&2; fail "no training on the server"; }
	grep 'mean return' "$log"
	if KUBERNASIUM_TOKEN=wrong trainer -n 64 >/dev/null 2>&1; then fail "the server takes a wrong token"; fi
}

schedule() {
	echo "== schedule"
	SCHEDULE_BY=--model=/models/pretrained/k8s-PodBalance-v0/ppo.safetensors up schedule
	for ((i = 0; i < 60; i++)); do
		curl -fsSk -H "Authorization: Bearer $KUBERNASIUM_TOKEN" "https://127.0.0.1:$CONTROLPLANE_PORT/readyz" >"$log" 2>/dev/null && break || sleep 1
	done
	want ok "the control plane does not answer with the token"
	if curl -fsSk "https://127.0.0.1:$CONTROLPLANE_PORT/api/v1/nodes" >/dev/null 2>&1; then fail "the control plane answers without a token"; fi
	for ((i = 0; i < 60; i++)); do curl -fsS "http://127.0.0.1:$SCHEDULER_PORT/healthz" >"$log" 2>/dev/null && break || sleep 1; done
	want ok "the scheduler does not answer"
	"${compose[@]}" --profile schedule run --rm scheduler kwok runsim --interval 0s --node_count 3 --cluster_resets 1 >"$log" 2>&1 || { cat "$log" >&2; fail "the scheduler placed nothing"; }
	grep 'pods placed after' "$log" | tail -1
	curl -fsS -H "Authorization: Bearer $KUBERNASIUM_TOKEN" "http://127.0.0.1:$SCHEDULER_PORT/metrics" >"$log" 2>&1 || true
	want 'kubernasium_decisions_total{profile="custom-scheduler",result="policy"}' "the scheduler counted no placement"
	if curl -fsS "http://127.0.0.1:$SCHEDULER_PORT/metrics" >/dev/null 2>&1; then fail "the scheduler's metrics answer without a token"; fi
}

# What the recommender, and the admission controller once it is called, have registered at the API server.
autoscale() {
	echo "== autoscale"
	up autoscale
	local path
	for path in apis/metrics.k8s.io/v1beta1/pods apis/autoscaling.k8s.io/v1/verticalpodautoscalers apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config \
		apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller; do
		for ((i = 0; i < 60; i++)); do
			curl -fsSk -H "Authorization: Bearer $KUBERNASIUM_TOKEN" "https://127.0.0.1:$CONTROLPLANE_PORT/$path" >"$log" 2>/dev/null && break || sleep 1
		done
		want apiVersion "the API server does not serve $path"
	done
}

isolation() {
	echo "== isolation"
	for service in "$@"; do
		id=$("${compose[@]}" "${all[@]}" ps --quiet "$service")
		[ "$(docker inspect --format '{{.HostConfig.ReadonlyRootfs}} {{.Config.User}}' "$id")" = "true 65532:65532" ] || fail "$service is not read-only, or root"
		docker inspect --format '{{range .NetworkSettings.Ports}}{{range .}}{{.HostIp}} {{end}}{{end}}' "$id" | grep -qx '127.0.0.1 ' || fail "$service is published beyond loopback"
	done
}

for variant in "${variants[@]}"; do
	read -ra compose <<<"$variant"
	export COMPOSE_PROJECT_NAME=kubernasium-test-$$
	echo "== $("${compose[@]}" version | head -1), engine $(docker version --format '{{.Server.Version}}')"
	if (unset KUBERNASIUM_TOKEN && "${compose[@]}" "${all[@]}" config >/dev/null 2>&1); then fail "it starts without a token"; fi
	"${compose[@]}" "${all[@]}" config >"$log"
	images
	without_python
	train
	kubeconfig
	tensorboard
	jupyter
	evaluate
	serve
	schedule
	autoscale
	isolation controlplane server scheduler tensorboard
	down

	compose+=(-f compose.yaml -f compose.kwok.yaml)
	COMPOSE_PROJECT_NAME+=-kwok
	"${compose[@]}" "${all[@]}" config >"$log"
	want kubernasium/kwok-cluster "compose.kwok.yaml does not replace the control plane"
	if [ -n "${KWOK_CLUSTER_BASE:-}" ]; then
		echo "== upstream KWOK's cluster"
		"${compose[@]}" "${all[@]}" build --build-arg "BASE=$KWOK_CLUSTER_BASE" controlplane >"$log" 2>&1 || { cat "$log" >&2; fail "kwok/upstream cannot be built"; }
		train
		evaluate
		down
	fi
done
echo "test-compose: all profiles work with ${variants[*]}"
