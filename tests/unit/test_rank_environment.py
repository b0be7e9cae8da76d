from __future__ import annotations

import pytest

from trainmark import rank_environment
from trainmark.launch.registry import launchers


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        ),
        (
            {
                "SLURM_PROCID": "5",
                "SLURM_NTASKS": "8",
                "SLURM_LOCALID": "1",
                "SLURM_STEP_NODELIST": "gpu[03-07,12]",
                "SLURM_JOB_NODELIST": "gpu[01-12]",
            },
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "gpu03"},
        ),
        (
            {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_MASTER": "10.0.0.1:6000"},
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "6000"},
        ),
        ({"RANK": "1", "SLURM_PROCID": "0"}, {"RANK": "0"}),
        ({}, {}),
    ],
)
def test_translate(launcher: dict[str, str], expected: dict[str, str]) -> None:
    assert rank_environment.translate(launcher) == expected


def test_what_the_controller_gave_stays() -> None:
    assert rank_environment.translate({"SLURM_STEP_NODELIST": "a,b", "MASTER_ADDR": "10.0.0.9"}) == {}
    assert rank_environment.translate({"SLURM_STEP_NODELIST": "a,b", "MASTER_ADDR": ""}) == {"MASTER_ADDR": "a"}


def outer_shell() -> dict[str, str]:
    """What `srun --pty bash` leaves, on a machine whose operator has set more."""
    return {
        "PMI_RANK": "0", "PMI_SIZE": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0",
        "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "login", "MASTER_PORT": "1",
    }  # fmt: skip


OF_PADDLE = {
    "PADDLE_TRAINER_ID": "3", "PADDLE_TRAINERS_NUM": "4", "PADDLE_RANK_IN_NODE": "1", "PADDLE_LOCAL_SIZE": "2",
    "PADDLE_MASTER": "10.0.0.1:6000",
}  # fmt: skip
OF_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}  # fmt: skip


def test_the_variables_of_the_launcher_win_over_those_of_an_outer_shell() -> None:
    ranks = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    by_paddle = rank_environment.translate({**outer_shell(), **OF_PADDLE}, "paddle")
    assert by_paddle == {**ranks, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "6000"}
    without_name = rank_environment.translate({**outer_shell(), **OF_PADDLE})
    assert without_name == ranks, "Paddle's launcher runs inside those of others"
    platform = {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "1", "PADDLE_MASTER": "cloud:1"}
    assert rank_environment.translate({**outer_shell(), **platform, **OF_MPI}, "mpi") == ranks
    by_slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1"}
    found = rank_environment.translate({**outer_shell(), **platform, **OF_MPI, **by_slurm}, "slurm")
    assert found == {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, "the controller gives LOCAL_WORLD_SIZE"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("gpu[3-7]", "gpu3"),
        ("r[08,12]-ib,x", "r08-ib"),
        ("a-b[1-2]", "a-b1"),
        ("rack[1-2]node[01-04],x", "rack1node01"),
    ],
)
def test_first_host(nodes: str, first: str) -> None:
    assert rank_environment.first_host(nodes) == first


def test_the_rank_is_that_of_the_innermost_launcher() -> None:
    assert rank_environment.read("RANK", {}, default=0) == 0
    assert rank_environment.read("RANK", {"SLURM_PROCID": "3"}, default=0) == 3
    assert rank_environment.read("RANK", {"SLURM_PROCID": "3", "RANK": "1"}, default=0) == 1
    assert rank_environment.read("LOCAL_WORLD_SIZE", {"RANK": "1", "LOCAL_WORLD_SIZE": "x"}, default=4) == 4


def test_every_launcher_sets_a_rank_that_is_known() -> None:
    known = {"RANK", *rank_environment.SOURCES["RANK"]}
    assert all(set(found.value.rank_variables) <= known for found in launchers().found())
