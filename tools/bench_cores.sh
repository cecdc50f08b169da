#!/usr/bin/env bash
# One training on 1, 2, 4, 8 and 16 cores: the tables of "One training on several cores" in docs/benchmarks.md. Takes four
# minutes on 16 cores. Each setting trains with each GOMAXPROCS in turn, in three rounds; figures are medians. Needs a
# quiet machine, bash and awk.
#
#     CGO_ENABLED=0 go build -o benchtrainers ./tools/benchtrainers && tools/bench_cores.sh ./benchtrainers
#
# CORES="1 2", ROUNDS=5 and EACH=3 (seconds of a measurement) change what is measured, and ONLY='GangWindow' names the settings
# that match. With BEFORE=PROGRAM an earlier build trains in turn with the first, and the table has its figures too.
set -euo pipefail
program=$(readlink -f "$1")
rounds=${ROUNDS:-3} each=${EACH:-1} only=${ONLY:-.}
programs=("$program" ${BEFORE:+"$(readlink -f "$BEFORE")"})
read -r -a cores <<<"${CORES:-$(for n in 1 2 4 8 16; do [ "$n" -le "$(nproc)" ] && echo -n "$n "; done)}"

# label; environment; n; options; algorithm; hyperparameters
settings='CartPole, 1,024 × 128 / 16,384|classic/CartPole-v1|1024|{}|ppo|{"n_steps": 128, "batch_size": 16384, "n_epochs": 1}
CartPole, 1,024 × 32 / 16,384, towers of 256 and 256|classic/CartPole-v1|1024|{}|ppo|{"n_steps": 32, "batch_size": 16384, "n_epochs": 4, "net_arch": [256, 256]}
CartPole, 64 × 128 / 1,024|classic/CartPole-v1|64|{}|ppo|{"n_steps": 128, "batch_size": 1024, "n_epochs": 4}
CartPole, 8 × 1,024 / 256|classic/CartPole-v1|8|{}|ppo|{"n_steps": 1024, "batch_size": 256, "n_epochs": 4}
GangWindow, 16 × 128 / 256|k8s/GangWindow-v0|16|{}|ppo|{"n_steps": 128, "batch_size": 256, "n_epochs": 4}
GangWindow, 64 × 128 / 1,024|k8s/GangWindow-v0|64|{}|ppo|{"n_steps": 128, "batch_size": 1024, "n_epochs": 4}
GPUPodScheduling, 16 × 128 / 512, NodePolicy|k8s/GPUPodScheduling-v0|16|{}|ppo|{"n_steps": 128, "batch_size": 512, "n_epochs": 4, "policy": "NodePolicy", "net_arch": [32, 32]}
512 numbers, 65 masked actions, 64 × 128 / 2,048|toy/Wide-v0|64|{}|ppo|{"n_steps": 128, "batch_size": 2048, "n_epochs": 4}
CartPole, 256 × 32, A2C|classic/CartPole-v1|256|{}|a2c|{"n_steps": 32}
CartPole, 64 × 128 / 2,048, LSTMs of 64|classic/CartPole-v1|64|{}|ppo_lstm|{"n_steps": 128, "batch_size": 2048, "n_epochs": 4, "lstm_hidden_size": 64}'

median() { sort -n | awk '{x[NR] = $1} END {print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2}'; }

threads=$(lscpu 2>/dev/null | awk -F ': *' '/^Thread/ {print $2}')
echo "$(nproc) processors, ${threads:-?} for each core, $(awk -F ': ' '/model name/ {print $2; exit}' /proc/cpuinfo); environment steps per second of wall time, medians of $rounds rounds"
echo
header='| environments × steps / minibatch |' rule='|---|'
for _ in "${programs[@]}"; do
	for n in "${cores[@]}"; do header+=" $n |" rule+='--:|'; done
	for n in "${cores[@]:1}"; do header+=" $n : ${cores[0]} |" rule+='--:|'; done
done
echo "$header"
echo "$rule"
while IFS='|' read -r label id envs kwargs algo config; do
	grep -q -- "$only" <<<"$label" || continue
	declare -A rates=()
	for ((round = 0; round < rounds; round++)); do
		for n in "${cores[@]}"; do
			for p in "${!programs[@]}"; do
				json=$(GOMAXPROCS=$n "${programs[p]}" --algo "$algo" --env "$id" --n-envs "$envs" --env-kwargs "$kwargs" --config "$config" --seconds "$each")
				rates[$p,$n]+=$(sed -E 's/.*"steps":([0-9]+).*"wall_s":([0-9.e+-]+).*/\1 \2/' <<<"$json" | awk '{print $1 / $2}')$'\n'
			done
		done
	done
	line="| $label |"
	for p in "${!programs[@]}"; do
		declare -A mid=()
		for n in "${cores[@]}"; do
			mid[$n]=$(printf %s "${rates[$p,$n]}" | median)
			line+=" $(awk -v x="${mid[$n]}" 'BEGIN {s = sprintf("%d", x); while (length(s) > 3) {t = "," substr(s, length(s) - 2) t; s = substr(s, 1, length(s) - 3)} print s t}') |"
		done
		for n in "${cores[@]:1}"; do
			line+=" $(awk -v a="${mid[${cores[0]}]}" -v b="${mid[$n]}" 'BEGIN {printf "%.2f", b / a}') |"
		done
	done
	echo "$line"
done <<<"$settings"
