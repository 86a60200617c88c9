# SPDX-License-Identifier: Apache-2.0
"""Operators as others, where the exporter does not know them, or has other values for them.

In eval mode torch.nn takes a transformer layer as one operator of its own, and attention as the
kernel of the CPU. The exporter does not know them. It takes batch norms for those of a model that
is not trained, knows no ``any`` of nothing, and leaves the sign of NaN to ONNX, where it is not 0.
Bags of embeddings it writes as loops, which sessions do not have.
"""

import torch
import torch.nn.functional as F
from torch._decomp import get_decompositions

_aten = torch.ops.aten
_ATTENTION = _aten.scaled_dot_product_attention.default
_UNTRAINED_NORM = _aten._native_batch_norm_legit_no_training.default
_CPU_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default


def _attention_mask(mask, mask_type, batch):
    """As scaled_dot_product_attention has it: True where a key takes part."""
    if mask is None:
        return None
    takes_part = ~mask.to(torch.bool)
    if mask_type == 1:  # of keys: [batch, keys]
        return takes_part.view(batch, 1, 1, -1)
    return takes_part  # [queries, keys], or one for each head


def _heads(x, count):
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def _project(query, key, value, weight, bias):
    """The three projections, whose weights lie in one."""
    width = weight.shape[0] // 3
    parts = [slice(i * width, (i + 1) * width) for i in range(3)]
    return [F.linear(x, weight[part], bias[part]) for x, part in zip((query, key, value), parts)]


def _multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
    mask=None, need_weights=True, average_attn_weights=True, mask_type=None,
):
    q, k, v = (_heads(x, num_head) for x in _project(query, key, value, qkv_weight, qkv_bias))
    mask = _attention_mask(mask, mask_type, query.shape[0])
    weights = None
    if need_weights:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        found = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        found = F.scaled_dot_product_attention(q, k, v, mask)
    found = found.transpose(1, 2).reshape(query.shape[0], query.shape[1], embed_dim)
    return F.linear(found, proj_weight, proj_bias), weights


