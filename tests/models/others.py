# SPDX-License-Identifier: Apache-2.0
"""Models of tables, graphs and noise, and what costs per node."""

import torch
import torch.nn.functional as F
from torch import nn

import zoo


@zoo.model("Recommender: tables of embeddings, products of all pairs, a deep and a wide part")
def recommender():
    class Net(nn.Module):
        def __init__(self, fields=6, dim=16):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(50 + 10 * i, dim) for i in range(fields))
            self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, dim), nn.ReLU())
            rows, columns = torch.tril_indices(fields + 1, fields + 1, -1)
            self.register_buffer("pairs", rows * (fields + 1) + columns)
            self.top = nn.Sequential(nn.Linear(dim + len(rows), 32), nn.SELU(), nn.Linear(32, 1))
            self.wide = nn.Linear(13, 1)

        def forward(self, numbers, kinds):
            dense = self.bottom(torch.log1p(numbers.abs()))
            rows = [table(kinds[:, i]) for i, table in enumerate(self.tables)]
            all_rows = torch.stack([dense, *rows], 1)
            pairs = torch.bmm(all_rows, all_rows.transpose(1, 2)).flatten(1)[:, self.pairs]
            return torch.sigmoid(self.top(torch.cat((dense, pairs), 1)) + self.wide(numbers))
    inputs = [{"numbers": torch.randn(n, 13), "kinds": torch.randint(0, 50, (n, 6))}
              for n in (1, 5)]
    return zoo.Sample(Net(), inputs, ["chance"], {k: {0: "batch"} for k in inputs[0]})


@zoo.model("Graph net: messages along edges, added up and averaged where they arrive")
def graph_net():
    class Net(nn.Module):
        def __init__(self, dim=24):
            super().__init__()
            self.inside, self.message = nn.Linear(8, dim), nn.Linear(2 * dim, dim)
            self.update, self.out = nn.Linear(2 * dim, dim), nn.Linear(dim, 3)

        def forward(self, nodes, edges):
            x = torch.relu(self.inside(nodes))
            source, target = edges[0], edges[1]
            ones = torch.ones(edges.shape[1], 1).to(x.dtype)
            degree = torch.zeros(x.shape[0], 1).to(x.dtype).index_add(0, target, ones)
            for _ in range(2):
                sent = F.gelu(self.message(torch.cat((x[source], x[target]), 1)))
                got = torch.zeros_like(x).index_add(0, target, sent) / degree.clamp(min=1)
                x = x + torch.tanh(self.update(torch.cat((x, got), 1)))
            best = torch.zeros_like(x).scatter_reduce(
                0, target[:, None].expand(-1, x.shape[1]), x[source], "amax")
            return self.out(x + best)
    inputs = [{"nodes": torch.randn(n, 8), "edges": torch.randint(0, n, (2, e))}
              for n, e in ((12, 30), (20, 64))]
    return zoo.Sample(Net(), inputs, ["classes"], {"nodes": {0: "nodes"}, "edges": {1: "edges"}})


class Waves(nn.Module):
    def forward(self, time):
        rate = torch.exp(torch.arange(16).to(time.dtype) * -0.6)
        angle = time[:, None] * rate
        return torch.cat((torch.sin(angle), torch.cos(angle)), 1)


class NoiseBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(32, width)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


@zoo.model("Diffusion: a step's noise, with the time, cross attention and nearest upsampling")
def diffusion():
    class Net(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.waves, self.time = Waves(), nn.Linear(32, 32)
            self.head, self.tail = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 1)
            self.blocks = nn.ModuleList(NoiseBlock(width) for _ in range(3))
            self.down = nn.Conv2d(width, width, 3, 2, 1)
            self.attend = nn.MultiheadAttention(width, 4, kdim=24, vdim=24, batch_first=True)

        def forward(self, noisy, time, words):
            t = self.time(self.waves(time))
            x = self.blocks[0](self.head(noisy), t)
            y = self.blocks[1](self.down(x), t)
            flat = y.flatten(2).transpose(1, 2)
            found = self.attend(flat, words, words, need_weights=False)[0]
            y = y + found.transpose(1, 2).reshape(y.shape)
            y = F.interpolate(y, scale_factor=2.0, mode="nearest")
            return self.tail(self.blocks[2](x + y, t))
    inputs = [{"noisy": torch.randn(b, 4, 16, 16), "time": torch.rand(b) * 100,
               "words": torch.randn(b, 7, 24)} for b in (1, 2)]
    return zoo.Sample(Net(), inputs, ["noise"], {k: {0: "batch"} for k in inputs[0]})


@zoo.model("A small network on 64 numbers")
def mlp():
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.Mish(),
                        nn.Linear(128, 10))
    return zoo.Sample(net, [{"x": torch.randn(n, 64)} for n in (1, 7)], ["y"],
                      {"x": {0: "batch"}})


@zoo.model("200 additions in a row")
def chain():
    class Net(nn.Module):
        def forward(self, x, y):
            for _ in range(200):
                x = x + y
            return x
    inputs = [{"x": torch.randn(n), "y": torch.randn(n) / 200} for n in (1, 1024)]
    return zoo.Sample(Net(), inputs, ["z"], {k: {0: "size"} for k in inputs[0]})


@zoo.model("Series: attention over time of what recurrent nets did, with odd activations")
def series():
    class Net(nn.Module):
        def __init__(self, dim=16):
            super().__init__()
            self.inside = nn.Conv1d(5, dim, 3, padding=2)
            self.score, self.out = nn.Linear(dim, 1), nn.Linear(2 * dim, 4)

        def forward(self, values):
            scaled = (values - values.mean(2, keepdim=True)) / (values.std(2, keepdim=True) + 1e-3)
            x = F.hardswish(self.inside(scaled)[:, :, :-2]).transpose(1, 2)
            weight = torch.softmax(F.softsign(self.score(x)), 1)
            mean = (x * weight).sum(1)
            spread = torch.logsumexp(x, 1)
            return F.celu(self.out(torch.cat((mean, spread), 1)), 0.7)
    inputs = [{"values": torch.randn(b, 5, n)} for b, n in ((1, 20), (3, 33))]
    return zoo.Sample(Net(), inputs, ["next"], {"values": {0: "batch", 2: "steps"}})
