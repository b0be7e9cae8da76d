"""Manifests by their contents, and against the operators' own published models where the dev packages are there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from making import make_cell
from trainmark.errors import SpecError
from trainmark.launch.kubernetes import JOB_KINDS, POD_MODULE, POD_VARIABLE, PodJob, pod_argv, render, to_text
from trainmark.plan.identity import cell_id
from trainmark.runfolder.files import read_json
from trainmark.spec.suite import Measure

CELL = make_cell(device="cuda", nodes=2, devices_per_node=8)
RUN = {"cell": CELL.to_json(), "cell_id": cell_id(CELL), "measure": asdict(Measure()), "unit": "images", "model": "R"}
JOB = PodJob(
    run_id="20261115T084000-resnet50-abc123-r1-9f3e",
    run=RUN,
    framework="torch",
    device="cuda",
    num_nodes=2,
    processes_per_node=8,
    timeout_s=1800.0,
    image="registry.example/trainmark:1",
    store_claim="runs",
    data_claim="imagenet",
    data_path="/data/imagenet",
    namespace="team-a",
    environment={"NCCL_IB_HCA": "mlx5"},
    resources={"cpu": "64", "memory": "200Gi", "rdma/ib": "8"},
)


def pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The templates of all pods."""
    spec = manifest["spec"]
    if manifest["kind"] == "JobSet":
        return [job["template"]["spec"]["template"] for job in spec["replicatedJobs"]]
    return [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]


