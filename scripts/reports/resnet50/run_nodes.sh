#!/usr/bin/env bash
# The ResNet-50 report: run_nodes.sh NODES CARDS ... runs each case REPEAT (6) times with 128 images per card in fp32
#
# Logs as DLPerf names them: logs/paddle/resnet50/<N>n<G>g/r50_b128_fp32_<k>.log; the run folders are beside them.
STORE=${STORE:-logs/paddle/resnet50/runs}
. "$(dirname "$0")/../measure.sh"

batch_size=${BATCH_SIZE:-128} nodes=$1
shift
status=0
for cards in "$@"; do
    case_folder=logs/paddle/resnet50/${nodes}n${cards}g
    results=$(measure resnet50 "$nodes" "$cards" "$batch_size" fp32 --repeat "${REPEAT:-6}") || status=$?
    mkdir -p "$case_folder"
    number=0
    for run_id in $(run_ids <<<"$results"); do
        number=$((number + 1))
        "${trainmark[@]}" export --format paddle-benchmark --store "$store" --output "$case_folder/$run_id/" "$run_id"
        rm -f "$case_folder/$run_id/"*_speed
        mv "$case_folder/$run_id/"* "$case_folder/r50_b${batch_size}_fp32_$number.log"
        rmdir "$case_folder/$run_id"
    done
done
exit "$status"
