"""The rank of a process, from the variables of its launcher. The only place that knows their names.

Training scripts read RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as set by torchrun;
mpirun, srun and Paddle each have variables of their own. Standard library only and quick to import: `trainmark.mark`
uses it inside the scripts of others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

VARIABLES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "paddle": {
        "RANK": ("PADDLE_TRAINER_ID",),
        "WORLD_SIZE": ("PADDLE_TRAINERS_NUM",),
        "LOCAL_RANK": ("PADDLE_RANK_IN_NODE",),
        "LOCAL_WORLD_SIZE": ("PADDLE_LOCAL_SIZE",),
    },
    "mpi": {
        "RANK": ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"),
        "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
        "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
        "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
    },
    "slurm": {"RANK": ("SLURM_PROCID",), "WORLD_SIZE": ("SLURM_NTASKS",), "LOCAL_RANK": ("SLURM_LOCALID",)},
}
"""What each launcher calls the variables of torchrun. A launcher may run inside a process of a later one: `srun --pty
bash` leaves PMI_RANK and SLURM_PROCID to all that is started in that shell."""

SOURCES = {
    name: tuple(source for variables in VARIABLES.values() for source in variables.get(name, ()))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
}
"""The name that torchrun uses, and those of other launchers."""


def read(name: str, environment: Mapping[str, str], *, default: int) -> int:
    """`name` is torchrun's, such as LOCAL_RANK.

    It comes before those of other launchers: a torchrun inside a process of srun sets its own.
    """
    names = (name, *SOURCES[name])
    return next((int(environment[each]) for each in names if environment.get(each, "").isdigit()), default)


def translate(environment: Mapping[str, str], launcher: str | None = None) -> dict[str, str]:
    """The variables of torchrun from those of the launcher, which override RANK and the like of an outer shell.

    Of a `launcher` that is named, only its own variables count: those of others are from an outer shell.
    The controller sets the master; if it did not, the master is the launcher's first machine. Paddle's launcher always
    chooses the master itself.
    """
    known = SOURCES if launcher is None else VARIABLES[launcher]
    found = {}
    for name, sources in known.items():
        value = next((environment[source] for source in sources if environment.get(source, "").isdigit()), None)
        if value is not None:
            found[name] = value
    chosen = {}
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if nodes is not None:
        chosen["MASTER_ADDR"] = first_host(nodes)
    master = environment.get("PADDLE_MASTER", "")
    if ":" in master and launcher in (None, "paddle"):
        chosen["MASTER_ADDR"], chosen["MASTER_PORT"] = master.rsplit(":", 1)
    keeps_given = launcher != "paddle"
    return found | {name: value for name, value in chosen.items() if not (keeps_given and environment.get(name))}


def first_host(nodes: str) -> str:
    """The first host of a list of Slurm: gpu03 for `gpu[03-07,12]`."""
    first = re.split(r",(?![^\[]*\])", nodes, maxsplit=1)[0]
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", first)
