# SPDX-License-Identifier: Apache-2.0
"""Models that read, write and speak."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import zoo


def tokens(vocabulary, *sizes):
    return torch.randint(0, vocabulary, sizes)


def calm(net, deviation):
    for parameter in net.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0.0, deviation)
    return net


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(dim, 1e-12), nn.LayerNorm(dim, 1e-12)
        self.up, self.down = nn.Linear(dim, ffn), nn.Linear(ffn, dim)

    def forward(self, x, bias):
        b, s, d = x.shape
        q, k, v = (f(x).view(b, s, self.heads, d // self.heads).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        p = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(d // self.heads) + bias, dim=-1)
        x = self.norm1(x + self.o((p @ v).transpose(1, 2).reshape(b, s, d)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, vocabulary, dim, layers, heads, ffn, sentence=False):
        super().__init__()
        self.sentence = sentence
        self.word, self.position = nn.Embedding(vocabulary, dim), nn.Embedding(512, dim)
        self.kind, self.norm = nn.Embedding(2, dim), nn.LayerNorm(dim, 1e-12)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, ffn) for _ in range(layers))

    def forward(self, input_ids, attention_mask, token_type_ids):
        x = self.word(input_ids) + self.position.weight[: input_ids.shape[1]]
        x = self.norm(x + self.kind(token_type_ids))
        bias = (1.0 - attention_mask.to(x.dtype)[:, None, None, :]) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        if not self.sentence:
            return x
        keep = attention_mask.to(x.dtype)[:, :, None]
        pooled = (x * keep).sum(1) / keep.sum(1).clamp(min=1e-9)
        return F.normalize(pooled, dim=1)


def texts(vocabulary, *shapes):
    made = []
    for batch, length in shapes:
        ids = tokens(vocabulary, batch, length)
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[:, length - 3:] = 0
        made.append({"input_ids": ids, "attention_mask": mask,
                     "token_type_ids": torch.zeros_like(ids)})
    return made


TEXT = {name: {0: "batch", 1: "length"}
        for name in ("input_ids", "attention_mask", "token_type_ids")}


@zoo.model("BERT-base: 12 layers, hidden 768", large=True)
def bert_base():
    net = calm(Bert(30522, 768, 12, 12, 3072), 0.04)
    return zoo.Sample(net, texts(30522, (1, 16), (2, 12)), ["hidden"], TEXT)


@zoo.model("Sentence embedding: a small BERT, mean of the tokens, unit length")
def sentence():
    net = calm(Bert(2000, 96, 3, 4, 256, sentence=True), 0.05)
    return zoo.Sample(net, texts(2000, (1, 20), (3, 9)), ["sentence"], TEXT)


class RmsNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, dim // heads
        self.norm1, self.norm2 = RmsNorm(dim), RmsNorm(dim)
        self.q, self.o = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * self.head, bias=False)
        self.v = nn.Linear(dim, kv_heads * self.head, bias=False)
        self.gate, self.up = nn.Linear(dim, ffn, bias=False), nn.Linear(dim, ffn, bias=False)
        self.down = nn.Linear(ffn, dim, bias=False)

    @staticmethod
    def rotate(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, x, cos, sin, bias, past=()):
        b, s, d = x.shape
        h = self.norm1(x)
        q = self.rotate(self.q(h).view(b, s, self.heads, self.head).transpose(1, 2), cos, sin)
        k = self.rotate(self.k(h).view(b, s, self.kv_heads, self.head).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, s, self.kv_heads, self.head).transpose(1, 2)
        if past:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        groups, total = self.heads // self.kv_heads, k.shape[2]

        def wide(t):
            t = t[:, :, None].expand(b, self.kv_heads, groups, total, self.head)
            return t.reshape(b, self.heads, total, self.head)
        scores = q @ wide(k).transpose(2, 3) / math.sqrt(self.head) + bias
        y = (torch.softmax(scores, dim=-1) @ wide(v)).transpose(1, 2).reshape(b, s, d)
        x = x + self.o(y)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), k, v


class Llama(nn.Module):
    """With a cache it takes and returns one, else it starts one."""

    def __init__(self, vocabulary=1000, dim=96, layers=3, heads=6, kv_heads=2, ffn=192):
        super().__init__()
        self.word, self.head = nn.Embedding(vocabulary, dim), dim // heads
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, kv_heads, ffn) for _ in range(layers))
        self.norm, self.out = RmsNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        self.register_buffer("freq", 1.0 / 10000 ** (torch.arange(0, self.head, 2) / self.head))

    def forward(self, input_ids, position_ids, attention_bias, *cache):
        x = self.word(input_ids)
        angle = position_ids[:, None, :, None].to(x.dtype) * self.freq
        angle = torch.cat((angle, angle), dim=-1)
        present = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, angle.cos(), angle.sin(), attention_bias,
                            cache[2 * i: 2 * i + 2])
            present += [k, v]
        return self.out(self.norm(x[:, -1:])), *present


def llm_inputs(count, cached, layers=3, kv_heads=2, head=16):
    mask = torch.full((count, cached + count), -10000.0)
    inputs = {"input_ids": tokens(1000, 1, count),
              "position_ids": torch.arange(cached, cached + count)[None],
              "attention_bias": torch.triu(mask, diagonal=cached + 1)[None, None]}
    if cached:
        inputs |= {f"past_{kind}.{i}": torch.randn(1, kv_heads, cached, head)
                   for i in range(layers) for kind in "kv"}
    return inputs


LLM_OUTPUTS = ["logits", *(f"present_{kind}.{i}" for i in range(3) for kind in "kv")]


@zoo.model("Llama-style decoder (RMSNorm, RoPE, GQA, SwiGLU): tokens from an empty cache")
def llm_prefill():
    dynamic = {"input_ids": {1: "length"}, "position_ids": {1: "length"},
               "attention_bias": {2: "length", 3: "length"}}
    return zoo.Sample(calm(Llama(), 0.08), [llm_inputs(5, 0), llm_inputs(16, 0)], LLM_OUTPUTS,
                      dynamic)


@zoo.model("The same decoder: one token and a cache")
def llm_decode():
    return zoo.Sample(calm(Llama(), 0.08), [llm_inputs(1, 24)], LLM_OUTPUTS)


@zoo.model("Translation: an encoder and a decoder with cross attention")
def translation():
    class Net(nn.Module):
        def __init__(self, vocabulary=800, dim=64):
            super().__init__()
            self.word = nn.Embedding(vocabulary, dim)
            self.body = nn.Transformer(dim, 4, 2, 2, 128, 0.0, "relu", batch_first=True)
            self.out = nn.Linear(dim, vocabulary)

        def placed(self, ids):
            x = self.word(ids) * 8.0
            position = torch.arange(ids.shape[1]).to(x.dtype)[:, None]
            rate = torch.exp(torch.arange(0, x.shape[2], 2).to(x.dtype) * (-9.21 / x.shape[2]))
            waves = torch.stack((torch.sin(position * rate), torch.cos(position * rate)), -1)
            return x + waves.flatten(1)

        def forward(self, source, target):
            ahead = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
            y = self.body(self.placed(source), self.placed(target), tgt_mask=ahead,
                          tgt_is_causal=True)
            return torch.log_softmax(self.out(y), -1)
    inputs = [{"source": tokens(800, b, 12), "target": tokens(800, b, 7)} for b in (1, 3)]
    return zoo.Sample(Net(), inputs, ["scores"], {k: {0: "batch"} for k in inputs[0]})


@zoo.model("Text to speech: convolutions over letters, lengths, a vocoder of transposed ones")
def text_to_speech():
    class Net(nn.Module):
        def __init__(self, dim=32):
            super().__init__()
            self.letter = nn.Embedding(40, dim)
            self.before = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2) for _ in range(2))
            self.norm = nn.InstanceNorm1d(dim, affine=True)
            self.length = nn.Conv1d(dim, 1, 3, padding=1)
            self.rise = nn.ModuleList((nn.ConvTranspose1d(dim, dim // 2, 8, 4, 2),
                                       nn.ConvTranspose1d(dim // 2, dim // 4, 4, 2, 1)))
            self.wide = nn.ModuleList((nn.Conv1d(dim // 2, dim // 2, 3, padding=3, dilation=3),
                                       nn.Conv1d(dim // 4, dim // 4, 3, padding=5, dilation=5)))
            self.out = nn.Conv1d(dim // 4, 1, 7, padding=3)

        def forward(self, letters):
            x = self.letter(letters).transpose(1, 2)
            for layer in self.before:
                x = x + torch.tanh(layer(x)) * torch.sigmoid(layer(x))
            x = self.norm(x)
            ends = torch.cumsum(F.softplus(self.length(x)), 2)
            x = x * torch.cos(ends) + torch.floor(ends) * 0.01
            for rise, wide in zip(self.rise, self.wide):
                x = rise(F.leaky_relu(x, 0.1))
                x = x + wide(F.leaky_relu(x, 0.1))
            return torch.tanh(self.out(F.pad(x, (1, 1), mode="reflect")))
    inputs = [{"letters": tokens(40, b, 24)} for b in (1, 2)]
    return zoo.Sample(Net(), inputs, ["wave"], {"letters": {0: "batch"}})


@zoo.model("Mixture of experts: the two best of four for each token")
def mixture_of_experts():
    class Net(nn.Module):
        def __init__(self, dim=32, experts=4):
            super().__init__()
            self.gate = nn.Linear(dim, experts)
            self.up = nn.Parameter(torch.randn(experts, dim, 64) * 0.2)
            self.down = nn.Parameter(torch.randn(experts, 64, dim) * 0.2)

        def forward(self, x):
            scores, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
            scores = scores / scores.sum(-1, keepdim=True)
            share = F.one_hot(chosen, 4).to(x.dtype) * scores[..., None]
            hidden = F.silu(torch.einsum("bsd,edf->bsef", x, self.up))
            each = torch.einsum("bsef,efd->bsed", hidden, self.down)
            return torch.einsum("bsed,bske->bsd", each, share), chosen
    inputs = [{"x": torch.randn(b, 10, 32)} for b in (1, 3)]
    return zoo.Sample(Net(), inputs, ["y", "chosen"], {"x": {0: "batch"}})
