#!/usr/bin/env bash
# The Mask R-CNN report: pytorch_test_base.sh CARDS fp32|amp BATCH_SIZE_PER_CARD
#
# Writes pytorch_gpu<CARDS>_<precision>_bs<BATCH_SIZE>.txt here: what the run printed and its results as JSON. The
# learning rate follows the global batch, which the report had to do by hand.
. "$(dirname "$0")/../measure.sh"

[[ $# -eq 3 ]] || { echo "usage: pytorch_test_base.sh CARDS fp32|amp BATCH_SIZE" >&2 && exit 2; }
measure mask_rcnn 1 "$1" "$3" "$2" >"pytorch_gpu$1_$2_bs$3.txt" 2>&1
