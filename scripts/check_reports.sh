#!/usr/bin/env bash
# Runs the commands of the five reports at `--size small` on the CPU, on generated data in the real layouts, and checks
# the files that they leave. Needs two idle cores and about ten minutes; it writes only into the folder given.
#
#   TRAINMARK="python -m trainmark.cli.main" scripts/check_reports.sh FOLDER [psenet hrnet_w18 mask_rcnn resnet50 tsm]
set -euo pipefail
reports=$(cd "$(dirname "$0")/reports" && pwd)
folder=$1
shift
export TRAINMARK=${TRAINMARK:-trainmark} OMP_NUM_THREADS=1
short="--device cpu --size small --max-steps 2 --min-seconds 0.1"
read -ra trainmark <<<"$TRAINMARK"

say() { echo "== $*"; }
expect() { for file in "$@"; do [[ -s $file ]] || { echo "missing or empty: $file" >&2 && exit 1; }; done; }

check_psenet() {
    say "PSENet: preData.sh, then run_benchmark.sh sp 8 fp32 2 LOG_PATH on the set it made"
    IMAGES=20 bash "$reports/psenet/preData.sh"
    DATA_DIR=train_data/icdar2015 CUDA_VISIBLE_DEVICES=0 TRAINMARK_ARGS="--device cpu --size small" \
        bash "$reports/psenet/run_benchmark.sh" sp 8 fp32 2 log_path
    expect log_path/psenet_bs8_fp32_sp_bs8_fp32_1
    tail -n 1 log_path/psenet_bs8_fp32_sp_bs8_fp32_1_speed
    say "PSENet: run_benchmark.sh mp 64 fp32 2, on two processes and synthetic data"
    CUDA_VISIBLE_DEVICES=0,1 TRAINMARK_ARGS=$short bash "$reports/psenet/run_benchmark.sh" mp 64 fp32 2
    tail -n 1 psenet_bs64_fp32_mp_bs64_fp32_2_speed
}

check_hrnet_w18() {
    say "HRNet-W18: run_single_card.sh and run_multi_card.sh 1 2, speed; run_multi_card.sh 1 2 to a target"
    TRAINMARK_ARGS=$short bash "$reports/hrnet_w18/run_single_card.sh" >GPUx1-bs8.log 2>&1
    TRAINMARK_ARGS=$short bash "$reports/hrnet_w18/run_multi_card.sh" 1 2 >GPUx2-bs8.log 2>&1
    "${trainmark[@]}" data make cityscapes cityscapes --images 20 --val-fraction 0.1
    DATA_DIR=cityscapes TRAINMARK_ARGS="--device cpu --size small --epochs 1 --until-target 0.0001" \
        bash "$reports/hrnet_w18/run_multi_card.sh" 1 2 >GPUx2_time2train_ips-bs8.log 2>&1
    grep -h AI-Rank GPUx1-bs8.log GPUx2_time2train_ips-bs8.log
    expect ai-rank/summary_metrics.json ai-rank/system_information.json
}

check_mask_rcnn() {
    say "Mask R-CNN: pytorch_test_all.sh on COCO 2014, one card"
    "${trainmark[@]}" data make coco coco --images 16 --val-fraction 0.25
    for part in train val; do
        mv "coco/${part}2017" "coco/${part}2014"
        mv "coco/annotations/instances_${part}2017.json" "coco/annotations/instances_${part}2014.json"
    done
    DATA_DIR=coco CARDS=1 TRAINMARK_ARGS=$short bash "$reports/mask_rcnn/pytorch_test_all.sh"
    expect pytorch_gpu1_{fp32,amp}_bs{2,4}.txt
}

check_resnet50() {
    say "ResNet-50: run_single_node.sh on list files, 1n1g and 1n2g twice, then extract_paddle_logs_time.py"
    "${trainmark[@]}" data make imagenet ILSVRC2012 --images 80 --classes 2
    (cd ILSVRC2012 && label=0 && for class in train/*; do
        for split in train val; do
            for image in "$split/${class#train/}"/*; do echo "$image $label" >>"${split}_list.txt"; done
        done
        label=$((label + 1))
    done)
    DATA_DIR=ILSVRC2012 CARDS="1 2" REPEAT=2 BATCH_SIZE=16 TRAINMARK_ARGS=$short \
        bash "$reports/resnet50/run_single_node.sh"
    expect logs/paddle/resnet50/1n{1,2}g/r50_b16_fp32_{1,2}.log
    python3 "$reports/resnet50/extract_paddle_logs_time.py" --log_dir=logs/paddle/resnet50
}

check_tsm() {
    say "TSM: run_single.sh 1 1 True and 1 2 False, speed; run_single.sh 1 1 False on Kinetics, one epoch"
    # Two clips instead of 16: half precision is very slow on a CPU.
    TRAINMARK_ARGS="$short --batch-size 2" bash "$reports/tsm/run_single.sh" 1 1 True >amp_1.json
    TRAINMARK_ARGS=$short bash "$reports/tsm/run_single.sh" 1 2 False >fp32_2.json
    "${trainmark[@]}" data make kinetics kinetics --images 24 --classes 2 --val-fraction 0.25
    DATA_DIR=kinetics TRAINMARK_ARGS="--device cpu --size small --epochs 1" \
        bash "$reports/tsm/run_single.sh" 1 1 False >train.json
    grep -h '"outcome"\|"metric"' ./*.json
}

for report in "${@:-psenet hrnet_w18 mask_rcnn resnet50 tsm}"; do
    for name in $report; do
        mkdir -p "$folder/$name"
        (cd "$folder/$name" && "check_$name")
        say "$name: done"
    done
done
