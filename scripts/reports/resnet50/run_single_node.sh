#!/usr/bin/env bash
# The ResNet-50 report: bash run_single_node.sh (one machine). CARDS="1 2" measures other cases.
exec bash "$(dirname "$0")/run_nodes.sh" 1 ${CARDS:-1 2 4 8}
