"""Passwords and tokens are replaced before anything is written, by the name of their option or by their form.

A secret becomes `REDACTED-` and a hash with the salt of the store. So runs with different secrets can still be told
apart, but nobody without the salt can try out guesses. The salt is a file that only its owner can read.

Standard library only: the worker writes variables too, inside any container.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

SALT_FILE = ".salt"
_SALT_BYTES = 32

# -- names -------------------------------------------------------------------------------------------------------------

_ALWAYS = frozenset({
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "credential", "credentials", "apikey",
    "authorization", "bearer", "cookie", "accesskey", "secretkey", "privatekey", "authtoken",
})  # fmt: skip
"""Words that make a name a secret wherever they stand in it."""
_AT_THE_END = frozenset(("token", "auth", "pass"))
_KEYS = frozenset(("api", "access", "secret", "private", "ssh", "encryption", "account", "auth", "signing", "license"))
"""Words before `key`."""
_HARMLESS = frozenset({
    "pad", "eos", "bos", "mask", "unk", "sep", "cls", "special", "max", "min", "num", "per", "every", "image", "next",
    "first", "last", "use", "no", "not", "disable", "enable", "with", "without", "has", "require", "single", "one",
    "multi", "two", "forward", "backward",
})  # fmt: skip
"""Words that make it something else: --eos-token, --use-auth, --num-pass."""
_FOLDERS = frozenset(("PWD", "OLDPWD"))
_SIGNATURES = frozenset(("sig", "signature", "x-amz-signature", "x-amz-credential", "x-goog-signature"))
"""Of addresses that are signed."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_secret_name(name: str) -> bool:
    """Of an option or a variable: --hf-token, dbPassword, WANDB_API_KEY; but not --max-tokens or --tokenizer."""
    parts = [part.lower() for part in _PART.findall(name)]
    if not parts or name in _FOLDERS or name.lower() in _SIGNATURES:
        return name.lower() in _SIGNATURES
    if _HARMLESS & set(parts) and not _ALWAYS & set(parts):
        return False
    is_key = parts[-1] == "key" and len(parts) > 1 and parts[-2] in _KEYS
    return is_key or parts[-1] in _AT_THE_END or (bool(_ALWAYS & set(parts)) and parts[-1] not in ("file", "path"))


# -- forms -------------------------------------------------------------------------------------------------------------

