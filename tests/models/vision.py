# SPDX-License-Identifier: Apache-2.0
"""Models that look: pictures, films, points in space."""

import torch
import torch.nn.functional as F
from torch import nn

import zoo


def images(size, channels=3, batches=(1, 3)):
    return [{"image": torch.randn(n, channels, size, size)} for n in batches]


BATCH = {"image": {0: "batch"}}


def torchvision_net(name, size, **options):
    import torchvision
    net = getattr(torchvision.models, name)(weights=None, **options)
    inputs = images(size)
    return zoo.Sample(zoo.settle(net, inputs[0]["image"]), inputs, ["logits"], BATCH)


@zoo.model("ResNet-50: dense convolutions")
def resnet50():
    return torchvision_net("resnet50", 64)


@zoo.model("MobileNetV3-Large: depthwise convolutions, hard-swish, squeeze-excite")
def mobilenet_v3_large():
    return torchvision_net("mobilenet_v3_large", 64)


@zoo.model("DenseNet-121: many concatenations")
def densenet121():
    return torchvision_net("densenet121", 64)


@zoo.model("ShuffleNetV2: channels split and shuffled")
def shufflenet_v2():
    return torchvision_net("shufflenet_v2_x1_0", 64)


@zoo.model("ConvNeXt-like: wide depthwise kernels, layer norm over channels")
def convnext():
    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            self.scale = nn.Parameter(torch.rand(dim) + 0.5)

        def forward(self, x):
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
    net = nn.Sequential(nn.Conv2d(3, 32, 4, stride=4), Block(32), Block(32),
                        nn.Conv2d(32, 64, 2, stride=2), Block(64), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(64, 10))
    return zoo.Sample(net, images(48), ["logits"], BATCH)


@zoo.model("Vision transformer: patches, class token, attention")
def vision_transformer():
    class Net(nn.Module):
        def __init__(self, dim=64):
            super().__init__()
            self.patches = nn.Conv2d(3, dim, 8, stride=8)
            self.token = nn.Parameter(torch.randn(1, 1, dim))
            self.position = nn.Parameter(torch.randn(1, 37, dim))
            layer = nn.TransformerEncoderLayer(dim, 4, 128, 0.0, "gelu", batch_first=True,
                                               norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(dim, 10)

        def forward(self, image):
            x = self.patches(image).flatten(2).transpose(1, 2)
            x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.position
            return self.head(self.layers(x)[:, 0])
    return zoo.Sample(Net(), images(48), ["logits"], BATCH)


@zoo.model("Super-resolution: residual blocks, pixel shuffle, bicubic skip")
def super_resolution():
    class Net(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.head = nn.Conv2d(3, width, 3, padding=1)
            self.body = nn.ModuleList(nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width),
                nn.Conv2d(width, width, 3, padding=1)) for _ in range(3))
            self.tail = nn.Conv2d(width, 3 * 9, 3, padding=1)

        def forward(self, image):
            x = self.head(image)
            for block in self.body:
                x = x + block(x)
            skip = F.interpolate(image, scale_factor=3.0, mode="bicubic", align_corners=False)
            return F.pixel_shuffle(self.tail(x), 3) + skip
    return zoo.Sample(Net(), images(24), ["large"], BATCH)


@zoo.model("Depth: an encoder, a decoder with skips, bilinear and transposed upsampling")
def depth():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            def step(a, b, stride=1):
                return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.BatchNorm2d(b),
                                     nn.LeakyReLU(0.1))
            self.down1, self.down2, self.down3 = step(3, 16), step(16, 32, 2), step(32, 48, 2)
            self.up2, self.up1 = step(48 + 32, 32), step(32 + 16, 16)
            self.rise = nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1)
            self.out = nn.Conv2d(16, 1, 1)

        def forward(self, image):
            a = self.down1(image)
            b = self.down2(a)
            c = F.interpolate(self.down3(b), scale_factor=2.0, mode="bilinear", align_corners=True)
            d = self.rise(self.up2(torch.cat((c, b), 1)))
            far = self.out(self.up1(torch.cat((d, a), 1)))
            return F.softplus(far), torch.sigmoid(F.avg_pool2d(far, 2))
    inputs = images(32)
    return zoo.Sample(zoo.settle(Net(), inputs[0]["image"]), inputs, ["far", "mask"], BATCH)


@zoo.model("Video: 3-d convolutions and pools")
def video():
    net = nn.Sequential(
        nn.Conv3d(3, 12, (3, 7, 7), (1, 2, 2), (1, 3, 3)), nn.BatchNorm3d(12), nn.ReLU(),
        nn.MaxPool3d(3, 2, 1), nn.Conv3d(12, 24, (1, 3, 3), padding=(0, 1, 1)), nn.ELU(),
        nn.Conv3d(24, 24, (3, 1, 1), padding=(1, 0, 0)), nn.BatchNorm3d(24), nn.ReLU6(),
        nn.AvgPool3d((1, 2, 2)), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(24, 8),
        nn.LogSoftmax(1))
    inputs = [{"clip": torch.randn(n, 3, 8, 32, 32)} for n in (1, 2)]
    return zoo.Sample(zoo.settle(net, inputs[0]["clip"]), inputs, ["scores"],
                      {"clip": {0: "batch"}})


@zoo.model("Point cloud: a transform of the points, maxima over all of them, nearest neighbours")
def point_cloud():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            def mlp(*widths):
                parts = []
                for a, b in zip(widths, widths[1:]):
                    parts += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
                return nn.Sequential(*parts)
            self.turn, self.turn_out = mlp(3, 16, 32), nn.Linear(32, 9)
            self.local, self.whole = mlp(3, 16, 32), mlp(32, 64)
            self.edge = mlp(6, 16)
            self.head = nn.Conv1d(64 + 32 + 16, 5, 1)

        def forward(self, points):
            turn = self.turn_out(self.turn(points).amax(2)).view(-1, 3, 3) + torch.eye(3)
            moved = turn @ points
            local = self.local(moved)
            whole = self.whole(local).amax(2, keepdim=True).expand(-1, -1, points.shape[2])
            square = (moved * moved).sum(1)
            far = square[:, :, None] + square[:, None] - 2 * moved.transpose(1, 2) @ moved
            near = far.topk(2, dim=2, largest=False).indices[:, :, 1]
            other = torch.gather(moved, 2, near[:, None].expand(-1, 3, -1))
            edge = self.edge(torch.cat((moved, other - moved), 1))
            return self.head(torch.cat((local, whole, edge), 1))
    inputs = [{"points": torch.randn(n, 3, 64)} for n in (1, 2)]
    return zoo.Sample(zoo.settle(Net(), inputs[0]["points"]), inputs, ["parts"],
                      {"points": {0: "batch"}})
