"""`python -m trainmark.cli.pod`: what a pod of a rendered Kubernetes manifest runs. Users do not call it."""

from __future__ import annotations

import argparse
import sys

from trainmark.cli.output import end_like_ctrl_c, exit_code_of, print_error
from trainmark.cli.progress import RunProgress
from trainmark.controller.pod import run_pod
from trainmark.errors import TrainmarkError


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="trainmark.cli.pod", description="a pod of `--launcher kubernetes`")
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--master", required=True)
    args = parser.parse_args(argv)
    end_like_ctrl_c()
    try:
        with RunProgress() as progress:
            outcome = run_pod(node_rank=args.node_rank, master=args.master, listener=progress)
    except TrainmarkError as error:
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        return exit_code_of(interrupt)
    return 0 if outcome == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
