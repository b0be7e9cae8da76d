#!/bin/sh
# Measure, then judge: check.sh quick, or check.sh -- python train.py
# Ends as `trainmark check` does: 0 pass, 1 a run failed, 2 bad input, 3 regression, 4 inconclusive or not measured.
set -u
store=${STORE:-runs}
since=$(date +%s)

trainmark run --store "$store" --repeat "${REPEAT:-3}" "$@"
code=$?
case $code in
    0 | 1) ;;          # measured, or a run failed: the check says which
    *) exit "$code" ;; # bad input, or interrupted
esac

trainmark check --store "$store" --since "$since" --baseline "${BASELINE:-trainmark-baseline.toml}" \
    --junit "${JUNIT:-trainmark.xml}"
