# SPDX-License-Identifier: Apache-2.0
"""Models in the forms of other exporters and operator sets: what the files of older and of newer
PyTorch look like."""

import torch
import torch.nn.functional as F
from torch import nn

import language
import vision
import zoo


@zoo.model("A residual network as old exporters wrote it, operator set 9")
def old_classifier():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a, self.b = (nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False),
                                            nn.BatchNorm2d(width)) for _ in range(2))

        def forward(self, x):
            return F.relu(x + self.b(F.relu(self.a(x))))
    net = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), nn.BatchNorm2d(16), nn.ReLU(),
                        nn.MaxPool2d(3, 2, 1), Block(16), Block(16), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 10))
    inputs = vision.images(32)
    return zoo.Sample(zoo.settle(net, inputs[0]["image"]), inputs, ["logits"], vision.BATCH,
                      opset=9, old=True)


@zoo.model("A segmenting network of an old exporter, operator set 11: sizes from shapes")
def old_segmenter():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList((nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 2, 1),
                                       nn.Conv2d(16, 16, 3, 2, 1)))
            self.out = nn.Conv2d(40, 2, 1)

        def forward(self, image):
            maps, x = [], image
            for layer in self.down:
                x = F.elu(layer(x))
                maps.append(F.interpolate(x, size=image.shape[2:], mode="bilinear",
                                          align_corners=False))
            return torch.softmax(self.out(torch.cat(maps, 1)), 1)
    inputs = [{"image": torch.randn(b, 3, n, n)} for b, n in ((1, 24), (2, 36))]
    return zoo.Sample(Net(), inputs, ["mask"], {"image": {0: "batch", 2: "height", 3: "width"}},
                      opset=11, old=True)


@zoo.model("A small BERT of an old exporter, operator set 13: shapes worked out in the graph")
def old_encoder():
    net = language.calm(language.Bert(500, 48, 2, 4, 96, sentence=True), 0.1)
    return zoo.Sample(net, language.texts(500, (1, 11), (2, 18)), ["sentence"], language.TEXT,
                      opset=13, old=True)


@zoo.model("Attention and rms norm as operators of their own, operator set 23")
def new_attention():
    class Net(nn.Module):
        def __init__(self, dim=48):
            super().__init__()
            self.norm, self.qkv = nn.RMSNorm(dim, 1e-5), nn.Linear(dim, 3 * dim)
            self.out = nn.Linear(dim, dim)

        def forward(self, x):
            b, s, d = x.shape
            q, k, v = self.qkv(self.norm(x)).view(b, s, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(F.gelu(y.transpose(1, 2).reshape(b, s, d), approximate="tanh"))
    inputs = [{"x": torch.randn(b, 9, 48)} for b in (1, 3)]
    return zoo.Sample(Net(), inputs, ["y"], {"x": {0: "batch"}}, opset=23)
