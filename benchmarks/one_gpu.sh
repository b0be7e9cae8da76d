#!/usr/bin/env bash
# What the docs state for one GPU, measured on the one of this machine:
#
#   benchmarks/one_gpu.sh speeds             each cell of the suite `seeds` once, for some seconds
#   benchmarks/one_gpu.sh jpegs [IMAGES]     ResNet-50 `fast` from JPEGs on disk against synthetic data
#   benchmarks/one_gpu.sh guide tsm [...]    the commands of docs/guides/tsm.md that make a data set and train on it
#
# Data sets are made in $DATA (a temporary folder), results go to $STORE (runs). $TRAINMARK is the program; $MAKE and $RUN
# are further flags of `data make` and `run`, as RUN="--device cpu --size small --epochs 1" to try a part without a GPU.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
STORE=$(realpath -m "${STORE:-runs}")
TRAINMARK=${TRAINMARK:-trainmark}
[[ $TRAINMARK == ./* || $TRAINMARK == */bin/* ]] && TRAINMARK=$(realpath -s "$TRAINMARK")
if [[ -z ${DATA:-} ]]; then
    DATA=$(mktemp -d)
    trap 'rm -rf "$DATA"' EXIT
fi
mkdir -p "$DATA"
part=${1:-}
(($#)) && shift

# The variables hold several words each.
# shellcheck disable=SC2086
run() { $TRAINMARK run "$@" --store "$STORE" --retries 0 ${RUN:-}; }
# shellcheck disable=SC2086
make_data() { $TRAINMARK data make "$@" ${MAKE:-}; }

follow() { # a guide's own commands, but for the recipe where $RUN has one; none twice
    local line words seen=
    while read -r line; do
        [[ $line == *--as-videos* ]] && continue # needs PyAV, and no guide trains on them
        [[ ${RUN:-} == *--recipe* ]] && line=$(sed -E 's/ --recipe[ =][^ ]+//' <<<"$line")
        [[ $seen == *"|$line|"* ]] && continue
        seen+="|$line|"
        read -ra words <<<"$line"
        echo "\$ $line"
        if [[ ${words[1]} == data ]]; then
            [[ -e ${words[4]} ]] || make_data "${words[@]:3}"
        else
            run "${words[@]:2}"
        fi
    done < <(grep -hE '^    trainmark (data make|run [a-z0-9_]+ --data) ' "$1" | sed 's/  *#.*//')
}

case $part in
speeds) run seeds --repeat 1 --min-seconds 4 --max-seconds 8 ;;
jpegs)
    [[ -e $DATA/jpegs ]] || make_data imagenet "$DATA/jpegs" --images "${1:-12800}"
    run resnet50 --recipe fast --precision bf16 --batch-size 128 --data "synthetic,$DATA/jpegs" --min-seconds 10 --max-seconds 14
    ;;
guide)
    cd "$DATA"
    for workload in "$@"; do follow "$root/docs/guides/$workload.md"; done
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
