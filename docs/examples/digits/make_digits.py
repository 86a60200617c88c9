#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the handwritten-digits CNN and writes digits.onnx and heldout.npz.

The graph is written with onnx.helper from the trained weights because exporters fold batch
normalization into the convolutions, and this model is here to exercise both. The held-out images
are never looked at in training: nothing (number of epochs, seed, weights) is chosen by them.
"""

import argparse
import os
import pathlib
import sys

# XLA reads its thread count here when jax is loaded. It orders sums by that count, so the weights
# would otherwise depend on the number of cores.
os.environ["NPROC"] = "1"

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HELD_OUT_COUNT = 360  # 20 % of the 1,797 images
CHANNELS = (16, 32, 64)
POOLED = (False, True, True)  # is there a max pool after this block: 8x8 -> 8x8 -> 4x4 -> 2x2
FEATURES = CHANNELS[-1] * 2 * 2
HIDDEN = 48
CLASSES = 10
EPSILON = 1e-5
OPSET = 17
IR_VERSION = 8
MIN_ACCURACY = 0.98
MAX_FILE_BYTES = 300_000


def load_split(seed):
    """Images as float32 [N, 1, 8, 8] in 0..1 and labels as int64 [N], training then held out."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    return train_test_split(
        images, labels, test_size=HELD_OUT_COUNT, stratify=labels, random_state=seed)


def init_params(rng):
    """He-initialized weights, under the names that the ONNX initializers will have."""
    def he(*shape, fan_in):
        return jnp.asarray(rng.normal(0.0, np.sqrt(2.0 / fan_in), shape), jnp.float32)

    params = {}
    inputs = 1
    for block, outputs in enumerate(CHANNELS, 1):
        params[f"conv{block}.weight"] = he(outputs, inputs, 3, 3, fan_in=inputs * 9)
        params[f"norm{block}.scale"] = jnp.ones(outputs)
        params[f"norm{block}.bias"] = jnp.zeros(outputs)
        inputs = outputs
    params["gemm1.weight"] = he(HIDDEN, FEATURES, fan_in=FEATURES)
    params["gemm1.bias"] = jnp.zeros(HIDDEN)
    params["gemm2.weight"] = he(CLASSES, HIDDEN, fan_in=HIDDEN)
    params["gemm2.bias"] = jnp.zeros(CLASSES)
    return params


def forward(params, x):
    """Logits, and the mean and variance that each normalization saw in this batch."""
    stats = {}
    for block, pooled in enumerate(POOLED, 1):
        x = jax.lax.conv_general_dilated(x, params[f"conv{block}.weight"], (1, 1), "SAME")
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
        stats[f"norm{block}.mean"], stats[f"norm{block}.var"] = mean, var
        scale = params[f"norm{block}.scale"] / jnp.sqrt(var + EPSILON)
        bias = params[f"norm{block}.bias"] - mean * scale
        x = jax.nn.relu(x * scale[:, None, None] + bias[:, None, None])
        if pooled:
            x = jax.lax.reduce_window(
                x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ params["gemm1.weight"].T + params["gemm1.bias"])
    return x @ params["gemm2.weight"].T + params["gemm2.bias"], stats


def loss(params, x, labels):
    log_probabilities = jax.nn.log_softmax(forward(params, x)[0])
    return -jnp.take_along_axis(log_probabilities, labels[:, None], 1).mean()


@jax.jit
def adam_step(params, first, second, step, rate, x, labels):
    """One AdamW step (betas 0.9 and 0.999, decay 0.01)."""
    grads = jax.grad(loss)(params, x, labels)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)

    def update(p, m, v):
        m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
        return p - rate * (m_hat / (jnp.sqrt(v_hat) + 1e-8) + 0.01 * p)

    return jax.tree.map(update, params, first, second), first, second


def augment(rng, images):
    """Each image turned by up to 10 degrees, scaled by up to 10 %, moved by up to 0.7 pixel."""
    center = np.array([3.5, 3.5])
    out = np.empty_like(images)
    for i, image in enumerate(images[:, 0]):
        angle = np.deg2rad(rng.uniform(-10, 10))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turn *= rng.uniform(0.9, 1.1)
        offset = center - turn @ center + rng.uniform(-0.7, 0.7, 2)
        out[i, 0] = ndimage.affine_transform(image, turn, offset, order=1)
    return out


