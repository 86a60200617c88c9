// SPDX-License-Identifier: Apache-2.0
//
// The operators of the mock in plain loops over contiguous arrays, and what each of them can do.
// Numbers are attribute ids of ops/defs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/sketches/executable_mock/program.hpp"

namespace bp::sketch {
namespace {

using Args = std::span<const Array>;

void relu(const ProgramNode&, Args args, DataFault*) {
  for (int64_t i = 0; i < args[1].count(); ++i) {
    const float x = args[0].f32()[i];
    args[1].f32()[i] = x < 0 ? 0 : x;
  }
}

void flatten(const ProgramNode&, Args args, DataFault*) {
  std::memcpy(args[1].data, args[0].data, static_cast<size_t>(args[1].count()) * sizeof(float));
}

void add(const ProgramNode&, Args args, DataFault*) {
  for (int64_t i = 0; i < args[2].count(); ++i) {
    args[2].f32()[i] = args[0].f32()[i] + args[1].f32()[i];
  }
}

/// A walk over windows of [N, C, H, W]: where each begins, and its size.
struct Window {
  int64_t height, width, stride_y, stride_x, top, left;

  Window(const ProgramNode& node, Sizes kernel, uint32_t strides_id, uint32_t pads_id) {
    const Sizes strides = node.i64s(strides_id, {1, 1});
    const Sizes pads = node.i64s(pads_id, {0, 0, 0, 0});
    height = kernel[0];
    width = kernel[1];
    stride_y = strides[0];
    stride_x = strides[1];
    top = pads[0];
    left = pads[1];
  }

  /// Calls visit(y, x, ky, kx) for each place of window (oy, ox) that is inside the image.
  template <class Visit>
  void inside(int64_t oy, int64_t ox, int64_t h, int64_t w, const Visit& visit) const {
    for (int64_t ky = 0; ky < height; ++ky) {
      for (int64_t kx = 0; kx < width; ++kx) {
        const int64_t y = oy * stride_y - top + ky;
        const int64_t x = ox * stride_x - left + kx;
        if (y >= 0 && y < h && x >= 0 && x < w) visit(y, x, ky, kx);
      }
    }
  }
};

/// Calls visit(plane, oy, ox) for each element of y [N, C, H, W], where plane is n * C + c.
template <class Visit>
void for_each_pixel(const Array& y, const Visit& visit) {
  for (int64_t plane = 0; plane < y.sizes[0] * y.sizes[1]; ++plane) {
    for (int64_t oy = 0; oy < y.sizes[2]; ++oy) {
      for (int64_t ox = 0; ox < y.sizes[3]; ++ox) visit(plane, oy, ox);
    }
  }
}

void conv(const ProgramNode& node, Args args, DataFault*) {
  const Array& x = args[0];
  const Array& w = args[1];
  const Array& y = args.back();
  const float* const bias = node.input_count > 2 ? args[2].f32() : nullptr;
  const Window window(node, {w.sizes[2], w.sizes[3]}, 1, 2);
  const int64_t channels = x.sizes[1], h = x.sizes[2], width = x.sizes[3];
  float* out = y.f32();
  for_each_pixel(y, [&](int64_t plane, int64_t oy, int64_t ox) {
    const int64_t n = plane / y.sizes[1];
    const int64_t m = plane % y.sizes[1];
    float sum = bias != nullptr ? bias[m] : 0;
    for (int64_t c = 0; c < channels; ++c) {
      const float* const image = x.f32() + (n * channels + c) * h * width;
      const float* const kernel = w.f32() + (m * channels + c) * window.height * window.width;
      window.inside(oy, ox, h, width, [&](int64_t yy, int64_t xx, int64_t ky, int64_t kx) {
        sum += image[yy * width + xx] * kernel[ky * window.width + kx];
      });
    }
    *out++ = sum;
  });
}

void max_pool(const ProgramNode& node, Args args, DataFault*) {
  const Array& x = args[0];
  const Window window(node, node.i64s(1, {1, 1}), 2, 3);
  const int64_t h = x.sizes[2], w = x.sizes[3];
  float* out = args[1].f32();
  for_each_pixel(args[1], [&](int64_t plane, int64_t oy, int64_t ox) {
    float best = -std::numeric_limits<float>::infinity();
    window.inside(oy, ox, h, w, [&](int64_t yy, int64_t xx, int64_t, int64_t) {
      const float value = x.f32()[(plane * h + yy) * w + xx];
      if (value > best || std::isnan(value)) best = value;
    });
    *out++ = best;
  });
}

void batch_norm(const ProgramNode& node, Args args, DataFault*) {
  const Array& x = args[0];
  const auto epsilon = static_cast<float>(node.f64(1, 1e-5));
  const int64_t channels = x.sizes[1];
  const int64_t inner = channels == 0 ? 0 : x.count() / std::max<int64_t>(x.sizes[0], 1) / channels;
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t c = i / inner % channels;
    const float scale = args[1].f32()[c] / std::sqrt(args[4].f32()[c] + epsilon);
    args[5].f32()[i] = (x.f32()[i] - args[3].f32()[c]) * scale + args[2].f32()[c];
  }
}

/// y [M, N] = alpha a b' + beta c, with c of size N.
void gemm(const ProgramNode& node, Args args, DataFault*) {
  const Array& y = args.back();
  const int64_t columns = y.sizes[1], inner = args[0].sizes[1];
  const auto alpha = static_cast<float>(node.f64(1, 1)), beta = static_cast<float>(node.f64(2, 1));
  const bool transposed = node.i64(4, 0) != 0;
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t row = i / columns, column = i % columns;
    float sum = 0;
    for (int64_t k = 0; k < inner; ++k) {
      const float b = args[1].f32()[transposed ? column * inner + k : k * columns + column];
      sum += args[0].f32()[row * inner + k] * b;
    }
    const float c = node.input_count > 2 ? beta * args[2].f32()[column] : 0;
    y.f32()[i] = alpha * sum + c;
  }
}

