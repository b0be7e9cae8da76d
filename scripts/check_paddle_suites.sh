#!/usr/bin/env bash
# The suites of the two Paddle reports with --framework paddle at `--size small` on the CPU, with 1 and 2 processes:
# sweep, logs, speed-ups, JSON, AI-Rank, reports in Chinese; then what `plan` and the dry launcher say of larger counts.
# Needs about five minutes of two free cores; it writes only into the folder given.
#
#   TRAINMARK="python -m trainmark.cli.main" scripts/check_paddle_suites.sh FOLDER [WORKLOAD]
set -euo pipefail
read -ra trainmark <<<"${TRAINMARK:-trainmark}"
mkdir -p "$1"
cd "$1"

check() {
    local workload=$1 batch=$2
    local suite=("report-$workload" --framework paddle)
    local small=(--device cpu --size small --precision fp32 --nodes 1 --devices 1,2 --batch-size "$batch" --repeat 4)
    echo "== $workload: sweep, logs, JSON, exports, reports"
    "${trainmark[@]}" run "${suite[@]}" "${small[@]}" --max-steps 8 --store "$workload"
    ls -d "$workload"/*/output.log "$workload"/*/paddle
    "${trainmark[@]}" show --store "$workload" --json >"$workload.json"
    "${trainmark[@]}" export --format dlperf --store "$workload" --output "$workload.dlperf.json"
    "${trainmark[@]}" export --format ai-rank --store "$workload" --output "$workload.ai-rank/"
    "${trainmark[@]}" report --lang zh --store "$workload" --output "$workload.md"
    "${trainmark[@]}" report --lang zh --store "$workload" --output "$workload.html"
    echo "== $workload: larger counts"
    "${trainmark[@]}" plan "${suite[@]}" | tee "$workload.plan"
    "${trainmark[@]}" run "${suite[@]}" --launcher dry --store "$workload-dry" >"$workload.commands"
    echo "$(grep -c paddle.distributed.launch "$workload.commands") commands of paddle.distributed.launch"
}

[ "${2:-resnet50}" != resnet50 ] || check resnet50 4
[ "${2:-hrnet_w18}" != hrnet_w18 ] || check hrnet_w18 2
