#!/usr/bin/env bash
# The HRNet-W18 report: ./run_multi_card.sh NODES CARDS > GPUx8_time2train_ips-bs8.log 2>&1
#
# With DATA_DIR (Cityscapes) it trains until 78% mIoU, else it measures the speed. The log ends with AI-Rank's lines;
# the folder ai-rank has them too, with summary_metrics.json and system_information.json.
. "$(dirname "$0")/../measure.sh"

[[ $# -eq 2 ]] || { echo "usage: run_multi_card.sh NODES CARDS" >&2 && exit 2; }
nodes=$1 cards=$2 batch_size=8
[[ $((nodes * cards)) -lt 32 ]] || batch_size=4
mapfile -t training < <(with_data --until-target)
[[ $((nodes * cards)) -gt 1 ]] || training=() # the report trains on 8 and 32 cards only

status=0
results=$(measure hrnet_w18 "$nodes" "$cards" "$batch_size" fp32 ${training[@]+"${training[@]}"}) || status=$?
run_id=$(run_ids <<<"$results" | head -n 1)
[[ -n $run_id ]] || exit "$status"
"${trainmark[@]}" export --format ai-rank --store "$store" --output ai-rank/ "$run_id"
cat ai-rank/*/log/[CG]PUx"$((nodes * cards))".log
exit "$status"
