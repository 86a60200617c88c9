# SPDX-License-Identifier: Apache-2.0
"""What sessions cannot do stays in torch, and says so."""

import copy

import pytest
import torch
from torch import nn

import backplane as bp
import backplane.torch
from backplane.torch import FallbackWarning
from checks import check_all_on_device, compile, launches

EXPORTER = "the ONNX exporter: No ONNX function"


def operators():
    return {f.operator for f in bp.torch.report().fallbacks}


def test_an_operator_without_an_onnx_form(device):
    def f(x):
        y = x.sin() * 2
        return torch.special.bessel_j0(y) + x.exp()

    compiled = compile(f, device)
    x = torch.randn(5)
    before = launches(device)
    with pytest.warns(FallbackWarning, match=f"graph 1: aten.special_bessel_j0.*{EXPORTER}"):
        found = compiled(x)
    torch.testing.assert_close(found, f(x))
    torch.testing.assert_close(compiled(x + 1), f(x + 1))  # warned once
    report = bp.torch.report()
    assert (report.device_nodes, report.torch_nodes, report.graphs) == (4, 1, 1)
    assert operators() == {"aten.special_bessel_j0.default"}
    assert launches(device) > before


def test_an_operator_whose_parts_have_none():
    """The exporter names the part; the report names the operator of the graph."""
    compiled = compile(lambda x: torch.special.i0(x.abs()) + 1, "cpu:0")
    x = torch.randn(5)
    with pytest.warns(FallbackWarning, match="aten.i0.default"):
        torch.testing.assert_close(compiled(x), torch.special.i0(x.abs()) + 1)
    assert operators() == {"aten.i0.default"} and bp.torch.report().device_nodes == 2


def test_random_numbers_are_those_of_torch():
    compiled = compile(lambda x: torch.rand_like(x) + x, "cpu:0")
    x = torch.zeros(1000)
    torch.manual_seed(3)
    with pytest.warns(FallbackWarning, match="aten.rand_like.default runs in torch: it draws"):
        found = compiled(x)
    torch.manual_seed(3)
    assert torch.equal(found, torch.rand(1000))
    assert bp.torch.report().device_nodes == 1


def test_dropout_in_training_mode():
    model = nn.Sequential(nn.Linear(50, 50), nn.Dropout(0.5)).train()
    compiled = compile(model, "cpu:0")
    with torch.no_grad(), pytest.warns(FallbackWarning, match="it draws random numbers"):
        found = compiled(torch.randn(20, 50))
    assert 0.3 < (found == 0).float().mean() < 0.7


def test_complex_numbers():
    def f(x):
        return torch.fft.fft(x * 2).abs() + 1

    x = torch.randn(8)
    with pytest.warns(FallbackWarning, match="complex64 has no ONNX operators"):
        torch.testing.assert_close(compile(f, "cpu:0")(x), f(x))
    assert bp.torch.report().device_nodes == 2


def test_tensors_that_are_elsewhere():
    compiled = compile(lambda x: x + 1, "cpu:0")
    with pytest.warns(FallbackWarning, match="a tensor on meta, expected one on cpu"):
        assert compiled(torch.empty(3, device="meta")).shape == (3,)
    assert bp.torch.report().device_nodes == 0


def test_a_model_that_the_device_refuses(monkeypatch):
    def refuse(*_, **__):
        raise bp.UnsupportedError("load: no kernel for node_add")

    monkeypatch.setattr(bp, "load", refuse)
    compiled = compile(lambda x: x + 1, "cpu:0")
    with pytest.warns(FallbackWarning, match="all 1 operators run in torch: load: no kernel"):
        assert compiled(torch.zeros(2)).tolist() == [1, 1]
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    report = bp.torch.report()
    assert (report.device_nodes, report.torch_nodes) == (0, 1)


