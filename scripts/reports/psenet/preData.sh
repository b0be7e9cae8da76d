#!/usr/bin/env bash
# The PSENet report: bash preData.sh makes a small data set in train_data/icdar2015, in the layout of ICDAR 2015.
#
# IMAGES (40) are drawn, not downloaded: 32 to train on and 8 to test with. For the public set see
# `trainmark data fetch --help`; it is read as it is unpacked.
set -euo pipefail
read -ra trainmark <<<"${TRAINMARK:-trainmark}"
"${trainmark[@]}" data make icdar2015 train_data/icdar2015 --images "${IMAGES:-40}" --val-fraction 0.2
