"""No secret of a command line or an environment is written; what only looks like one is."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.redaction import SALT_FILE, Redactor, is_secret_name

SECRETS = (
    "hunter2-and-more", "p4ss+word", "ghp_0123456789abcdefABCDEF0123456789abcd", "hf_abcdefghijklmnopqrstuvwxyzABCD",
    "sk-proj-abcdefghijklmnopqrstuv", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF-_123",
)  # fmt: skip


@pytest.mark.parametrize("name", [
    "password", "--db-password", "dbPassword", "WANDB_API_KEY", "HF_TOKEN", "auth-token", "AWS_SECRET_ACCESS_KEY",
    "api_key", "apiKey", "client_secret", "wandb.api_key", "passwd", "auth", "PGPASSWORD_X", "X-Amz-Signature",
])  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name.lstrip("-")) or name == "PGPASSWORD_X"


@pytest.mark.parametrize("name", [
    "max-tokens", "tokenizer", "tokens-per-batch", "eos-token", "pad_token", "num-pass", "use-auth-token", "key",
    "sort-key", "author", "batch-size", "passes", "PWD", "monkey", "secretary", "password-file", "token-dim", "seed",
])  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("words", [
    ["--password", "{}"], ["--password={}"], ["-password", "{}"], ["+auth.token={}"], ["HF_TOKEN={}", "python"],
    ["https://user:{}@host/x"], ["https://host/x?token={}&a=1"], ["sh", "-c", "train --api-key {} --lr 1"],
    ["sh", "-c", "HF_TOKEN='{}' train"], ["-H", "Authorization: Bearer {}"],
])  # fmt: skip
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_replaced(words: list[str], secret: str, tmp_path: Path) -> None:
    given = ["train.py", *(word.replace("{}", secret) for word in words), "--lr", "0.1"]
    shown = Redactor(tmp_path).words(given)
    assert secret not in " ".join(shown)
    assert sum("REDACTED-" in word for word in shown) == 1
    assert [shown[0], *shown[-2:]] == ["train.py", "--lr", "0.1"]


@pytest.mark.parametrize("secret", SECRETS[2:])
def test_a_token_is_known_by_its_form(secret: str, tmp_path: Path) -> None:
    assert secret not in Redactor(tmp_path).text(f"failed: {secret} is not valid")


@pytest.mark.parametrize("words", [
    ["--max-tokens", "512"], ["--tokenizer", "gpt2"], ["--eos-token", "</s>"], ["s3://bucket/a:b@c"], ["a@b:c"],
    ["--password", "{seed}"], ["--token", "$HF_TOKEN"], ["http://[::1]:80/x"], ["sk-learn"], ["--lr=0.1"],
])  # fmt: skip
def test_nothing_else_is_replaced(words: list[str], tmp_path: Path) -> None:
    assert list(Redactor(tmp_path).words(words)) == words
    assert not (tmp_path / SALT_FILE).exists()


def test_the_hash_tells_secrets_apart_and_differs_between_stores(tmp_path: Path) -> None:
    one, again, other = Redactor(tmp_path / "a"), Redactor(tmp_path / "a"), Redactor(tmp_path / "b")
    assert one.secret("x1") == again.secret("x1") != one.secret("x2")
    assert one.secret("x1") != other.secret("x1")
    assert stat.S_IMODE((tmp_path / "a" / SALT_FILE).stat().st_mode) == 0o600
    assert Redactor(tmp_path / "c", may_make_salt=False).secret("x1") == "REDACTED"
    assert not (tmp_path / "c").exists()


def test_variables_of_nccl_that_nobody_knows(tmp_path: Path) -> None:
    given = {"NCCL_DEBUG": "WARN", "NCCL_VENDOR_LOGIN": "abc", "GLOO_X": "1", "MKL_TOKEN": "def", "NCCL_IB_HCA": "mlx5"}
    shown = Redactor(tmp_path).variables(given)
    assert {name for name, value in shown.items() if value != given[name]} == {"NCCL_VENDOR_LOGIN", "MKL_TOKEN"}


PRINTS = """
import sys
for i in range(12):
    print(f"Epoch: [0][{i}/12]\\tTime  0.100 ( 0.1)\\tLoss {1 / (i + 1):.4f} (1.0)")
sys.exit(f"ConnectionError: {sys.argv[1]}" if "fail" in sys.argv else 0)
"""


@pytest.mark.parametrize("end", ["ok", "fail"])
def test_no_file_of_a_store_has_it(
    tmp_path: Path, end: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_VENDOR_LOGIN", SECRETS[0])
    (tmp_path / "t.py").write_text(PRINTS)
    store, seen = tmp_path / "s", tmp_path / "seen"
    given = [f"https://u:{SECRETS[1]}@host/x", "--api-key", SECRETS[0], f"--hf={SECRETS[3]}", end]
    umask = os.umask(0o022)
    try:
        main(["run", "--store", str(store), "--", sys.executable, "-I", "-S", str(tmp_path / "t.py"), *given])
        assert main(["report", "--store", str(store), "--output", str(seen)]) == 0
        assert main(["show", "--json", "--store", str(store)]) == 0
    finally:
        os.umask(umask)
    out, err = capsys.readouterr()
    (result,) = json.loads(out[out.rindex('{\n "schema"') :])["results"]
    folder = store / result["id"]
    written = [path for path in store.rglob("*") if path.is_file() and path.name != "output.log"]
    for text in (out, err, *(path.read_bytes().decode(errors="replace") for path in (*written, seen))):
        assert not any(secret in text for secret in SECRETS)
    assert "REDACTED-" in (folder / "run.json").read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    private = ("run.json", "command.json", "env.json")
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in private] == [0o600] * 3
    assert stat.S_IMODE((store / "index.sqlite").stat().st_mode) == 0o600


def test_a_store_of_a_group_is_for_the_group(tmp_path: Path) -> None:
    from trainmark.store.index import Store

    store = tmp_path / "s"
    store.mkdir()
    store.chmod(0o2775)
    umask = os.umask(0o007)
    try:
        folder = Store(store).new_folder("run", {})
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) & 0o777 == 0o770
    assert stat.S_IMODE((folder / "run.json").stat().st_mode) == 0o660
