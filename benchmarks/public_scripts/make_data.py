"""Small random data sets and models for the public scripts, in the formats that they read. Makes what is missing.

    python make_data.py FOLDER NAME ...

Runs in the interpreter of the scripts, since tokenizers and configurations are written by the libraries themselves.
"""

from __future__ import annotations

import gzip
import pickle
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

_WORDS = [f"w{number}" for number in range(300)]


def make_mnist(folder: Path, num_train: int = 6400) -> None:
    """As torchvision reads it, and as jax's examples do."""
    raw, zipped = folder / "MNIST" / "raw", folder / "zipped"
    raw.mkdir(parents=True)
    zipped.mkdir()
    dice = np.random.default_rng(0)
    for name, count in (("train", num_train), ("t10k", 1280)):
        images = dice.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = dice.integers(0, 10, count, dtype=np.uint8)
        for part, head, body in (
            ("images-idx3", struct.pack(">IIII", 2051, count, 28, 28), images),
            ("labels-idx1", struct.pack(">II", 2049, count), labels),
        ):
            data = head + body.tobytes()
            (raw / f"{name}-{part}-ubyte").write_bytes(data)
            (zipped / f"{name}-{part}-ubyte.gz").write_bytes(gzip.compress(data, 1))


def make_large_mnist(folder: Path) -> None:
    """As many images as scripts expect that split them by numbers."""
    make_mnist(folder, 60_000)


def make_small_mnist(folder: Path) -> None:
    make_mnist(folder, 640)


def make_fashion(folder: Path) -> None:
    """FashionMNIST has the format of MNIST."""
    make_mnist(folder / "new", 6400)
    (folder / "FashionMNIST").mkdir()
    (folder / "new" / "MNIST" / "raw").rename(folder / "FashionMNIST" / "raw")


