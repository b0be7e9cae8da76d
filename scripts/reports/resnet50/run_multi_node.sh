#!/usr/bin/env bash
# The ResNet-50 report: bash run_multi_node.sh (four machines, HOSTS=node1,node2,node3,node4). CARDS="1 2" measures other cases.
exec bash "$(dirname "$0")/run_nodes.sh" 4 ${CARDS:-8}