_IN_ADDRESS = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:]*:)(?P<secret>[^\s/?#@]+)(?=@)")
_TOKENS = re.compile(
    r"""(?<![A-Za-z0-9_])(?:
      gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,} | glpat-[\w-]{16,} | hf_[A-Za-z0-9]{16,}
    | sk-[A-Za-z0-9][\w-]{15,} | [sr]k_(?:live|test)_[A-Za-z0-9]{12,} | xox[abeoprs]-[\w-]{10,}
    | (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[\w-]{30,} | ya29\.[\w-]{16,} | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{30,}
    | nvapi-[\w-]{20,} | dop_v1_[a-f0-9]{32,} | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----(?s:.*?)(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    )""",
    re.VERBOSE,
)
_BEARER = re.compile(r"(?P<head>\b(?:[Bb]earer|[Aa]uthorization:\s*\w+)\s+)(?P<secret>[^\s'\"]{6,})")
_NAMED = re.compile(
    r"""(?P<head> (?<![\w-])--?(?P<option>[A-Za-z][\w.-]*)(?:=|\s+) | (?<![\w.-])(?P<name>[A-Za-z_][\w.-]*)=)
        (?P<secret> '[^']*' | "[^"]*" | [^\s;|&'"]+)""",
    re.VERBOSE,
)
"""An option or an assignment inside a longer text, such as that of sh -c, or in the query of an address."""
_ASSIGNED = re.compile(r"(?P<head>(?:--?|\+{0,2})(?P<name>[A-Za-z_][\w.-]*)=)(?P<secret>.*)", re.DOTALL)
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}|\$\{?\w+\}?")
"""To be filled in by us, or by a shell: not the secret itself."""


class Redactor:
    def __init__(self, store: Path | None = None, *, may_make_salt: bool = True) -> None:
        """Without a store, or where its salt cannot be read or made, there is no hash."""
        self._store, self._may_make_salt = store, may_make_salt

    def secret(self, value: str) -> str:
        if not value or _PLACEHOLDER.fullmatch(value) or value.startswith("REDACTED"):
            return value
        if self._salt is None:
            return "REDACTED"
        digest = hashlib.blake2b(value.encode(errors="surrogatepass"), key=self._salt, digest_size=4)
        return f"REDACTED-{digest.hexdigest()}"

    def text(self, text: str) -> str:
        """By form, and by names inside the text."""
        found = _IN_ADDRESS.sub(self._replace, text)
        found = _TOKENS.sub(lambda match: self.secret(match[0]), found)
        found = _BEARER.sub(self._replace, found)
        return _NAMED.sub(self._replace_named, found)

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """Of a command line: `--password X` and `--password=X`, and each word by its form."""
        found: list[str] = []
        is_value = False
        for word in words:
            if is_value and not word.startswith("--"):
                found.append(self.secret(word))
                is_value = False
                continue
            assigned, option = _ASSIGNED.fullmatch(word), _OPTION.fullmatch(word)
            if assigned is not None and is_secret_name(assigned["name"]):
                found.append(assigned["head"] + self.secret(assigned["secret"]))
            else:
                found.append(self.text(word))
            is_value = option is not None and is_secret_name(option["name"])
        return tuple(found)

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Values of secret names, and of NCCL variables that no version of NCCL documents."""
        hidden = {name for name in variables if is_secret_name(name) or not is_known_of_nccl(name)}
        return {name: self.secret(value) if name in hidden else self.text(value) for name, value in variables.items()}

    def document(self, value: Any) -> Any:
        """Every text in it by its form."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self.document(item) for name, item in value.items()}
        return [self.document(item) for item in value] if isinstance(value, (list, tuple)) else value

    @cached_property
    def _salt(self) -> bytes | None:
        """Made with the first secret of a store."""
        if self._store is None:
            return None
        salt = _read_salt(self._store)
        if salt is None and self._may_make_salt:
            with contextlib.suppress(OSError):
                _make_salt(self._store)
            salt = _read_salt(self._store)
        return salt

    def _replace(self, match: re.Match[str]) -> str:
        return match["head"] + self.secret(match["secret"])

    def _replace_named(self, match: re.Match[str]) -> str:
        name = match["option"] or match["name"]
        return match["head"] + self.secret(match["secret"].strip("'\"")) if is_secret_name(name) else match[0]


# -- the salt ----------------------------------------------------------------------------------------------------------


def _make_salt(store: Path) -> None:
    """Whole or not at all, and never twice: a link to a file that is complete fails if another process was first."""
    store.mkdir(parents=True, exist_ok=True)
    beside = store / f"{SALT_FILE}.{os.urandom(4).hex()}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(_SALT_BYTES))
        with contextlib.suppress(FileExistsError):
            (store / SALT_FILE).hardlink_to(beside)
    finally:
        beside.unlink()


def _read_salt(store: Path) -> bytes | None:
    try:
        descriptor = os.open(store / SALT_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            salt = file.read(_SALT_BYTES)
    except OSError:
        return None
    return salt if len(salt) == _SALT_BYTES else None


# -- NCCL --------------------------------------------------------------------------------------------------------------


def is_known_of_nccl(name: str) -> bool:
    """True for a variable of another library, too."""
    return not name.startswith("NCCL_") or name.removeprefix("NCCL_") in _NCCL


_NCCL = frozenset(
    """
    ALGO ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CHECKS_DISABLE CHECK_POINTERS CGA_CLUSTER_SIZE COLLNET_ENABLE
    COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_ID CONF_FILE CREATE_THREAD_CONTEXT CROSS_NIC CTA_POLICY CUMEM_ENABLE
    CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS DMABUF_ENABLE
    GDRCOPY_ENABLE GDR_COPY_ENABLE GRAPH_DUMP_FILE GRAPH_FILE GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT
    GRAPH_REGISTER HOSTID IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DISABLE
    IB_ECE_ENABLE IB_FIFO_TC IB_GDR_LEVEL IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS IB_PCI_RELAXED_ORDERING
    IB_PKEY IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL IB_SPLIT_DATA_ON_QPS
    IB_TC IB_TIMEOUT IB_USE_INLINE IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P LAUNCH_MODE LAUNCH_ORDER_IMPLICIT
    LL128_BUFFSIZE LL_BUFFSIZE LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS MIN_CTAS
    MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MNNVL_ENABLE NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY
    NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_LEVEL NET_GDR_READ NET_PLUGIN NET_SHARED_BUFFERS NET_SHARED_COMMS
    NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVTX_DISABLE
    OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE
    P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PROFILER_PLUGIN PROGRESS_APPENDOP_FREQ
    PROTO PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PXN_DISABLE PXN_C2C RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR RINGS
    RUNTIME_CONNECT SET_STACK_SIZE SET_THREAD_NAME SHM_DISABLE SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE
    SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RETRY_CNT
    SOCKET_RETRY_SLEEP_MSEC STORE_TIMEOUT THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_FILE TREE_THRESHOLD TUNER_PLUGIN
    WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES VERSION ASYNC_ERROR_HANDLING
    BLOCKING_WAIT DESYNC_DEBUG ENABLE_TIMING TIMEOUT P2P_NET_CHUNKSIZE COLLNET_SHARED_BUFFERS
    """.split()  # noqa: SIM905
)
"""Without their prefix. Their values are numbers, names of devices and paths."""