def _transformer_layer(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,
    eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
    ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):
    def attend(x):
        return _multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            need_weights=False, mask_type=mask_type,
        )[0]

    def feed(x):
        x = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(x) if use_gelu else F.relu(x), ffn_weight_2, ffn_bias_2)

    def norm_1(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(norm_1(src))
        return x + feed(norm_2(x))
    x = norm_1(src + attend(src))
    return norm_2(x + feed(x))


def _any(x, *args, **kwargs):
    found = ~torch.all(~x.to(torch.bool), *args, **kwargs)
    return found.to(torch.uint8) if x.dtype == torch.uint8 else found


def _of_all(choose):
    """Without axes, which the exporter wants to have."""
    def decomposed(x, dim=(), keepdim=False):
        if dim:
            return NotImplemented
        return x.clone() if x.ndim == 0 else choose(x, tuple(range(x.ndim)), keepdim)
    return decomposed


def _aminmax(x, *, dim=None, keepdim=False):
    axes = tuple(range(x.ndim)) if dim is None else (dim,)
    return x.amin(axes, keepdim), x.amax(axes, keepdim)


def _sort(x, *, stable=None, dim=-1, descending=False):
    """Of equal elements, ONNX has the first first."""
    return _aten.sort.default(x, dim, descending)


def _take(x, index):
    return x.reshape(-1)[index]


def _sign(x):
    if not x.dtype.is_floating_point:
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def _mean(x, dim, keepdim=False, *, dtype=None):
    """In the wider dtype, and not cast to it behind: that is what it is asked for."""
    return NotImplemented if dtype in (None, x.dtype) else x.to(dtype).mean(dim, keepdim)


def _identity(reduce, dtype):
    """The number that changes no result."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    is_largest = reduce == "amax"
    if dtype.is_floating_point:
        return float("-inf" if is_largest else "inf")
    if dtype == torch.bool:
        return not is_largest
    return torch.iinfo(dtype).min if is_largest else torch.iinfo(dtype).max


def _for_index(values, index):
    """Those that have an index: torch leaves out the others, and ONNX must not be given them."""
    return values if values.shape == index.shape else values[tuple(map(slice, index.shape))]


def _of_indexed(scatter):
    """Without the values that have no index."""
    def decomposed(x, dim, index, values):
        if values.shape == index.shape:
            return NotImplemented
        return scatter(x, dim, index, _for_index(values, index))
    return decomposed


def _scatter_reduce(x, dim, index, values, reduce, *, include_self=True):
    """The exporter copies the last value for a mean, and begins without `x` at finite numbers."""
    if include_self and reduce != "mean" and values.shape == index.shape:
        return NotImplemented
    values = _for_index(values, index)
    begin = x if include_self else x.scatter(dim, index, _identity(reduce, x.dtype))
    if reduce != "mean":
        return begin.scatter_reduce(dim, index, values, reduce)
    ones = torch.ones_like(x)
    counts = ones if include_self else ones.scatter(dim, index, 0)
    counts = counts.scatter_add(dim, index, torch.ones_like(values))
    sums = begin.scatter_add(dim, index, values)
    return torch.div(sums, counts, rounding_mode=None if x.dtype.is_floating_point else "floor")


def _product_alone(product):
    """Of ``addmv`` and its like: what is taken 0 times may be NaN."""
    def add(x, a, b, *, beta=1, alpha=1):
        if beta != 0:
            return NotImplemented
        found = product(a, b)
        return found if alpha == 1 else found * alpha
    return add


def _without_nan(choose):
    """Of ``fmax`` and ``fmin``: NaN only where both are."""
    def decomposed(x, y):
        x, y = (v.to(torch.result_type(x, y)) for v in (x, y))
        found = choose(x, y)
        if not found.dtype.is_floating_point:
            return found
        return torch.where(x.isnan(), y, torch.where(y.isnan(), x, found))
    return decomposed


def _bag_of_each(offsets, count):
    """From where each bag begins: the bag of each index."""
    begins = torch.zeros(count + 1, dtype=offsets.dtype).scatter_add(
        0, offsets, torch.ones_like(offsets)
    )
    return begins[:count].cumsum(0) - 1


def _embedding_bag(
    weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=-1,
):
    """Where nobody asks for gradients. Its other results are for those."""
    offsets = offsets.to(torch.int64)
    bag = _bag_of_each(offsets[:-1] if include_last_offset else offsets, indices.shape[0])
    bags = offsets.shape[0] - include_last_offset
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    takes_part = (indices != padding_idx) if padding_idx >= 0 else torch.ones_like(bag)
    counts = torch.zeros(bags, dtype=torch.int64).scatter_add(0, bag, takes_part.to(torch.int64))
    if padding_idx >= 0:
        rows = rows.masked_fill(~takes_part.unsqueeze(1), float("-inf") if mode == 2 else 0)
    where = bag.unsqueeze(1).expand(rows.shape)
    found = rows.new_zeros(bags, weight.shape[1])
    if mode == 2:
        found = found.scatter_reduce(0, where, rows, "amax", include_self=False)
        found = found.masked_fill(counts.unsqueeze(1) == 0, 0)
    else:
        found = found.scatter_add(0, where, rows)
    if mode == 1:
        found = found / counts.clamp(min=1).unsqueeze(1)
    return found, bag, counts, counts


def _embedding_bag_of_weights(*args):
    """Which torch calls for weights that may have gradients, also where nobody asks for those."""
    return NotImplemented if torch.is_grad_enabled() else _embedding_bag(*args)


TABLE = {
    _aten._native_multi_head_attention.default: _multi_head_attention,
    _aten._transformer_encoder_layer_fwd.default: _transformer_layer,
    _aten._embedding_bag.default: _embedding_bag_of_weights,
    _aten._embedding_bag_forward_only.default: _embedding_bag,
    _aten.addbmm.default: _product_alone(lambda a, b: torch.bmm(a, b).sum(0)),
    _aten.addmv.default: _product_alone(torch.mv),
    _aten.amax.default: _of_all(torch.amax),
    _aten.amin.default: _of_all(torch.amin),
    _aten.aminmax.default: _aminmax,
    _aten.any.default: _any,
    _aten.any.dim: _any,
    _aten.any.dims: _any,
    _aten.baddbmm.default: _product_alone(torch.bmm),
    _aten.fmax.default: _without_nan(torch.maximum),
    _aten.fmin.default: _without_nan(torch.minimum),
    _aten.mean.dim: _mean,
    _aten.scatter.src: _of_indexed(torch.scatter),
    _aten.scatter_add.default: _of_indexed(torch.scatter_add),
    _aten.scatter_reduce.two: _scatter_reduce,
    _aten.sign.default: _sign,
    _aten.sort.stable: _sort,
    _aten.take.default: _take,
    **get_decompositions([
        _aten._native_batch_norm_legit,
        _aten._native_batch_norm_legit_functional,
        _aten._batch_norm_with_update_functional,
        _aten.native_batch_norm,
        _aten.adaptive_max_pool2d,
        _aten.grid_sampler_2d,
    ]),
}


def is_plain_attention(node):
    """Attention without dropout, which is tagged as random all the same."""
    return node.target is _ATTENTION and node.args[4] == 0


def _is_grouped(query, key):
    """Whether several heads of queries share one of keys."""
    query, key = query.meta["val"], key.meta["val"]
    return query.shape[1] != key.shape[1]


def name_attention(graph):
    """The CPU's attention by its general name, which devices have kernels for. Only where nothing
    reads its second result, which is for gradients."""
    for node in graph.find_nodes(op="call_function", target=_CPU_ATTENTION):
        if any(user.args[1] != 0 for user in node.users):
            continue
        query, key, value, *rest = node.args
        dropout, is_causal = (*rest, 0.0, False)[:2] if len(rest) != 1 else (rest[0], False)
        with graph.inserting_before(node):
            general = graph.call_function(
                _ATTENTION,
                (query, key, value, node.kwargs.get("attn_mask"), dropout, is_causal),
                {"scale": node.kwargs.get("scale"), "enable_gqa": _is_grouped(query, key)},
            )
        general.meta = {**node.meta, "val": node.meta["val"][0]}
        for user in list(node.users):
            user.replace_all_uses_with(general)
            graph.erase_node(user)
        graph.erase_node(node)


def drop_statistics(graph):
    """Of a batch norm that is not trained: the exporter computes what torch has empty."""
    for node in graph.find_nodes(op="call_function", target=_UNTRAINED_NORM):
        for user in [user for user in node.users if user.args[1] > 0]:
            value = user.meta["val"]
            with graph.inserting_before(user):
                empty = graph.call_function(
                    _aten.full.default, (list(value.shape), 0), {"dtype": value.dtype}
                )
            empty.meta = dict(user.meta)
            user.replace_all_uses_with(empty)
            graph.erase_node(user)
