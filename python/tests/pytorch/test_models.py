# SPDX-License-Identifier: Apache-2.0
"""Whole models on every device: right, without graph breaks, and with nothing left to torch."""

import copy

import pytest
import torch
import torchvision
from torch import nn

import backplane as bp
import backplane.torch
from checks import check, check_all_on_device, launches


def mlp():
    return nn.Sequential(
        nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 8), nn.Softmax(-1)
    ).eval()


class Encoder(nn.Module):
    def __init__(self, width=32, **options):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True, **options)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, tokens, mask=None):
        return self.head(self.layers(self.embed(tokens), src_key_padding_mask=mask)[:, 0])


def resnet(images):
    """Batch norms with the statistics of the images, so that no activation vanishes."""
    model = torchvision.models.resnet18(weights=None)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 1.0
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.3)
    with torch.no_grad():
        model.train()(images)
    return model.eval()


def test_mlp_of_any_batch(device):
    before = launches(device)
    model = mlp()
    compiled = check(model, torch.randn(3, 16), device=device)
    for batch in (5, 1, 7, 3, 64):
        check(model, torch.randn(batch, 16), device=device, compiled=compiled)
    check_all_on_device()
    assert bp.torch.report().graphs <= 3  # the first, any other number, and 1
    assert launches(device) > before


def test_resnet_18(device):
    images = torch.randn(4, 3, 64, 64)
    model = resnet(images)
    before = launches(device)
    compiled = check(model, images[:2], device=device)
    check(model, images, device=device, compiled=compiled)
    check_all_on_device()
    assert launches(device) >= before + 2 * 20  # convolutions


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}], ids=repr)
def test_transformer(device, options):
    model = Encoder(**options).eval()
    before = launches(device)
    compiled = check(model, torch.randint(50, (2, 6)), device=device)
    check(model, torch.randint(50, (3, 9)), device=device, compiled=compiled)
    check_all_on_device()
    assert launches(device) >= before + 2 * 10


def test_transformer_with_padding():
    mask = torch.zeros(3, 6, dtype=torch.bool)
    mask[1, 4:] = mask[2, 1:] = True
    check(Encoder().eval(), torch.randint(50, (3, 6)), mask)
    check_all_on_device()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_attention_by_itself(need_weights, average):
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(
                x, x, x, need_weights=need_weights, average_attn_weights=average
            )

    # Called by itself, torch takes a kernel of its own, whose outputs lie in another order.
    check(Net(), torch.randn(2, 5, 16), has_strides=False)
    check_all_on_device()


@pytest.mark.parametrize("causal", [False, True])
def test_attention_keeps_its_operator(causal):
    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    check(attend, *(torch.randn(2, 4, 6, 8) for _ in range(3)))
    check_all_on_device()
    assert bp.torch.report().device_nodes == 1


def test_without_no_grad(device):
    """A model that is merely called has a graph for gradients too: its forward part runs on the
    device all the same."""
    model = mlp()
    x = torch.randn(4, 16)
    before = launches(device)
    found = torch.compile(model, backend="backplane", options={"device": device})(x)
    assert found.requires_grad
    torch.testing.assert_close(found, model(x))
    check_all_on_device()
    assert launches(device) > before


def test_recurrent():
    """torch.compile does not look into recurrent layers: it breaks the graph, and that is told."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 6, batch_first=True)

        def forward(self, x):
            outputs, (h, _) = self.lstm(x * 2)
            return outputs + 1, h

    check(Net().eval(), torch.randn(2, 3, 4))
    report = bp.torch.report()
    assert sum(report.graph_breaks.values()) > 0
    assert (report.device_nodes, report.torch_nodes) == (2, 0)


def test_layers_of_one_class_share_a_graph():
    """torch compiles one graph for all of them, whose weights differ."""
    model = nn.Sequential(*(nn.Linear(5, 5) for _ in range(3))).eval()
    wanted = copy.deepcopy(model)
    for layer in model:
        layer.compile(backend="backplane")
    x = torch.randn(2, 5)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model(x), wanted(x))
    report = bp.torch.report()
    assert (report.graphs, report.sessions, report.runs) == (1, 3, 9)