def test_an_operator_that_the_device_refuses(device):
    """The others stay on it. The pool of floats is of the same operator."""
    def f(x, i):
        y = torch.nn.functional.avg_pool1d(x.exp(), 2)
        return torch.nn.functional.avg_pool1d(i + 1, 2) * 3, y.sin()

    compiled = compile(f, device)
    args = torch.randn(1, 2, 6), torch.arange(12).reshape(1, 2, 6)
    before = launches(device)
    with pytest.warns(FallbackWarning, match=r"aten.avg_pool2d.default runs in torch:.*found i64"):
        torch.testing.assert_close(compiled(*args), f(*args))
    torch.testing.assert_close(compiled(*args), f(*args))  # warned once
    report = bp.torch.report()
    assert (report.device_nodes, report.torch_nodes, report.graphs) == (4, 2, 1)
    assert operators() == {"aten.avg_pool2d.default"}
    assert launches(device) >= before + 2 * 4
    args = torch.randn(3, 2, 6), torch.arange(36).reshape(3, 2, 6)
    with pytest.warns(FallbackWarning, match="graph 2: aten.avg_pool2d.default runs in torch"):
        torch.testing.assert_close(compiled(*args), f(*args))


def test_results_of_another_size():
    """The exporter has no axis for one step."""
    x = torch.tensor(3.0)
    with pytest.warns(FallbackWarning, match=r"the ONNX exporter makes sizes \[\] of \[1\]"):
        assert compile(lambda x: torch.linspace(x, 1, 1) * 2, "cpu:0")(x).tolist() == [6]
    assert bp.torch.report().device_nodes == 0


def test_other_errors_of_loading_are_raised(monkeypatch):
    def fail(*_, **__):
        raise bp.OutOfMemoryError("load: the device has 1 MiB")

    monkeypatch.setattr(bp, "load", fail)
    with pytest.raises(bp.OutOfMemoryError, match="1 MiB"):
        compile(lambda x: x + 1, "cpu:0")(torch.zeros(2))


def test_models_that_are_too_large(monkeypatch):
    monkeypatch.setattr("backplane.torch._export._LARGEST_MODEL", 1000)
    model = nn.Linear(64, 64)
    with torch.no_grad(), pytest.warns(FallbackWarning, match="ONNX ends at 2 GiB"):
        compile(model, "cpu:0")(torch.zeros(1, 64))


def test_graph_breaks_are_counted():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    assert compile(f, "cpu:0")(torch.zeros(2)).tolist() == [2, 2]
    report = bp.torch.report()
    assert sum(report.graph_breaks.values()) == 1 and report.graphs == 2


def test_functions_that_are_compiled_too_often():
    def f(x, text):
        return x + len(text)

    compiled = compile(f, "cpu:0")
    words = "graph 8: calls that need another graph run in torch: .*recompile_limit .8.*'f'"
    for n in range(8):
        assert compiled(torch.zeros(2), "x" * n).tolist() == [n, n]
    check_all_on_device()
    with pytest.warns(FallbackWarning, match=words):
        assert compiled(torch.zeros(2), "x" * 8).tolist() == [8, 8]
    assert compiled(torch.zeros(2), "x" * 9).tolist() == [9, 9]  # told once
    report = bp.torch.report()
    assert (report.graphs, report.runs) == (8, 8)
    assert [(f.graph, f.operator, f.nodes) for f in report.fallbacks] == [(8, "", 0)]
    assert sum(n for name, n in report.graph_breaks.items() if "recompile limit" in name) == 1


def test_functions_that_are_compiled_too_often_where_that_is_an_error():
    compiled = compile(lambda x, text: x + len(text), "cpu:0", fallback="error")
    for n in range(8):
        compiled(torch.zeros(2), "x" * n)
    for _ in range(2):
        with pytest.raises(bp.UnsupportedError, match="recompile_limit"):
            compiled(torch.zeros(2), "another")
    assert compiled(torch.zeros(2), "xx").tolist() == [2, 2]


def test_functions_that_other_backends_compile_too_often():
    compile(lambda x: x + 1, "cpu:0")(torch.zeros(2))
    other = torch.compile(lambda x, text: x + len(text), backend="eager")
    for n in range(10):
        assert other(torch.zeros(2), "x" * n).tolist() == [n, n]
    assert bp.torch.report().fallbacks == ()


# --- Gradients --------------------------------------------------------------------------------


