# Shared by the reports' own commands in this folder; each of them names a workload and its rows, and `measure` runs one.
#
# DATA_DIR      the data set, as it is published (default: synthetic data, speed only)
# HOSTS         names of the machines for several nodes, the first is this one: HOSTS=node1,node2
# STORE         where the run folders go (default: runs)
# TRAINMARK     the program (default: trainmark); TRAINMARK_ARGS further flags, such as --device cpu --size small

set -euo pipefail
read -ra trainmark <<<"${TRAINMARK:-trainmark}"
read -ra further <<<"${TRAINMARK_ARGS:-}"
store=${STORE:-runs}

# measure WORKLOAD NODES DEVICES BATCH_SIZE PRECISION [FLAG ...]; prints the JSON document of `trainmark run`
measure() {
    local workload=$1 nodes=$2 devices=$3 batch_size=$4 precision=$5
    shift 5
    local where=()
    [[ $nodes -eq 1 ]] || where=(--nodes "$nodes" ${HOSTS:+--hosts "$HOSTS"})
    "${trainmark[@]}" run "$workload" --store "$store" --devices "$devices" --batch-size "$batch_size" \
        --precision "$precision" --data "${DATA_DIR:-synthetic}" --json \
        ${where[@]+"${where[@]}"} "$@" ${further[@]+"${further[@]}"}
}

# run_ids: the ids in a document of `measure`, in the order of the runs
run_ids() { sed -n 's/^ *"id": "\([^"]*\)",$/\1/p'; }

# with_data FLAG ...: the flags if there is a data set to train on
with_data() { [[ -z ${DATA_DIR:-} ]] || printf '%s\n' "$@"; }

# precision_of True|False: the reports' switch for mixed precision
precision_of() {
    case $1 in
        True) echo amp ;;
        False) echo fp32 ;;
        *)
            echo "${0##*/}: AMP must be True or False, got $1" >&2
            exit 2
            ;;
    esac
}
