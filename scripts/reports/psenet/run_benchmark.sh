#!/usr/bin/env bash
# The PSENet report: CUDA_VISIBLE_DEVICES=0 bash run_benchmark.sh sp 8 fp32 2 LOG_PATH; the last number is epochs.
MODEL=psenet exec bash "$(dirname "$0")/../../run_benchmark.sh" "$@"
