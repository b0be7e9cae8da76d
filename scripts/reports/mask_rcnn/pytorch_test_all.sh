#!/usr/bin/env bash
# The Mask R-CNN report: bash pytorch_test_all.sh
#
# Eight files, 1 and 8 cards, fp32 and AMP, 2 and 4 images per card. A row that this machine cannot run says so in its
# file. CARDS="1" measures fewer. Exit code: 0, or 1 if a run failed.
set -uo pipefail
status=0
for cards in ${CARDS:-1 8}; do
    for precision in fp32 amp; do
        for batch_size in 2 4; do
            bash "$(dirname "$0")/pytorch_test_base.sh" "$cards" "$precision" "$batch_size"
            code=$?
            # 2: this machine cannot run it
            [[ $code -eq 0 || $code -eq 2 ]] || status=1
            echo "pytorch_gpu${cards}_${precision}_bs${batch_size}.txt: exit code $code" >&2
        done
    done
done
exit $status