def make_images(folder: Path, num_train: int = 100) -> None:
    """Six classes in folders."""
    from PIL import Image

    dice = np.random.default_rng(0)
    for part, count in (("train", num_train), ("val", 8)):
        for label in range(6):
            (folder / part / f"class{label}").mkdir(parents=True)
            for number in range(count):
                pixels = dice.integers(0, 256, (72, 80, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / f"class{label}" / f"{number}.jpg")


def make_many_images(folder: Path) -> None:
    """For a GPU: its epochs must be longer than the start of the loader's workers."""
    make_images(folder, 960)


def make_detection(folder: Path) -> None:
    """As ultralytics reads it: a YAML file, images, and a text file of boxes for each."""
    from PIL import Image

    dice = np.random.default_rng(0)
    for part, count in (("train", 320), ("val", 16)):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for number in range(count):
            pixels = dice.integers(0, 256, (96, 96, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / part / f"{number}.jpg")
            box = f"{number % 3} 0.5 0.5 {dice.uniform(0.2, 0.6):.3f} {dice.uniform(0.2, 0.6):.3f}\n"
            (folder / "labels" / part / f"{number}.txt").write_text(box)
    names = "\n".join(f"  {number}: thing{number}" for number in range(3))
    (folder / "data.yaml").write_text(
        f"path: {folder.resolve()}\ntrain: images/train\nval: images/val\nnames:\n{names}\n"
    )


def make_timm(folder: Path) -> None:
    """A configuration for two processes that share one GPU, which NCCL refuses."""
    folder.mkdir(parents=True)
    (folder / "gloo.yaml").write_text("dist_backend: gloo\n")


def make_super_resolution(folder: Path) -> None:
    from PIL import Image

    dice = np.random.default_rng(0)
    for part, count in (("train", 160), ("test", 10)):
        (folder / "BSDS300" / "images" / part).mkdir(parents=True)
        for number in range(count):
            pixels = dice.integers(0, 256, (260, 260, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "BSDS300" / "images" / part / f"{number}.jpg")


def make_characters(folder: Path) -> None:
    """As nanoGPT and minGPT read them."""
    folder.mkdir(parents=True)
    dice = random.Random(0)
    letters = [chr(code) for code in range(32, 127)]
    text = "O God, O God!\n" + "".join(dice.choices(letters, k=200_000))
    (folder / "input.txt").write_text(text)
    known = sorted(set(text))
    numbers = np.array([known.index(letter) for letter in text], dtype=np.uint16)
    numbers[:180_000].tofile(folder / "train.bin")
    numbers[180_000:].tofile(folder / "val.bin")
    tables = {"vocab_size": len(known), "itos": dict(enumerate(known)), "stoi": {c: i for i, c in enumerate(known)}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(tables))


def make_words(folder: Path) -> None:
    """Lines of words, as word_language_model and the language examples of transformers read them."""
    folder.mkdir(parents=True)
    dice = random.Random(0)
    for name, count in (("train", 4000), ("valid", 200), ("test", 200)):
        lines = [" ".join(dice.choices(_WORDS, k=30)) for _ in range(count)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        rows = [f"{line},{number % 2}" for number, line in enumerate(lines)]
        (folder / f"{name}.csv").write_text("\n".join(["sentence,label", *rows]) + "\n")


def make_enwik8(folder: Path) -> None:
    """Random bytes under the name of the data set, as long as it must be."""
    folder.mkdir(parents=True)
    data = np.random.default_rng(0).integers(32, 127, 95_000_000, dtype=np.uint8).tobytes()
    (folder / "enwik8.gz").write_bytes(gzip.compress(data, 1))


def make_models(folder: Path) -> None:
    """Small models of transformers, with random weights, and a tokenizer of the words above."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GPT2Config,
        PreTrainedTokenizerFast,
        ViTConfig,
        ViTForImageClassification,
        ViTImageProcessor,
    )

    special = ["<unk>", "<eos>", "<mask>"]
    vocabulary = {word: number for number, word in enumerate([*special, *_WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    names = {f"{role}_token": "<eos>" for role in ("eos", "bos", "pad", "cls", "sep")}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", mask_token="<mask>", **names)
    size = len(vocabulary)
    gpt = GPT2Config(vocab_size=size, n_embd=64, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=1)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    bert = BertConfig(vocab_size=size, max_position_embeddings=64, pad_token_id=1, **sizes)
    vit = ViTConfig(image_size=32, patch_size=8, **sizes)
    for name, config in (("gpt", gpt), ("bert", bert)):
        config.save_pretrained(folder / name)
        fast.save_pretrained(folder / name)
    BertForMaskedLM(bert).save_pretrained(folder / "bert")
    ViTForImageClassification(vit).save_pretrained(folder / "vit")
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder / "vit")


_ACCURACY = """
import datasets
import evaluate
class Accuracy(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int32"), "references": datasets.Value("int32")})
        return evaluate.MetricInfo(description="", citation="", features=features)
    def _compute(self, predictions, references):
        equal = sum(one == other for one, other in zip(predictions, references))
        return {"accuracy": equal / len(references)}
"""


def make_metrics(folder: Path) -> None:
    """What the examples of transformers load from the hub."""
    (folder / "accuracy").mkdir(parents=True)
    (folder / "accuracy" / "accuracy.py").write_text(_ACCURACY)


MAKERS: dict[str, Callable[[Path], None]] = {
    "mnist": make_mnist,
    "mnist_small": make_small_mnist,
    "mnist60k": make_large_mnist,
    "fashion": make_fashion,
    "images": make_images,
    "many_images": make_many_images,
    "detection": make_detection,
    "timm": make_timm,
    "super_resolution": make_super_resolution,
    "characters": make_characters,
    "words": make_words,
    "enwik8": make_enwik8,
    "models": make_models,
    "metrics": make_metrics,
}


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        target = Path(sys.argv[1]) / chosen
        if not target.exists():
            MAKERS[chosen](target)
