"""Kubernetes: a run as the manifest of a PyTorchJob (Kubeflow) or a JobSet. Pure; nothing here talks to a cluster.

Each pod is one node and runs `trainmark.cli.pod`, which starts torchrun; the pod of node 0 is also the
controller. The manifest holds everything that a pod needs, so nothing has to be prepared on the cluster first.
The store is a volume that all pods share: run folders appear there as on any machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from trainmark.errors import Fault, SpecError
from trainmark.launch.job import Launcher, Machines, Prints, own_python
from trainmark.launch.torchrun import program
from trainmark.runfolder.files import Json
from trainmark.runfolder.records import RUN_TAG
from trainmark.spec.cluster import JOB_KINDS

LAUNCHER = Launcher(
    name="kubernetes",
    summary="prints the manifest of a PyTorchJob or JobSet for each run",
    machines=Machines.SCHEDULER,
    frameworks=("torch",),
    prints=Prints.MANIFESTS,
    has_own_files=True,
)
POD_MODULE = "trainmark.cli.pod"
POD_VARIABLE = "TRAINMARK_POD"
"""Holds run.json and how to start, as JSON."""
STORE_PATH = "/trainmark/runs"
_PORT = 23456
"""Every pod has its own network, so the port is always free."""
_REPLICATED_JOB = "node"
_DEADLINE_SPARE_S = 3600
"""Time for the queue and for pulling images, on top of the time limit of the run."""
_MOST_NAME = 40
"""The operators append to the name, and 63 characters is the maximum."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|[kMGTP]|[KMGTP]i)?")


@dataclass(frozen=True, kw_only=True)
class PodJob:
    run_id: str
    run: Json
    """run.json as it will be written, without its creation time."""
    framework: str
    device: str
    """`cpu` or `cuda`."""
    num_nodes: int
    processes_per_node: int
    timeout_s: float | None
    image: str | None
    """With trainmark and the framework installed."""
    store_claim: str | None
    """A persistent volume claim that all nodes may write to, for the run folders."""
    data_claim: str | None = None
    """Mounted at `data_path`; None: the data is in the image or in the store's volume, or none is needed."""
    data_path: str | None = None
    namespace: str = "default"
    job_kind: str = "PyTorchJob"
    environment: Mapping[str, str] = field(default_factory=dict)
    """NCCL settings and the like."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Of a pod, in addition to its GPUs: cpu, memory, an InfiniBand device of the cluster's plug-in."""
    shared_memory: str = "16Gi"
    python: str = "python3"
    """In the image."""

    @property
    def name(self) -> str:
        """A DNS label that starts with a letter, as PyTorchJob requires, and as unique as the run id."""
        plain = re.sub(r"[^a-z0-9]+", "-", f"trainmark-{self.run_id}".lower()).strip("-")
        if len(plain) <= _MOST_NAME and plain == f"trainmark-{self.run_id}":
            return plain
        digest = hashlib.sha256(self.run_id.encode()).hexdigest()[:8]
        return f"{plain[: _MOST_NAME - 9].rstrip('-')}-{digest}"


def render(job: PodJob) -> Json:
    """The manifest for kubectl; a SpecError lists everything that is wrong or missing."""
    faults = list(_faults(job))
    if faults:
        raise SpecError("cannot render a manifest", faults)
    return _job_set(job) if job.job_kind == "JobSet" else _pytorch_job(job)


def to_text(manifests: Sequence[Json]) -> str:
    """JSON, which is also YAML: one document, a List if there are several."""
    whole = manifests[0] if len(manifests) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _pytorch_job(job: PodJob) -> Json:
    """The operator sets RANK (of the pod), MASTER_ADDR and MASTER_PORT in each pod."""
    template = _pod_template(job, container="pytorch", node_rank="$(RANK)", master="$(MASTER_ADDR)")
    template["spec"]["containers"][0]["ports"] = [
        {"name": "pytorchjob-port", "containerPort": _PORT, "protocol": "TCP"}
    ]
    replicas = {"Master": 1, "Worker": job.num_nodes - 1}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _metadata(job),
        "spec": {
            "nprocPerNode": str(job.processes_per_node),
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running", **_deadline(job)},
            "pytorchReplicaSpecs": {
                role: {"replicas": num, "restartPolicy": "Never", "template": template}
                for role, num in replicas.items()
                if num
            },
        },
    }


def _job_set(job: PodJob) -> Json:
    """Each pod of the single job has an index, and a name in the headless service that the JobSet creates."""
    master = f"{job.name}-{_REPLICATED_JOB}-0-0.{job.name}"
    template = _pod_template(job, container="trainmark", node_rank="$(JOB_COMPLETION_INDEX)", master=master)
    template["spec"]["restartPolicy"] = "Never"
    indexed = {
        "completionMode": "Indexed",
        "completions": job.num_nodes,
        "parallelism": job.num_nodes,
        "backoffLimit": 0,
        **_deadline(job),
        "template": template,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(job),
        "spec": {
            "failurePolicy": {"maxRestarts": 0},
            "network": {"enableDNSHostnames": True, "subdomain": job.name},
            "replicatedJobs": [{"name": _REPLICATED_JOB, "replicas": 1, "template": {"spec": indexed}}],
        },
    }


def _metadata(job: PodJob) -> Json:
    return {"name": job.name, "namespace": job.namespace, "labels": _labels(job)}


def _labels(job: PodJob) -> dict[str, str]:
    return {"app.kubernetes.io/name": "trainmark", "trainmark-run": job.name}


