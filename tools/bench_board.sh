#!/usr/bin/env bash
# bench_board.sh TRAINER [ROUNDS]: what a training costs with the page of trainer board open and a viewer that follows it,
# beside one without: processor seconds of the training's process, in interleaved rounds.
set -euo pipefail
trainer=$(realpath "$1"); rounds=${2:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

train() { # prints the processor seconds of a training
	local TIMEFORMAT='%U %S'
	{ time "$trainer" train --algo ppo --env classic/CartPole-v1 --seed 1 --n-timesteps 300000 --log-folder "$dir/logs" >/dev/null 2>"$dir/err"; } 2>&1 | awk '{print $1 + $2}'
}

with() {
	"$trainer" board --log-folder "$dir/logs" --listen 127.0.0.1:0 >"$dir/url" &
	local page=$!
	until [ -s "$dir/url" ]; do sleep 0.05; done
	{ # as the page does, once the training has begun
		until [ -s "$dir/logs/ppo/classic-CartPole-v1_$1/progress.csv" ]; do sleep 0.05; done
		exec curl -sN "$(cat "$dir/url")api/stream?topic=runs&topic=run:ppo/classic-CartPole-v1_$1"
	} >"$dir/stream" &
	local viewer=$!
	train
	kill "$viewer" "$page" 2>/dev/null || true # the viewer may have ended with an error, which its output shows
	wait "$viewer" "$page" 2>/dev/null || true
	grep -q '"topic":"run:ppo' "$dir/stream" || { echo "the viewer has seen nothing of the training" >&2; exit 1; }
}

run=1
for ((i = 0; i < rounds; i++)); do
	plain=$(train); run=$((run + 1))
	seen=$(with $run); run=$((run + 1))
	echo "$plain $seen"
done | awk '{printf "round %d: %.2f s without, %.2f s with: %+.1f %%\n", NR, $1, $2, 100 * ($2 / $1 - 1); a += $1; b += $2}
	END {printf "all: %.2f s without, %.2f s with: %+.1f %%\n", a, b, 100 * (b / a - 1)}'