def train(images, labels, seed, epochs, batch):
    rng = np.random.default_rng(seed)
    params = init_params(rng)
    first = second = jax.tree.map(jnp.zeros_like, params)
    batches = len(images) // batch
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        moved = augment(rng, images)
        for picked in order[:batches * batch].reshape(batches, batch):
            rate = 1.5e-3 * (1 + np.cos(np.pi * step / (epochs * batches)))
            step += 1
            params, first, second = adam_step(
                params, first, second, float(step), rate, moved[picked], labels[picked])
        if (epoch + 1) % 20 == 0:
            print(f"epoch {epoch + 1}/{epochs}: loss {loss(params, images, labels):.5f}")
    # The statistics of the whole training set take the place of running averages.
    _, stats = forward(params, images)
    return {name: np.asarray(value, np.float32) for name, value in (params | stats).items()}


def build_model(weights):
    """The trained network as an ONNX model, one node for each layer."""
    nodes = []

    def add(op_type, name, inputs, output=None, **attributes):
        output = output or f"{name}.out"
        nodes.append(helper.make_node(op_type, inputs, [output], name, **attributes))
        return output

    x = "image"
    for block, pooled in enumerate(POOLED, 1):
        x = add("Conv", f"conv{block}", [x, f"conv{block}.weight"],
                kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        norm = [f"norm{block}.{part}" for part in ("scale", "bias", "mean", "var")]
        x = add("BatchNormalization", f"norm{block}", [x, *norm], epsilon=EPSILON)
        x = add("Relu", f"relu{block}", [x])
        if pooled:
            x = add("MaxPool", f"pool{block}", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = add("Flatten", "flatten", [x], axis=1)
    x = add("Gemm", "gemm1", [x, "gemm1.weight", "gemm1.bias"], transB=1)
    x = add("Relu", "relu4", [x])
    x = add("Gemm", "gemm2", [x, "gemm2.weight", "gemm2.bias"], transB=1)
    add("Softmax", "softmax", [x], "probabilities", axis=1)

    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
        doc_string="Handwritten digits 0-9 from 8x8 grey images in 0..1 (1 is ink).")
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
        producer_name="backplane docs/examples/digits/make_digits.py")


def check(model_path, images, labels):
    """Probabilities as ONNX Runtime computes them; prints what they are worth."""
    model = onnx.load(model_path)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model_path, providers=["CPUExecutionProvider"])
    probabilities, = session.run(["probabilities"], {"image": images})
    singly = np.concatenate([session.run(None, {"image": x[None]})[0] for x in images])

    predicted = probabilities.argmax(1)
    accuracy = (predicted == labels).mean()
    ordered = np.sort(probabilities, 1)
    margins = ordered[:, -1] - ordered[:, -2]
    count = sum(np.prod(w.dims) for w in model.graph.initializer)
    print(f"nodes: {', '.join(node.op_type for node in model.graph.node)}")
    print(f"initializers: {count} numbers; {model_path.name}: {model_path.stat().st_size} bytes")
    print(f"held-out accuracy: {accuracy:.2%} ({(predicted == labels).sum()} of {len(labels)})")
    print(f"smallest gap between the two best classes: {margins.min():.6f}")
    print(f"largest difference between batch 1 and {len(images)}: "
          f"{np.abs(singly - probabilities).max():.1e}")
    return probabilities, accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).parent,
                        help="folder for digits.onnx and heldout.npz (default: beside the script)")
    parser.add_argument("--seed", type=int, default=0,
                        help="seed of the split, the weights and the shuffling (default: 0)")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    images, held_images, labels, held_labels = load_split(args.seed)
    weights = train(images, labels, args.seed, args.epochs, args.batch)
    args.output.mkdir(parents=True, exist_ok=True)
    model_path = args.output / "digits.onnx"
    onnx.save(build_model(weights), model_path)
    probabilities, accuracy = check(model_path, held_images, held_labels)
    held_path = args.output / "heldout.npz"
    np.savez(held_path, image=held_images, label=held_labels, probabilities=probabilities)
    print(f"{held_path.name}: {held_path.stat().st_size} bytes")
    if accuracy < MIN_ACCURACY:
        sys.exit(f"held-out accuracy is {accuracy:.2%}, expected at least {MIN_ACCURACY:.0%}")
    for path in (model_path, held_path):
        if path.stat().st_size > MAX_FILE_BYTES:
            sys.exit(f"{path} is over {MAX_FILE_BYTES} bytes")


if __name__ == "__main__":
    main()