def test_a_pytorch_job() -> None:
    manifest = render(JOB)
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert manifest["metadata"]["namespace"] == "team-a"
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    assert {role: replica["replicas"] for role, replica in replicas.items()} == {"Master": 1, "Worker": 1}
    assert {replica["restartPolicy"] for replica in replicas.values()} == {"Never"}
    policy = manifest["spec"]["runPolicy"]
    assert policy == {"backoffLimit": 0, "cleanPodPolicy": "Running", "activeDeadlineSeconds": 5400}
    (container,) = replicas["Worker"]["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"  # the operator looks for this name
    assert container["command"] == ["python3", "-P", "-m", POD_MODULE, "--node-rank=$(RANK)", "--master=$(MASTER_ADDR)"]
    assert list(render(replace(JOB, num_nodes=1))["spec"]["pytorchReplicaSpecs"]) == ["Master"]


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_a_run_without_a_limit_has_no_deadline(kind: str) -> None:
    assert "activeDeadlineSeconds" in json.dumps(render(replace(JOB, job_kind=kind)))
    assert "activeDeadlineSeconds" not in json.dumps(render(replace(JOB, job_kind=kind, timeout_s=None)))


def test_a_job_set() -> None:
    manifest = render(replace(JOB, job_kind="JobSet"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert manifest["spec"]["failurePolicy"] == {"maxRestarts": 0}
    (job,) = manifest["spec"]["replicatedJobs"]
    indexed = job["template"]["spec"]
    sizes = {key: indexed[key] for key in ("completionMode", "completions", "parallelism", "backoffLimit")}
    assert sizes == {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
    assert indexed["template"]["spec"]["restartPolicy"] == "Never"
    (container,) = indexed["template"]["spec"]["containers"]
    name = JOB.name
    assert container["command"][-2:] == ["--node-rank=$(JOB_COMPLETION_INDEX)", f"--master={name}-node-0-0.{name}"]
    assert manifest["spec"]["network"] == {"enableDNSHostnames": True, "subdomain": name}


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_what_every_pod_has(kind: str) -> None:
    for template in pods(render(replace(JOB, job_kind=kind))):
        spec = template["spec"]
        (container,) = spec["containers"]
        assert container["image"] == JOB.image
        limits = container["resources"]["limits"]
        assert limits == {"nvidia.com/gpu": "8", "cpu": "64", "memory": "200Gi", "rdma/ib": "8"}
        assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
        volumes = {v["name"]: {k: v[k] for k in v if k != "name"} for v in spec["volumes"]}
        assert volumes == {
            "shm": {"emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
            "store": {"persistentVolumeClaim": {"claimName": "runs"}},
            "data": {"persistentVolumeClaim": {"claimName": "imagenet"}},
        }
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"shm": "/dev/shm", "store": "/trainmark/runs", "data": "/data/imagenet"}
        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        assert variables["NCCL_IB_HCA"] == "mlx5"
        assert variables["TRAINMARK_RUN"] == JOB.run_id
        assert json.loads(variables[POD_VARIABLE])["run"] == RUN
        (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_a_small_cpu_job_asks_for_nothing_special() -> None:
    job = replace(JOB, device="cpu", num_nodes=1, resources={}, data_claim=None)
    (template,) = pods(render(job))
    (container,) = template["spec"]["containers"]
    assert container["resources"] == {"limits": {}}
    assert "securityContext" not in container
    assert "affinity" not in template["spec"]
    assert [volume["name"] for volume in template["spec"]["volumes"]] == ["shm", "store"]


def test_kubernetes_does_not_expand_what_is_meant_literally() -> None:
    (template, _) = pods(render(replace(JOB, run={**RUN, "model": "$(HOME) $x"})))
    value = template["spec"]["containers"][0]["env"][-1]["value"]
    assert "$$(HOME) $x" in value  # $$( is its way to write $(


@pytest.mark.parametrize("run_id", [JOB.run_id, "a", "9", "ÄÖ/..", "x" * 300, "UPPER_case"])
def test_names_are_dns_labels(run_id: str) -> None:
    job = replace(JOB, run_id=run_id)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", job.name)
    assert len(f"{job.name}-node-0-9999-abcde") <= 63
    assert job.name != replace(job, run_id=f"{run_id}2").name


def test_everything_wrong_is_said_at_once() -> None:
    wrong = replace(
        JOB, image=None, store_claim="", namespace="Team A", job_kind="Pod", framework="paddle", data_path="data",
        shared_memory="lots", resources={"cpu": "-1"},
    )  # fmt: skip
    with pytest.raises(SpecError) as raised:
        render(wrong)
    assert {fault.where for fault in raised.value.faults} == {
        f"cluster.{key}"
        for key in ("image", "volume", "namespace", "job_kind", "framework", "data", "shared_memory", "resources.cpu")
    }
    for path in ("/", "/trainmark", "/trainmark/runs/x", "/a/../b"):
        with pytest.raises(SpecError, match="cannot be a mount path"):
            render(replace(JOB, data_path=path))
    with pytest.raises(SpecError, match="not a valid name of a claim"):
        render(replace(JOB, store_claim="Runs"))


def test_one_text_for_several() -> None:
    first, second = render(JOB), render(replace(JOB, job_kind="JobSet"))
    assert json.loads(to_text([first])) == first
    assert json.loads(to_text([first, second])) == {"apiVersion": "v1", "kind": "List", "items": [first, second]}
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert yaml.safe_load(to_text([first, second]))["items"] == [first, second]


# -- the published schemas ---------------------------------------------------------------------------------------------

SIZES = [
    JOB,
    replace(JOB, num_nodes=4, data_claim=None, resources={}, environment={}),
    replace(JOB, num_nodes=1, processes_per_node=1, device="cpu"),
]


@pytest.mark.parametrize("job", SIZES)
def test_the_schema_of_job_set(job: PodJob) -> None:
    models = pytest.importorskip("kubeflow_trainer_api.models", reason="kubeflow-trainer-api is not installed")
    manifest = render(replace(job, job_kind="JobSet"))
    read = models.JobsetV1alpha2JobSet.from_dict(manifest)  # wrong types are refused
    assert plain(read) == manifest  # unknown fields would be lost
    broken = json.loads(json.dumps(manifest))
    broken["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = "two"
    with pytest.raises(ValueError, match="completions"):
        models.JobsetV1alpha2JobSet.from_dict(broken)


@pytest.mark.parametrize("job", SIZES)
def test_the_schema_of_pytorch_job(job: PodJob) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client library, at import
        training = pytest.importorskip("kubeflow.training", reason="kubeflow-training is not installed")
    models = pytest.importorskip("kubeflow_trainer_api.models", reason="kubeflow-trainer-api is not installed")
    manifest = render(job)
    check_fields(manifest, "KubeflowOrgV1PyTorchJob", training)
    for template in pods(manifest):
        assert plain(models.IoK8sApiCoreV1PodTemplateSpec.from_dict(template)) == template
    manifest["spec"]["runPolicy"]["backofflimit"] = 0
    with pytest.raises(AssertionError, match="backofflimit"):
        check_fields(manifest, "KubeflowOrgV1PyTorchJob", training)


def plain(model: Any) -> Any:
    """As JSON: the models wrap quantities and times."""
    return json.loads(model.to_json())


def check_fields(value: Any, kind: str, training: Any) -> None:
    """Each field is one that Kubeflow's model has, of its type; pods are checked by the models of Kubernetes itself."""
    if kind.startswith("dict("):
        for inner in value.values():
            check_fields(inner, kind[:-1].split(", ")[1], training)
        return
    model = getattr(training, kind, None)
    if model is None:
        types = {"str": str, "int": int, "bool": bool}
        assert type(value) is types.get(kind, dict)
        return
    by_name = {json_name: name for name, json_name in model.attribute_map.items()}
    for name, inner in value.items():
        assert name in by_name, f"{kind} has no {name}"
        check_fields(inner, model.openapi_types[by_name[name]], training)


# -- inside the pod ----------------------------------------------------------------------------------------------------


def test_what_a_pod_starts() -> None:
    start = {"nodes": 2, "processes": 8, "port": 23456}
    argv = pod_argv(start, node_rank=1, master="m", python="/py", worker=("/py", "-m", "w", "/f"))
    assert argv == [
        "/py", "-P", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=8", "--node-rank=1",
        "--master-addr=m", "--master-port=23456", "--max-restarts=0", "--no-python", "--", "/py", "-m", "w", "/f",
    ]  # fmt: skip


def run_pod(store: Path, node_rank: int, **changes: str) -> subprocess.CompletedProcess[str]:
    """With a torchrun that only says how it was called."""
    fake = store / "fake" / "torch" / "distributed"
    fake.mkdir(parents=True, exist_ok=True)
    (fake.parent / "__init__.py").write_text("")
    (fake / "__init__.py").write_text("")
    (fake / "run.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(3)")
    start = {"store": str(store / "runs"), "nodes": 2, "processes": 8, "port": 23456, "timeout_s": 20.0, "run": RUN}
    paths = os.pathsep.join((str(store / "fake"), *filter(None, sys.path)))
    environment = {**os.environ, "TRAINMARK_RUN": "r1", POD_VARIABLE: json.dumps(start), "PYTHONPATH": paths, **changes}
    argv = [sys.executable, "-m", POD_MODULE, f"--node-rank={node_rank}", "--master=m"]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_first_pod_is_the_controller(tmp_path: Path) -> None:
    done = run_pod(tmp_path, 0)
    folder = tmp_path / "runs" / "r1"
    assert done.returncode == 1, done.stderr
    assert read_json(folder / "exit.json") is not None
    assert "exit code 3" in read_json(folder / "exit.json")["reason"]  # type: ignore[index]
    run = read_json(folder / "run.json")
    assert run is not None
    assert {key: run[key] for key in RUN} == RUN
    assert "'--node-rank=0', '--master-addr=m'" in (folder / "output.log").read_text()
    again = run_pod(tmp_path, 0)
    assert again.returncode == 2
    assert "a manifest can be run once" in again.stderr


def test_the_other_pods_become_torchrun(tmp_path: Path) -> None:
    done = run_pod(tmp_path, 1)
    assert done.returncode == 3
    assert "'--node-rank=1', '--master-addr=m'" in done.stdout
    assert not (tmp_path / "runs").exists()
    lost = run_pod(tmp_path, 1, TRAINMARK_RUN="")
    assert lost.returncode == 2
    assert "not in a pod of a manifest" in lost.stderr
