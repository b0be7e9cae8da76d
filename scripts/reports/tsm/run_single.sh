#!/usr/bin/env bash
# The TSM report: bash run_single.sh NUM_TRAINERS NUM_CARDS USE_AMP, such as 1 8 True
#
# 16 clips per card; the learning rate is 0.0025 for each card. With DATA_DIR (Kinetics) it trains 50 epochs with an
# evaluation after each, else it measures the speed.
. "$(dirname "$0")/../measure.sh"

[[ $# -eq 3 ]] || { echo "usage: ${0##*/} NUM_TRAINERS NUM_CARDS True|False" >&2 && exit 2; }
precision=$(precision_of "$3")
mapfile -t training < <(with_data --epochs 50)
measure tsm "$1" "$2" 16 "$precision" ${training[@]+"${training[@]}"}
