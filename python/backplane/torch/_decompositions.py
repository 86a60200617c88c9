# SPDX-License-Identifier: Apache-2.0
"""Operators as others, where the exporter does not know them, or has other values for them.

In eval mode torch.nn takes a transformer layer as one operator of its own, and attention as the
kernel of the CPU. The exporter does not know them. It takes batch norms for those of a model that
is not trained, knows no ``any`` of nothing, and leaves the sign of NaN to ONNX, where it is not 0.
"""

import torch
import torch.nn.functional as F
from torch._decomp import get_decompositions

_aten = torch.ops.aten
_ATTENTION = _aten.scaled_dot_product_attention.default
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


def _sign(x):
    if not x.dtype.is_floating_point:
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


TABLE = {
    _aten._native_multi_head_attention.default: _multi_head_attention,
    _aten._transformer_encoder_layer_fwd.default: _transformer_layer,
    _aten.any.default: _any,
    _aten.any.dim: _any,
    _aten.any.dims: _any,
    _aten.sign.default: _sign,
    **get_decompositions([
        _aten._native_batch_norm_legit,
        _aten._native_batch_norm_legit_functional,
        _aten._batch_norm_with_update_functional,
        _aten.native_batch_norm,
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
