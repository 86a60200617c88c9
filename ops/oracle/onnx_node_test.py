# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests for our operators, through the reader and the oracle.

onnx_node_test.py RUNNER: writes the cases that the onnx package makes into a temporary folder and
has the runner (onnx_node_runner.cpp) judge them. What we refuse must stand in EXPECTED_REFUSED
below, with its reason; a case that stands there and passes is an error too.
Exit status 77 (skipped) without the onnx package.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

OPERATORS = frozenset(
    """Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Constant Conv Cos Cosh Div Elu
    Equal Erf Exp Flatten Floor Gather Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish
    Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log MatMul Max MaxPool Mean Min Mish Mod Mul
    Neg NonZero Not Or PRelu Pow Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round
    Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Sub Sum Swish Tan Tanh
    ThresholdedRelu Transpose Where Xor
    BitCast
    Concat ConstantOfShape DepthToSpace Expand EyeLike Pad Range Slice SpaceToDepth Split Squeeze
    Tile Trilu Unsqueeze
    CumProd CumSum OneHot TopK
    ArgMax ArgMin Compress GatherElements GatherND Scatter ScatterElements ScatterND
    AveragePool GlobalAveragePool GlobalMaxPool Resize Upsample
    Hardmax LogSoftmax NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss
    ConvTranspose GlobalLpPool LpPool
    Shape Size
    LpNormalization MeanVarianceNormalization DequantizeLinear QuantizeLinear
    Dropout DynamicQuantizeLinear Einsum
    Attention GroupNormalization InstanceNormalization LayerNormalization
    RMSNormalization""".split()
)
# The package grows; fewer cases than it has today would mean that the filter lost some.
LEAST_PASSED = 560

# Pattern of whole case names, and why.
EXPECTED_REFUSED = (
    (r"test_(de)?quantizelinear_(e4m3fn|e5m2|u?int[24]|float4e2m1)\w*",
     "dtypes below 8 bits, and 8-bit floats"),
    (r"test_cast(like)?_\w*(FLOAT8|FLOAT4|INT4|INT2)\w*", "dtypes below 8 bits, and 8-bit floats"),
    (r"test_batchnorm_\w+_training_mode", "inference only"),
    (r"test_training_dropout\w*", "inference only"),
    (r"test_equal_string\w*", "no dtype of texts"),
    (r"test_not_\dd", "written for operator set 1"),
    (r"test_identity_(sequence|opt)", "tensors only"),
)
# Cases whose expected values are written down with few digits, or rounded on the way, and the
# relative error of that.
ROUNDED = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3,
    "test_attention_4d_causal_padded_kv_bf16": 1.6e-2,  # weights are bf16 before the last product
}


def is_ours(case):
    return case.model is not None and {n.op_type for n in case.model.graph.node} <= OPERATORS


def write_tensor(onnx, path, value):
    if isinstance(value, onnx.TensorProto):
        tensor = value
    else:
        tensor = onnx.numpy_helper.from_array(value)
    path.write_bytes(tensor.SerializeToString())


def axes_as_constants(onnx, model, inputs):
    """Reductions take axes that are constants; the node tests give them as inputs."""
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    kept = []
    names = {n.input[1] for n in model.graph.node if n.op_type.startswith("Reduce")
             and len(n.input) > 1}
    for info, value in zip(model.graph.input, inputs):
        if info.name in names:
            folded.graph.initializer.append(onnx.numpy_helper.from_array(value, info.name))
            folded.graph.input.remove(info)
        else:
            kept.append(value)
    return folded, kept


def write_case(onnx, case, folder):
    """False for a case whose values are not tensors, which has no file format of its own."""
    folder.mkdir()
    inputs, outputs = case.data_sets[0]
    if not all(hasattr(v, "dtype") or isinstance(v, onnx.TensorProto) for v in inputs + outputs):
        return False
    model, inputs = axes_as_constants(onnx, case.model, inputs)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, values in (("input", inputs), ("output", outputs)):
        for index, value in enumerate(values):
            write_tensor(onnx, folder / f"{kind}_{index}.pb", value)
    return True


def line_of(folder):
    return f"{folder}\t{ROUNDED.get(folder.name, 0)}\n"


def run_cases(onnx, runner, cases, root):
    """(verdict, name, words) of each case."""
    folders = []
    results = []
    for case in cases:
        folder = root / case.name
        if write_case(onnx, case, folder):
            folders.append(folder)
        else:
            results.append(("REFUSED", case.name, "values that are not tensors"))
    answer = subprocess.run([runner], input="".join(map(line_of, folders)), text=True,
                            capture_output=True, check=False)
    lines = answer.stdout.splitlines()
    if answer.returncode != 0 or len(lines) != len(folders):
        sys.exit(f"{runner} answered {len(lines)} of {len(folders)} cases, exit status "
                 f"{answer.returncode}\n{answer.stderr}")
    for line in lines:
        verdict, folder, words = line.split("\t", 2)
        results.append((verdict, pathlib.Path(folder).name, words))
    return results


def main():
    try:
        import onnx
        import onnx.numpy_helper
        from onnx.backend.test.case.node import collect_testcases
    except ImportError as error:
        print(f"skipped: {error}; tools/requirements-test.txt has the package")
        return 77
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow on purpose
        cases = [case for case in collect_testcases(None) if is_ours(case)]
    with tempfile.TemporaryDirectory() as root:
        results = run_cases(onnx, sys.argv[1], cases, pathlib.Path(root))
    counts = collections.Counter()
    bad = []
    for verdict, name, words in results:
        reason = next((r for p, r in EXPECTED_REFUSED if re.fullmatch(p, name)), None)
        expected = "REFUSED" if reason else "PASS"
        counts[verdict] += 1
        if verdict != expected:
            bad.append(f"{name}: expected {expected}, found {verdict} {words}")
    print("\n".join(bad))
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    if counts["PASS"] < LEAST_PASSED:
        bad.append(f"only {counts['PASS']} passed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