void softmax(const ProgramNode&, Args args, DataFault*) {
  const int64_t width = args[0].sizes.back();
  for (int64_t first = 0; first < args[0].count(); first += width) {
    const float* const x = args[0].f32() + first;
    float* const y = args[1].f32() + first;
    const float top = *std::max_element(x, x + width);
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += y[i] = std::exp(x[i] - top);
    for (int64_t i = 0; i < width; ++i) y[i] /= sum;
  }
}

void gather(const ProgramNode&, Args args, DataFault* fault) {
  const int64_t extent = args[0].sizes[0];
  const int64_t inner = extent == 0 ? 0 : args[0].count() / extent;
  for (int64_t i = 0; i < args[1].count(); ++i) {
    const int64_t given = args[1].i64()[i];
    const int64_t index = given < 0 ? given + extent : given;
    if ((index < 0 || index >= extent) && !fault->found) *fault = {1, given, extent, true};
    const int64_t clamped = std::clamp<int64_t>(index, 0, extent - 1);
    std::copy_n(args[0].f32() + clamped * inner, inner, args[2].f32() + i * inner);
  }
}

bool all_ones(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
}

struct Offer {
  std::string_view op;
  Compute compute;
  uint32_t inputs_min, inputs_max, x_rank;  // x_rank 0: any
  uint32_t highest_attribute_id;
  bool (*fits)(const ProgramNode& node);
};

bool any(const ProgramNode&) { return true; }

constexpr Offer kOffers[] = {
    {"relu", relu, 1, 1, 0, 0, any},
    {"add", add, 2, 2, 0, 0, any},
    {"flatten", flatten, 1, 1, 0, 1, any},
    {"batch_norm", batch_norm, 5, 5, 0, 1, any},
    {"conv", conv, 2, 3, 4, 4,
     [](const ProgramNode& n) { return all_ones(n.i64s(3, {})) && n.i64(4, 1) == 1; }},
    {"max_pool", max_pool, 1, 1, 4, 5,
     [](const ProgramNode& n) { return all_ones(n.i64s(4, {})) && n.i64(5, 0) == 0; }},
    {"gemm", gemm, 2, 3, 2, 4, [](const ProgramNode& n) { return n.i64(3, 0) == 0; }},
    {"softmax", softmax, 1, 1, 2, 1,
     [](const ProgramNode& n) { return n.i64(1, -1) == -1 || n.i64(1, -1) == 1; }},
    {"gather", gather, 2, 2, 0, 1, [](const ProgramNode& n) { return n.i64(1, 0) == 0; }},
};

bool types_fit(const Program& program, const ProgramNode& node) {
  for (size_t i = 0; i < node.values.size(); ++i) {
    if (node.values[i] == BP_IMAGE_NO_VALUE) return false;
    const ProgramValue& value = program.values[node.values[i]];
    const bool is_index = node.op == "gather" && i == 1;
    if (value.dtype != (is_index ? BP_DTYPE_I64 : BP_DTYPE_F32)) return false;
    if (std::count(value.sizes.begin(), value.sizes.end(), -1) > 0) return false;
    const bool is_broadcast =
        node.op == "add" && value.sizes != program.values[node.values[0]].sizes;
    if (is_broadcast) return false;
  }
  return true;
}

}  // namespace

Compute find_compute(const Program& program, const ProgramNode& node, const char** out_reason) {
  const auto offer = std::find_if(std::begin(kOffers), std::end(kOffers),
                                  [&](const Offer& other) { return other.op == node.op; });
  const auto refuse_with = [&](const char* reason) -> Compute {
    *out_reason = reason;
    return nullptr;
  };
  if (offer == std::end(kOffers)) return refuse_with("an operator that the chip does not have");
  if (node.input_count < offer->inputs_min || node.input_count > offer->inputs_max ||
      node.values.size() != node.input_count + 1u) {
    return refuse_with("a number of arguments that the chip does not know");
  }
  if (!types_fit(program, node)) return refuse_with("dtypes or sizes that the chip does not know");
  const size_t x_rank = program.values[node.values[0]].sizes.size();
  if (x_rank == 0 || (offer->x_rank != 0 && offer->x_rank != x_rank)) {
    return refuse_with("a rank that the chip does not know");
  }
  const bool known_ids =
      node.attributes.empty() || node.attributes.rbegin()->first <= offer->highest_attribute_id;
  if (!known_ids || !offer->fits(node)) {
    return refuse_with("attributes that the chip does not know");
  }
  return offer->compute;
}

}  // namespace bp::sketch
