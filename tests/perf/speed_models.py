# SPDX-License-Identifier: Apache-2.0
"""The models whose speed is compared, at the sizes in which people run them, built of the classes
of tests/models; fixed shapes and seeds, random weights:

    speed_models.py OUT     writes OUT/NAME/{model.onnx, inputs.txt, the inputs' bytes, stamp}

What stands in OUT and was made by these scripts and packages is kept: PyTorch is timed with the
module that it builds again, which must be the one that model.onnx was made of.

Run by the Python of a venv with PyTorch (tests/models/requirements.txt).
"""

import hashlib
import importlib.metadata
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import language  # noqa: E402  they stand in the folder above
import vision  # noqa: E402
import zoo  # noqa: E402

SCRIPTS = (__file__, language.__file__, vision.__file__, zoo.__file__)
PACKAGES = ("torch", "torchvision", "onnx", "onnx-ir", "onnxscript")
LLM = {"vocabulary": 24000, "dim": 768, "layers": 12, "heads": 12, "kv_heads": 4, "ffn": 2048}


class Digits(nn.Module):
    """As the digits of docs/examples."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.first(image)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.last(torch.flatten(x, 1))


def picture(name):
    def build():
        sample = vision.torchvision_net(name, 224)
        sample.inputs, sample.dynamic = sample.inputs[:1], {}
        return sample
    return build


def text(vocabulary, dim, layers, heads, ffn, sentence):
    def build():
        net = language.calm(language.Bert(vocabulary, dim, layers, heads, ffn, sentence), 0.04)
        return zoo.Sample(net, language.texts(vocabulary, (1, 128)), ["y"])
    return build


def decoder(tokens, cached):
    def build():
        net = language.calm(language.Llama(**LLM), 0.03)
        inputs = language.llm_inputs(tokens, cached, LLM["layers"], LLM["kv_heads"], net.head)
        present = (f"present_{kind}.{i}" for i in range(LLM["layers"]) for kind in "kv")
        return zoo.Sample(net, [inputs], ["logits", *present])
    return build


MODELS = {
    "resnet50": picture("resnet50"),
    "bert_base": text(30522, 768, 12, 12, 3072, False),
    "minilm": text(30522, 384, 6, 12, 1536, True),
    "llm_prefill": decoder(128, 0),
    "llm_decode": decoder(1, 512),
    "mobilenet_v3_large": picture("mobilenet_v3_large"),
    "digits_b256": lambda: zoo.Sample(Digits(), [{"image": torch.randn(256, 1, 8, 8)}], ["y"]),
}


def mark():
    """Of all that a model is made by: scripts, with the sizes in them, and packages."""
    text = b"".join(pathlib.Path(path).read_bytes() for path in SCRIPTS)
    versions = (f"{package} {importlib.metadata.version(package)}" for package in PACKAGES)
    return f"{', '.join(versions)}, {hashlib.sha256(text).hexdigest()}"


def is_current(folder):
    """Whether a model's folder is what would be made now."""
    stamp = folder / "stamp"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == mark()


def build(name):
    torch.manual_seed(zoo.SEED)
    sample = MODELS[name]()
    sample.module.eval()
    return sample


def write(name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stamp").unlink(missing_ok=True)  # half of a new model is neither old nor new
    sample = build(name)
    with torch.no_grad():
        zoo.export(sample, folder / "model.onnx")
    lines = []
    for key, value in sample.inputs[0].items():
        value.numpy().tofile(folder / f"{key}.bin")
        lines.append(" ".join([key, f"{key}.bin", *map(str, value.shape)]))
    (folder / "inputs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "stamp").write_text(mark(), encoding="utf-8")


def main():
    out = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    for name in MODELS:
        if not is_current(out / name):
            write(name, out / name)
            print(name, flush=True)


if __name__ == "__main__":
    main()