def _pod_template(job: PodJob, *, container: str, node_rank: str, master: str) -> Json:
    """Kubernetes itself replaces `$(NAME)` in a command by the variable's value, without a shell."""
    argv = [*own_python(job.python), POD_MODULE, f"--node-rank={node_rank}", f"--master={master}"]
    what: Json = {
        "name": container,
        "image": job.image,
        "command": argv,
        "env": [{"name": name, "value": value} for name, value in _environment(job).items()],
        "resources": {"limits": _limits(job)},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path, _ in _volumes(job)],
    }
    if any(name.startswith("rdma/") for name in job.resources):
        what["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}  # InfiniBand pins memory
    spec: Json = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [what],
        "volumes": [{"name": name, **source} for name, _, source in _volumes(job)],
    }
    if job.num_nodes > 1:
        spec["affinity"] = {"podAntiAffinity": _apart(job)}
    # A sidecar proxy, as Istio adds it, would keep running after the run and slow down its traffic.
    return {"metadata": {"labels": {**_labels(job), "sidecar.istio.io/inject": "false"}}, "spec": spec}


def _apart(job: PodJob) -> Json:
    """Every node on a different machine: two pods on one machine would measure something else."""
    term = {"labelSelector": {"matchLabels": {"trainmark-run": job.name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _environment(job: PodJob) -> dict[str, str]:
    start = {"nodes": job.num_nodes, "processes": job.processes_per_node, "port": _PORT, "timeout_s": job.timeout_s}
    text = json.dumps({"store": STORE_PATH, **start, "run": job.run}, separators=(",", ":"))
    # $(x) in a path must not be replaced.
    fixed = {RUN_TAG: job.run_id, "PYTHONUNBUFFERED": "1", POD_VARIABLE: text.replace("$(", "$$(")}
    return {**job.environment, **fixed}


def _limits(job: PodJob) -> dict[str, str]:
    gpus = {"nvidia.com/gpu": str(job.processes_per_node)} if job.device == "cuda" else {}
    return {**job.resources, **gpus}


def _volumes(job: PodJob) -> list[tuple[str, str, Json]]:
    """Name, mount path and source. Loaders and NCCL need more shared memory than the default of 64 MB."""
    found: list[tuple[str, str, Json]] = [
        ("shm", "/dev/shm", {"emptyDir": {"medium": "Memory", "sizeLimit": job.shared_memory}}),  # noqa: S108
        ("store", STORE_PATH, {"persistentVolumeClaim": {"claimName": job.store_claim}}),
    ]
    if job.data_claim is not None and job.data_path is not None:
        found.append(("data", job.data_path, {"persistentVolumeClaim": {"claimName": job.data_claim}}))
    return found


def _deadline(job: PodJob) -> Json:
    return {} if job.timeout_s is None else {"activeDeadlineSeconds": int(job.timeout_s) + _DEADLINE_SPARE_S}


def _faults(job: PodJob) -> list[Fault]:
    claims = {"volume": job.store_claim, "data_volume": job.data_claim}
    quantities = {"shared_memory": job.shared_memory, **{f"resources.{k}": v for k, v in job.resources.items()}}
    checks = (
        (
            not job.image,
            "image",
            "is missing",
            "give a container image with trainmark and PyTorch, such as registry/name:tag",
        ),
        (not job.store_claim, "volume", "is missing", "give a persistent volume claim that all nodes can write to"),
        (job.job_kind not in JOB_KINDS, "job_kind", f"{job.job_kind!r} is not known", f"known: {', '.join(JOB_KINDS)}"),
        (
            not LAUNCHER.can_start(job.framework),
            "framework",
            f"{job.framework} is not started by torchrun",
            "use torch",
        ),
        (not _LABEL.fullmatch(job.namespace), "namespace", f"{job.namespace!r} is not a DNS label", "such as team-a"),
        *(
            (
                bool(claim) and not _SUBDOMAIN.fullmatch(str(claim)),
                key,
                f"{claim!r} is not a valid name of a claim",
                "such as runs",
            )
            for key, claim in claims.items()
        ),
        *(
            (not _QUANTITY.fullmatch(text), key, f"{text!r} is not a quantity", "such as 8, 500m or 64Gi")
            for key, text in quantities.items()
        ),
        (
            job.data_path is not None and job.data_claim is not None and not _is_inside_pod(job.data_path),
            "data",
            f"{job.data_path!r} cannot be a mount path",
            "use an absolute path outside the store, such as /data/imagenet",
        ),
    )
    return [
        Fault(where=f"cluster.{key}", problem=problem, hint=hint) for is_wrong, key, problem, hint in checks if is_wrong
    ]


def _is_inside_pod(path: str) -> bool:
    """Absolute, not the root, and not overlapping with another mount."""
    place, store = PurePosixPath(path), PurePosixPath(STORE_PATH)
    is_clear = not place.is_relative_to(store) and not store.is_relative_to(place)
    return place.is_absolute() and ".." not in place.parts and ":" not in path and is_clear


def pod_argv(start: Mapping[str, Any], *, node_rank: int, master: str, python: str, worker: Sequence[str]) -> list[str]:
    """What a pod starts, from the content of `POD_VARIABLE`."""
    return [
        *own_python(python),
        "torch.distributed.run",
        f"--nnodes={start['nodes']}",
        f"--nproc-per-node={start['processes']}",
        f"--node-rank={node_rank}",
        f"--master-addr={master}",
        f"--master-port={start['port']}",
        "--max-restarts=0",
        *program(worker),
    ]
