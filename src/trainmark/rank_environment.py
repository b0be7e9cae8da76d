"""The rank of a process, from the variables of its launcher. The only place that knows their names.

Training scripts read RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as set by torchrun;
mpirun, srun and Paddle each have variables of their own. Standard library only and quick to import: `trainmark.mark`
uses it inside the scripts of others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SOURCES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PADDLE_TRAINER_ID", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PADDLE_TRAINERS_NUM", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PADDLE_RANK_IN_NODE", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PADDLE_LOCAL_SIZE"),
}
"""The name that torchrun uses, and those of other launchers."""


def read(name: str, environment: Mapping[str, str], *, default: int) -> int:
    """`name` is torchrun's, such as LOCAL_RANK.

    It comes before those of other launchers: a torchrun inside a process of srun sets its own.
    """
    names = (name, *SOURCES[name])
    return next((int(environment[each]) for each in names if environment.get(each, "").isdigit()), default)


def translate(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of torchrun from those of the launcher, which override RANK and the like of an outer shell.

    The controller sets the master; if it did not, the master is the launcher's first machine.
    """
    found = {}
    for name, sources in SOURCES.items():
        value = next((environment[source] for source in sources if environment.get(source, "").isdigit()), None)
        if value is not None:
            found[name] = value
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if nodes is not None:
        found["MASTER_ADDR"] = first_host(nodes)
    master = environment.get("PADDLE_MASTER", "")
    if ":" in master:
        found["MASTER_ADDR"], found["MASTER_PORT"] = master.rsplit(":", 1)
    return {name: value for name, value in found.items() if name in SOURCES or not environment.get(name)}


def first_host(nodes: str) -> str:
    """The first host of a list of Slurm: gpu03 for `gpu[03-07,12]`."""
    first = re.split(r",(?![^\[]*\])", nodes, maxsplit=1)[0]
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", first)