def test_training():
    """The forward part runs on the device, also while an optimizer writes into the weights."""
    ours = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
    theirs = copy.deepcopy(ours)
    compiled = compile(ours, "cpu:0")
    batches = [torch.randn(5, 4) for _ in range(5)]

    def losses(model, call):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x in batches:
            loss = call(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()

    with pytest.warns(FallbackWarning, match="these are gradients"):
        found = list(losses(ours, compiled))
    assert found == pytest.approx(list(losses(theirs, theirs)), rel=1e-5)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad, b.grad)
        torch.testing.assert_close(a, b)
    report = bp.torch.report()
    assert report.sessions == 2  # with the first weights, then one that takes them as inputs
    assert report.runs == 5 and len(report.fallbacks) == 1


def test_training_by_hand():
    """Writes through .data move no version; a model whose gradients were asked for is ready."""
    model = nn.Linear(4, 1)
    compiled = compile(model, "cpu:0")
    x = torch.randn(8, 4)
    with pytest.warns(FallbackWarning, match="these are gradients"):
        for _ in range(4):
            found = compiled(x)
            torch.testing.assert_close(found, model(x))
            found.square().mean().backward()
            for weight in model.parameters():
                weight.data -= weight.grad
                weight.grad = None
    assert bp.torch.report().sessions == 2


def test_weights_that_are_loaded_without_gradients():
    """Outside of no_grad, weights stay in the session until gradients are asked for."""
    model = nn.Linear(4, 4)
    compiled = compile(model, "cpu:0")
    x = torch.randn(2, 4)
    for _ in range(3):
        with torch.no_grad():
            model.weight.mul_(2)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
    assert bp.torch.report().sessions == 3
    check_all_on_device()


def test_gradients_of_inputs():
    compiled = compile(lambda x: (x * x).sum(), "cpu:0")
    x = torch.randn(4, requires_grad=True)
    with pytest.warns(FallbackWarning, match="these are gradients"):
        compiled(x).backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


# --- Options ----------------------------------------------------------------------------------


def test_fallback_may_be_an_error():
    compiled = compile(lambda x: torch.special.bessel_j0(x), "cpu:0", fallback="error")
    with pytest.raises(Exception, match="aten.special_bessel_j0.default runs in torch"):
        compiled(torch.zeros(2))
    compiled = compile(lambda x: x * 2, "cpu:0", fallback="error")
    with pytest.raises(bp.UnsupportedError, match="these are gradients"):
        compiled(torch.zeros(2, requires_grad=True)).sum().backward()
    assert compiled(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devcie": "cpu:0"}, "unknown option 'devcie'; backplane knows device, fallback"),
        ({"device": "cpu:99"}, "cpu:99"),
        ({"device": 3}, "option 'device': expected a Device or its name, found int"),
        ({"fallback": "maybe"}, "option 'fallback': expected 'warn' or 'error', found 'maybe'"),
        ({"memory_limit": -5}, "option 'memory_limit': expected a positive count.*found -5"),
        ({"memory_limit": "much"}, "option 'memory_limit': .* found 'much'"),
        ({"memory_limit": True}, "option 'memory_limit': .* found True"),
        ({"memory_limit": 1 << 70}, "option 'memory_limit': expected a positive count"),
        ({"deterministic": "yes"}, "option 'deterministic': expected True or False, found 'yes'"),
        ("npu:0", "options: expected a dict, found 'npu:0'"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(Exception, match=words):
        torch.compile(lambda x: x + 1, backend="backplane", options=options)(torch.zeros(2))


def test_other_arguments_of_compile():
    with pytest.raises(Exception, match="argument 'mode' is not for backplane"):
        torch.compile(lambda x: x + 1, backend="backplane", mode="max-autotune")(torch.zeros(2))


def test_options_of_loading():
    model = nn.Linear(8, 8)
    compiled = compile(model, "cpu:0", deterministic=True, memory_limit=1 << 24)
    x = torch.randn(2, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        check_all_on_device()
        with pytest.raises(bp.OutOfMemoryError, match="memory_limit"):
            compile(nn.Linear(512, 512), "cpu:0", memory_limit=1000)(torch.randn(2, 512))


def test_a_device_and_the_default_one():
    for device in (bp.device("npu:0"), None):
        compiled = torch.compile(lambda x: x + 1, backend="backplane", options={"device": device})
        assert compiled(torch.zeros(2)).tolist() == [1, 1]
        torch._dynamo.reset()
    assert torch.compile(lambda x: x + 1, backend="backplane")(torch.zeros(2)).tolist() == [1, 1]
    assert "backplane" in torch._dynamo.list_backends()
