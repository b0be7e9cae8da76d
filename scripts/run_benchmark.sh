#!/usr/bin/env bash
# The command contract of PaddlePaddle's benchmark, for all five workloads; the work is done by trainmark.
#
#   MODEL=psenet run_benchmark.sh RUN_MODE BATCH_SIZE FP_ITEM MAX_ITER
#
#   RUN_MODE    sp (one process) or mp (one process for each device)
#   BATCH_SIZE  per device; for psenet the total over the devices, as its own benchmark counts
#   FP_ITEM     fp32 or fp16 (trainmark's amp)
#   MAX_ITER    iterations to train
#
# MODEL             resnet50, hrnet_w18, mask_rcnn, tsm or psenet; without it the name of the folder this is called in
# CUDA_VISIBLE_DEVICES  its comma-separated fields are the devices; without it there is one
# TRAIN_LOG_DIR     where log and index file go (default: here)
# TRAINMARK         the program (default: trainmark); TRAINMARK_ARGS further flags, such as --device cpu --size small
#
# Leaves <case>_<mode>_bs<bs>_<fp>_<gpus> (the log) and the same with _speed, whose last line is the JSON object.
# Exit code: 0 measured, 1 the run failed (the index says JOB_FAIL_FLAG 1), 2 bad input and nothing started.
set -euo pipefail

refuse() {
    echo "run_benchmark.sh: $1" >&2
    echo "usage: MODEL=resnet50|hrnet_w18|mask_rcnn|tsm|psenet run_benchmark.sh sp|mp BATCH_SIZE fp32|fp16 MAX_ITER" >&2
    exit 2
}

is_count() { [[ $1 =~ ^[1-9][0-9]{0,8}$ ]]; }

[[ $# -eq 4 ]] || refuse "four arguments are needed, $# were given"
run_mode=$1 batch_size=$2 fp_item=$3 max_iter=$4
model=${MODEL:-$(basename "$PWD")}

case $model in resnet50 | hrnet_w18 | mask_rcnn | tsm | psenet) ;; *) refuse "MODEL $model is not known" ;; esac
is_count "$batch_size" || refuse "BATCH_SIZE $batch_size is no whole number from 1 up"
is_count "$max_iter" || refuse "MAX_ITER $max_iter is no whole number from 1 up"
case $fp_item in fp32) precision=fp32 ;; fp16) precision=amp ;; *) refuse "FP_ITEM $fp_item is not supported" ;; esac

IFS=, read -ra visible <<<"${CUDA_VISIBLE_DEVICES:-0}"
num_devices=${#visible[@]}
case $run_mode in
    sp) [[ $num_devices -eq 1 ]] || refuse "sp is one process, and CUDA_VISIBLE_DEVICES names $num_devices devices" ;;
    mp) [[ $num_devices -gt 1 ]] || refuse "mp needs two devices or more in CUDA_VISIBLE_DEVICES" ;;
    *) refuse "RUN_MODE $run_mode is not supported" ;;
esac

per_device=$batch_size
if [[ $model == psenet ]]; then
    ((batch_size % num_devices == 0)) || refuse "psenet's total batch of $batch_size does not divide by $num_devices devices"
    per_device=$((batch_size / num_devices))
fi

read -ra trainmark <<<"${TRAINMARK:-trainmark}"
read -ra further <<<"${TRAINMARK_ARGS:-}"
directory=${TRAIN_LOG_DIR:-.}
mkdir -p "$directory" || refuse "TRAIN_LOG_DIR $directory cannot be made"
store=$directory/runs # raw steps, environment and command of each run stay here

status=0
# All iterations asked for are run: no early stop by precision (--target-ci) or time.
results=$("${trainmark[@]}" run "$model" --store "$store" --devices "$num_devices" --batch-size "$per_device" \
    --precision "$precision" --max-steps "$max_iter" --target-ci 1e-9 --max-seconds 1e6 --timeout-s 1e7 --json \
    ${further[@]+"${further[@]}"}) || status=$?
run_id=$(sed -n 's/^ *"id": "\([^"]*\)",$/\1/p' <<<"$results" | head -n 1)
[[ -n $run_id ]] || exit "$status"
"${trainmark[@]}" export --format paddle-benchmark --store "$store" --output "$directory/" "$run_id"
exit "$status"
