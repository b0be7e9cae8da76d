#!/usr/bin/env bash
# The ResNet-50 report: bash run_two_node.sh (two machines, HOSTS=node1,node2). CARDS="1 2" measures other cases.
exec bash "$(dirname "$0")/run_nodes.sh" 2 ${CARDS:-8}
