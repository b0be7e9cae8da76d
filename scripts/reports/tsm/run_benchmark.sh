#!/usr/bin/env bash
# The TSM report: run_benchmark.sh 4 8 True, for several machines: HOSTS=node1,node2,node3,node4
#
# The report starts it with mpirun on every machine. trainmark starts the other machines itself: call it once.
exec bash "$(dirname "$0")/run_single.sh" "$@"
