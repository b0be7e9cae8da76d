#!/usr/bin/env bash
# The HRNet-W18 report: ./run_single_card.sh > GPUx1-bs8.log 2>&1
exec "$(dirname "$0")/run_multi_card.sh" 1 1
