#!/usr/bin/env bash
# The command contract of PaddlePaddle's benchmark, for all five workloads; the work is done by trainmark.
#
#   MODEL=psenet run_benchmark.sh RUN_MODE BATCH_SIZE FP_ITEM MAX_ITER [LOG_PATH]
#
#   RUN_MODE    sp (one process) or mp (one process for each device)
#   BATCH_SIZE  per device; for psenet the total over the devices, as its own benchmark counts
#   FP_ITEM     fp32 or fp16 (trainmark's amp)
#   MAX_ITER    iterations to train; for psenet epochs
#   LOG_PATH    where log and index file go (default: TRAIN_LOG_DIR, else here)
#
# MODEL             resnet50, hrnet_w18, mask_rcnn, tsm or psenet; without it the name of the folder this is called in
#                   (PSENet for psenet, too)
# DATA_DIR          the data set, as it is published; without it synthetic data, and an epoch of psenet is as many
#                   steps as ICDAR 2015's 1,000 images make
# CUDA_VISIBLE_DEVICES  its comma-separated fields are the devices; without it there is one
# TRAINMARK         the program (default: trainmark); TRAINMARK_ARGS further flags, such as --device cpu --size small
#
# Leaves <case>_<mode>_bs<bs>_<fp>_<gpus> (the log) and the same with _speed, whose last line is the JSON object.
# Exit code: 0 measured, 1 the run failed or its speed is too noisy to be given (the index says JOB_FAIL_FLAG 1; a noisy
# run's still has the loss), 2 bad input and nothing started.
set -euo pipefail

refuse() {
    echo "run_benchmark.sh: $1" >&2
    echo "usage: MODEL=resnet50|hrnet_w18|mask_rcnn|tsm|psenet run_benchmark.sh sp|mp BATCH_SIZE fp32|fp16 MAX_ITER [LOG_PATH]" >&2
    exit 2
}

is_count() { [[ $1 =~ ^[1-9][0-9]{0,8}$ ]]; }

[[ $# -eq 4 || $# -eq 5 ]] || refuse "four or five arguments are needed, $# were given"
run_mode=$1 batch_size=$2 fp_item=$3 max_iter=$4
directory=${5:-${TRAIN_LOG_DIR:-.}}
model=${MODEL:-$(basename "$PWD")}
[[ $model == PSENet ]] && model=psenet

case $model in resnet50 | hrnet_w18 | mask_rcnn | tsm | psenet) ;; *) refuse "MODEL $model is not known" ;; esac
is_count "$batch_size" || refuse "BATCH_SIZE must be an integer >= 1, got $batch_size"
is_count "$max_iter" || refuse "MAX_ITER must be an integer >= 1, got $max_iter"
case $fp_item in fp32) precision=fp32 ;; fp16) precision=amp ;; *) refuse "FP_ITEM $fp_item is not supported" ;; esac
[[ -z ${DATA_DIR:-} || -d $DATA_DIR ]] || refuse "DATA_DIR $DATA_DIR is not a folder"

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

# All that was asked for is run: no early stop by precision (--target-ci) or time.
length=(--max-steps "$max_iter" --target-ci 1e-9 --max-seconds 1e6 --timeout-s 1e7)
if [[ $model == psenet && -n ${DATA_DIR:-} ]]; then
    length=(--epochs "$max_iter")
elif [[ $model == psenet ]]; then
    steps_per_epoch=$((1000 / batch_size > 0 ? 1000 / batch_size : 1))
    length[1]=$((max_iter * steps_per_epoch))
fi

read -ra trainmark <<<"${TRAINMARK:-trainmark}"
read -ra further <<<"${TRAINMARK_ARGS:-}"
mkdir -p "$directory" || refuse "the log folder $directory cannot be made"
store=$directory/runs # raw steps, environment and command of each run stay here

status=0
results=$("${trainmark[@]}" run "$model" --store "$store" --devices "$num_devices" --batch-size "$per_device" \
    --precision "$precision" --data "${DATA_DIR:-synthetic}" "${length[@]}" --json \
    ${further[@]+"${further[@]}"}) || status=$?
run_id=$(sed -n 's/^ *"id": "\([^"]*\)",$/\1/p' <<<"$results" | head -n 1)
[[ -n $run_id ]] || exit "$status"
index=$directory/${model}_bs${batch_size}_${fp_item}_${run_mode}_bs${batch_size}_${fp_item}_${num_devices}_speed
rm -f "$index" # of an earlier run
"${trainmark[@]}" export --format paddle-benchmark --store "$store" --output "$directory/" "$run_id"
[[ -e $index ]] || { echo "run_benchmark.sh: no index file was written for run $run_id" >&2 && exit 1; }
if ((status == 0)) && ! tail -n 1 "$index" | grep -q '"JOB_FAIL_FLAG": 0'; then
    echo "run_benchmark.sh: the speed is too noisy to be given (the loss is in the index file); ask for more iterations" >&2
    exit 1
fi
exit "$status"
