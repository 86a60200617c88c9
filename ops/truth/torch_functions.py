# SPDX-License-Identifier: Apache-2.0
"""PyTorch's function of each row: a third opinion on what an operator means. All elementwise rows
have one, and all reductions; ops_torch.py fails for a row without."""

import torch
from torch.nn import functional


def _shrink(x, bias, lambd):
    """ONNX's text: 0 where x is neither below nor above. PyTorch keeps NaN, has one of bias and
    lambd, and none for integers."""
    if not x.is_floating_point():
        value = x.long()  # beside a u8 a number below 0 would wrap
        return torch.where(value < -lambd, x + bias, torch.where(value > lambd, x - bias, 0))
    kept = functional.hardshrink(torch.where(x != x, 0, x), lambd)
    return kept - bias * torch.sign(kept)


def _remainder(a, b):
    """Of floats a zero has the sign of b, as in Python; PyTorch leaves it that of a."""
    rest = torch.remainder(a, b)
    return torch.copysign(rest, b) if a.is_floating_point() else rest


FUNCTIONS = {
    "relu": torch.relu, "add": torch.add, "sub": torch.sub, "mul": torch.mul,
    "max": torch.maximum, "min": torch.minimum, "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal, "abs": torch.abs, "neg": torch.neg,
    "sign": lambda x: torch.where(x != x, x, torch.sign(x)),  # of NaN it gives 0, ours NaN
    "ceil": torch.ceil, "floor": torch.floor, "round": torch.round, "trunc": torch.trunc,
    "equal": torch.eq, "greater": torch.gt, "greater_or_equal": torch.ge, "less": torch.lt,
    "less_or_equal": torch.le, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "logical_not": torch.logical_not,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "bitwise_not": torch.bitwise_not,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
    "where": torch.where, "is_nan": torch.isnan, "clip": torch.clamp, "pow": torch.pow,
    "is_inf": lambda x, detect_negative, detect_positive: (
        (torch.isneginf(x) & bool(detect_negative)) | (torch.isposinf(x) & bool(detect_positive))),
    "fmod": torch.fmod, "mod": _remainder,
    "div": lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc"),
    "leaky_relu": lambda x, alpha: functional.leaky_relu(x, alpha),
    "prelu": lambda x, slope: torch.where(x < 0, slope * x, x),
    # ONNX's text: x where it is above, else 0. PyTorch keeps NaN.
    "thresholded_relu": lambda x, alpha: torch.where(x != x, 0, functional.threshold(x, alpha, 0)),
    "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p,
    "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erf": torch.erf, "sigmoid": torch.sigmoid,
    # PyTorch's own has an alpha of 1/6 alone, which no float holds.
    "hard_sigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
    "hard_swish": functional.hardswish, "elu": functional.elu, "celu": functional.celu,
    "selu": lambda x, alpha, gamma: functional.selu(x),
    # Its default leaves log out from 20 on, where it is still in f64's digits.
    "softplus": lambda x: functional.softplus(x, threshold=80), "softsign": functional.softsign,
    "mish": functional.mish, "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "swish": lambda x, alpha: functional.silu(alpha * x) / alpha, "shrink": _shrink,
    "log2": torch.log2, "log10": torch.log10, "atan2": torch.atan2, "hypot": torch.hypot,
    "logaddexp": torch.logaddexp, "copysign": torch.copysign, "nextafter": torch.nextafter,
    "floor_divide": torch.floor_divide, "not_equal": torch.ne, "is_finite": torch.isfinite,
    "signbit": torch.signbit,
}

# Where PyTorch's function has no attributes: what it has in their place.
SETTINGS = {
    "selu": [{"alpha": 1.6732632423543772848170429916717,
              "gamma": 1.0507009873554804934193349852946}],
}

# Of several steps, each of which a half type would round, or overflow in: of halves these are
# computed in f64, and rounded once. All others PyTorch has for halves.
STEPS = ("hard_sigmoid", "softsign", "swish", "shrink", "prelu", "reduce_prod", "reduce_l2",
         "reduce_sum_square", "reduce_log_sum", "reduce_log_sum_exp", "log_softmax",
         "floor_divide", "hypot", "logaddexp")

# What is a step of the dtype itself: of f32 it is computed in f32.
OF_OWN_STEPS = ("nextafter",)

# One operation, or a choice: in its own type PyTorch has every bit. (Of sqrt in f64 it has not.)
EXACT = ("relu", "add", "sub", "mul", "div", "max", "min", "reciprocal", "abs", "neg", "sign",
         "ceil", "floor", "round", "trunc", "where", "clip", "fmod", "mod", "leaky_relu", "prelu",
         "thresholded_relu", "shrink", "reduce_max", "reduce_min")

# An error in PyTorch, or undefined, for integers by 0 and by -1.
DIVIDES = ("div", "fmod", "mod", "floor_divide")


def _is_large(most, x):
    return torch.exp(torch.abs(x)) > most


def _has_large_quotient(most, a, b):
    return torch.abs(a / b) > most


def _has_odd_square(most, x):
    squares = torch.square(x)
    return ((x != 0) & ((squares > most) | (squares < 1 / most))).any(1)


def _cancels(most, x):
    return torch.abs(x.sum(1)) <= 2.0**-20 * torch.abs(x).sum(1)


# Where PyTorch's own way leaves the type that it computes in, whose largest number is `most`, or
# has nothing left of the digits: what it says there means nothing.
UNSURE = {
    "sinh": _is_large, "cosh": _is_large,  # half of e^x
    "hard_swish": lambda most, x: torch.square(x) + 3 * torch.abs(x) > most,  # x (x + 3) / 6
    "mod": _has_large_quotient, "fmod": _has_large_quotient,  # a - b trunc(a / b)
    "reduce_l2": _has_odd_square,
    "reduce_log_sum": _cancels,
}


def _in_own_type(function):
    """Integers wrap; PyTorch would widen them."""
    return lambda x, dim: function(x, dim=dim, dtype=None if x.is_floating_point() else x.dtype)


REDUCTIONS = {
    "reduce_sum": _in_own_type(torch.sum), "reduce_prod": _in_own_type(torch.prod),
    "reduce_mean": torch.mean, "reduce_max": torch.amax, "reduce_min": torch.amin,
    "reduce_l1": _in_own_type(lambda x, **how: torch.sum(torch.abs(x), **how)),
    "reduce_l2": lambda x, dim: torch.linalg.vector_norm(x, 2, dim),
    "reduce_sum_square": _in_own_type(lambda x, **how: torch.sum(torch.square(x), **how)),
    "reduce_log_sum": lambda x, dim: torch.log(torch.sum(x, dim)),
    "reduce_log_sum_exp": torch.logsumexp,
    "reduce_any": torch.any, "reduce_all": torch.all,
}
# Of integers. Of the others PyTorch gives floats, where ours are cut off to the integer.
OF_INTEGERS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_l1",
               "reduce_sum_square")
OF_BOOLS = ("reduce_any", "reduce_all")
LINES = {"softmax": torch.softmax, "log_softmax": torch.log_softmax}
