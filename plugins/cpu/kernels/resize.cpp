// SPDX-License-Identifier: Apache-2.0
//
// resize. A plan has a table for each dimension: the elements that an output takes, and their
// weights. An output row is made in two steps: the rows of x that it mixes are added up, piece by
// piece, and then each output mixes elements of that sum. Where the last dimensions stay as they
// are, as channels that lie last do, their elements move together. Tables that would be very large
// are not made; elements are then mixed one by one.
#include "backplane/sdk/resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "element.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

using sdk::ResizeAxis;
using sdk::ResizeMode;
using sdk::ResizeRules;

constexpr int64_t kMostEntries = int64_t{1} << 20;  // of a table
constexpr int64_t kPiece = 2048;                    // elements of the sum of rows that are kept
constexpr int64_t kMostInner = 256;                 // of which every piece holds some

struct Table : sdk::ResizeTable {
  Table(const sdk::ResizeRules& rules, const sdk::ResizeAxis& axis)
      : ResizeTable(make_resize_table(rules, axis)), weight_f32(weight.begin(), weight.end()) {}

  std::vector<float> weight_f32;  // the same, for what is computed in f32

  const double* weights(double) const { return weight.data(); }
  const float* weights(float) const { return weight_f32.data(); }
};

// Neighbouring outputs of a row, and the part of the input row that they take, along the last axis.
struct Piece {
  int64_t out_begin;
  int64_t out_end;
  int64_t in_begin;
  int64_t in_end;
};

struct ResizePlan : bp_kernel_plan {
  ResizeRules rules;
  double extrapolation = 0;
  std::vector<ResizeAxis> axes;  // at least one
  bool has_tables = false;
  std::vector<Table> tables;  // one per axis
  std::vector<Piece> pieces;  // of the last axis
  int64_t inner = 1;          // elements that each place of the last axis has
  int64_t repeats = 0;        // how often each place comes, one after another; 0: no such rule
  int64_t in_row = 1;         // elements of the last axis
  int64_t out_row = 1;
  int64_t out_rows = 1;
  int64_t row_cost = 1;
};

// Splits the last axis so that each piece takes at most `most` places. False: one output takes
// more.
bool split(const Table& table, int64_t out, int64_t most, std::vector<Piece>* pieces) {
  const auto range_of = [&](int64_t o) {
    const int32_t* const index = table.index.data() + o * table.taps;
    const auto [least, last] = std::minmax_element(index, index + table.taps);
    return std::pair<int64_t, int64_t>{*least, *last + 1};
  };
  for (int64_t o = 0; o < out; ++o) {
    const auto [begin, end] = range_of(o);
    if (end - begin > most) return false;
    if (!pieces->empty()) {
      Piece& last = pieces->back();
      const int64_t from = std::min(last.in_begin, begin);
      const int64_t to = std::max(last.in_end, end);
      if (to - from <= most) {
        last = {last.out_begin, o + 1, from, to};
        continue;
      }
    }
    pieces->push_back({o, o + 1, begin, end});
  }
  return true;
}

int64_t repeats_of(const Table& table, const ResizeAxis& axis) {
  if (table.taps != 1 || axis.in == 0 || axis.out % axis.in != 0) return 0;
  const int64_t repeats = axis.out / axis.in;
  for (int64_t o = 0; o < axis.out; ++o) {
    if (table.index[static_cast<size_t>(o)] != o / repeats) return 0;
  }
  return repeats;
}

void make_tables(ResizePlan* plan) {
  for (const ResizeAxis& axis : plan->axes) {
    const int64_t entries = sdk::saturating_product({axis.out, axis.tap_count(plan->rules)});
    if (entries > kMostEntries || axis.in > std::numeric_limits<int32_t>::max()) return;
  }
  for (const ResizeAxis& axis : plan->axes) plan->tables.emplace_back(plan->rules, axis);
  const ResizeAxis& last = plan->axes.back();
  plan->has_tables = split(plan->tables.back(), last.out, kPiece / plan->inner, &plan->pieces);
  plan->repeats = repeats_of(plan->tables.back(), last);
}

// Neighbouring axes that stay as they are count as one, and those of one element not at all: each
// axis costs something for every row.
std::vector<ResizeAxis> merged(const std::vector<ResizeAxis>& axes) {
  std::vector<ResizeAxis> result;
  for (const ResizeAxis& axis : axes) {
    if (axis.is_identity() && axis.in == 1) continue;
    if (axis.is_identity() && !result.empty() && result.back().is_identity()) {
      ResizeAxis& last = result.back();
      const int64_t size = sdk::saturating_product({last.in, axis.in});
      if (size <= kMostEntries) {
        last.in = last.out = size;
        continue;
      }
    }
    result.push_back(axis);
  }
  if (result.empty()) result.emplace_back();
  return result;
}

void set_axes(std::vector<ResizeAxis> axes, ResizePlan* plan) {
  plan->axes = std::move(axes);
  plan->inner = 1;
  const ResizeAxis& last = plan->axes.back();
  if (plan->axes.size() > 1 && last.is_identity() && last.in <= kMostInner) {
    plan->inner = last.in;
    plan->axes.pop_back();
  }
  make_tables(plan);
  if (plan->has_tables || plan->inner == 1) return;
  // Without tables, or with places too far apart, elements go one by one.
  plan->axes.push_back({.in = plan->inner, .out = plan->inner});
  plan->inner = 1;
  plan->tables.clear();
  plan->pieces.clear();
  make_tables(plan);
}

std::unique_ptr<ResizePlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_resize_defaults());
  auto plan = std::make_unique<ResizePlan>();
  plan->rules = sdk::read_resize_rules(attrs);
  plan->extrapolation = attrs.extrapolation_value;
  for (const int64_t size : sizes_of(output_info(query))) {
    if (size == 0) plan->out_rows = 0;
  }
  if (plan->out_rows == 0) return plan;
  set_axes(merged(sdk::read_resize_axes(query, attrs)), plan.get());
  plan->in_row = plan->axes.back().in * plan->inner;
  plan->out_row = plan->axes.back().out * plan->inner;
  int64_t taps = 1;
  for (const ResizeAxis& axis : plan->axes) {
    taps = sdk::saturating_product({taps, axis.tap_count(plan->rules)});
    plan->out_rows *= axis.out;
  }
  plan->out_rows /= plan->axes.back().out;
  plan->row_cost = std::max<int64_t>(1, sdk::saturating_product({plan->out_row, taps}));
  return plan;
}

// ---- one output row ----

// The position of an output row along all axes but the last.
using RowAt = std::array<int64_t, BP_MAX_RANK>;

RowAt row_at(const ResizePlan& plan, int64_t row) {
  RowAt at{};
  for (size_t i = plan.axes.size() - 1; i-- > 0;) {
    at[i] = row % plan.axes[i].out;
    row /= plan.axes[i].out;
  }
  return at;
}

void advance(const ResizePlan& plan, RowAt* at) {
  for (size_t i = plan.axes.size() - 1; i-- > 0;) {
    if (++(*at)[i] < plan.axes[i].out) return;
    (*at)[i] = 0;
  }
}

bool is_outside(const ResizePlan& plan, const RowAt& at) {
  for (size_t i = 0; i + 1 < plan.axes.size(); ++i) {
    const auto& outside = plan.tables[i].outside;
    if (!outside.empty() && outside[static_cast<size_t>(at[i])] != 0) return true;
  }
  return false;
}

// Calls visit(first element of a row of x, weight) for the rows that an output row mixes.
template <class C, class Visit>
void for_each_in_row(const ResizePlan& plan, const RowAt& at, const Visit& visit) {
  const size_t count = plan.axes.size() - 1;
  RowAt tap{};
  for (;;) {
    int64_t row = 0;
    C weight{1};
    for (size_t i = 0; i < count; ++i) {
      const Table& table = plan.tables[i];
      const int64_t entry = at[i] * table.taps + tap[i];
      row = row * plan.axes[i].in + table.index[static_cast<size_t>(entry)];
      weight *= table.weights(C{})[entry];
    }
    visit(row * plan.in_row, weight);
    size_t i = count;
    while (i > 0 && ++tap[i - 1] == plan.tables[i - 1].taps) tap[--i] = 0;
    if (i == 0) return;
  }
}

template <class C>
void mix(const Table& table, const Piece& piece, const C* sums, C* out) {
  const C* const weight = table.weights(C{}) + piece.out_begin * table.taps;
  const int32_t* const index = table.index.data() + piece.out_begin * table.taps;
  const int64_t count = piece.out_end - piece.out_begin;
  const C* const from = sums - piece.in_begin;
  if (table.taps == 2) {
    for (int64_t o = 0; o < count; ++o) {
      out[o] = weight[2 * o] * from[index[2 * o]] + weight[2 * o + 1] * from[index[2 * o + 1]];
    }
    return;
  }
  for (int64_t o = 0; o < count; ++o) {
    C sum{0};
    for (int64_t k = 0; k < table.taps; ++k) {
      sum += weight[o * table.taps + k] * from[index[o * table.taps + k]];
    }
    out[o] = sum;
  }
}

// The same for places of `inner` elements.
template <class C>
void mix_places(const Table& table, const Piece& piece, int64_t inner, const C* sums, C* out) {
  const C* weight = table.weights(C{}) + piece.out_begin * table.taps;
  const int32_t* index = table.index.data() + piece.out_begin * table.taps;
  const auto place = [&](int64_t k) { return sums + (index[k] - piece.in_begin) * inner; };
  for (int64_t o = piece.out_begin; o < piece.out_end; ++o) {
    if (table.taps == 2) {
      const C* const first = place(0);
      const C* const second = place(1);
      for (int64_t i = 0; i < inner; ++i) out[i] = weight[0] * first[i] + weight[1] * second[i];
    } else {
      std::fill_n(out, inner, C{0});
      for (int64_t k = 0; k < table.taps; ++k) {
        const C* const from = place(k);
        for (int64_t i = 0; i < inner; ++i) out[i] += weight[k] * from[i];
      }
    }
    weight += table.taps;
    index += table.taps;
    out += inner;
  }
}

template <class T>
T rounded(std::conditional_t<std::is_integral_v<T>, double, Compute<T>> value) {
  if constexpr (std::is_same_v<T, bool>) {
    return std::nearbyint(value) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return 0;
    const double whole = std::nearbyint(value);
    constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
    constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
    if (whole <= kLeast) return std::numeric_limits<T>::min();
    return whole >= kMost ? std::numeric_limits<T>::max() : static_cast<T>(whole);
  } else {
    return store<T>(value);
  }
}

template <class T>
void extrapolate(const ResizePlan& plan, T value, T* y) {
  const auto& outside = plan.tables.back().outside;
  for (size_t o = 0; o < outside.size(); ++o) {
    if (outside[o] != 0) std::fill_n(y + static_cast<int64_t>(o) * plan.inner, plan.inner, value);
  }
}

template <class T>
struct Mixing {
  using C = std::conditional_t<std::is_integral_v<T>, double, Compute<T>>;

  static void mix_piece(const ResizePlan& plan, const RowAt& at, const Piece& piece, const T* x,
                        T* y) {
    C sums[kPiece];
    const int64_t inner = plan.inner;
    const int64_t width = (piece.in_end - piece.in_begin) * inner;
    bool first = true;
    for_each_in_row<C>(plan, at, [&](int64_t start, C weight) {
      const T* const row = x + start + piece.in_begin * inner;
      if (first) {
        for (int64_t i = 0; i < width; ++i) sums[i] = weight * static_cast<C>(load(row[i]));
      } else {
        for (int64_t i = 0; i < width; ++i) sums[i] += weight * static_cast<C>(load(row[i]));
      }
      first = false;
    });
    if (plan.repeats == 1) {  // nothing to mix
      T* const out = y + piece.out_begin * inner;
      for (int64_t i = 0; i < width; ++i) out[i] = rounded<T>(sums[i]);
      return;
    }
    C mixed[kMostInner];
    const int64_t tile_places = kMostInner / inner;
    for (int64_t o = piece.out_begin; o < piece.out_end; o += tile_places) {
      const Piece tile{o, std::min(o + tile_places, piece.out_end), piece.in_begin, piece.in_end};
      if (inner == 1) {
        mix(plan.tables.back(), tile, sums, mixed);
      } else {
        mix_places(plan.tables.back(), tile, inner, sums, mixed);
      }
      const int64_t count = (tile.out_end - o) * inner;
      for (int64_t i = 0; i < count; ++i) y[o * inner + i] = rounded<T>(mixed[i]);
    }
  }

  static void row(const ResizePlan& plan, const RowAt& at, const T* x, T* y) {
    const T extrapolated = rounded<T>(static_cast<C>(plan.extrapolation));
    if (is_outside(plan, at)) {
      std::fill_n(y, plan.out_row, extrapolated);
      return;
    }
    for (const Piece& piece : plan.pieces) mix_piece(plan, at, piece, x, y);
    extrapolate(plan, extrapolated, y);
  }

  // Without tables.
  static C element(const ResizePlan& plan, const std::array<double, BP_MAX_RANK>& places,
                   size_t axis, const T* x, int64_t index) {
    if (axis == plan.axes.size()) return static_cast<C>(load(x[index]));
    const ResizeAxis& here = plan.axes[axis];
    if (here.is_identity()) {
      const auto at = static_cast<int64_t>(places[axis]);
      return element(plan, places, axis + 1, x, index * here.in + at);
    }
    C sum{0};
    here.for_each_tap(plan.rules, places[axis], [&](int64_t at, double weight) {
      sum += static_cast<C>(weight) * element(plan, places, axis + 1, x, index * here.in + at);
    });
    return sum;
  }

  static void run(const ResizePlan& plan, void* y_data, const void* x_data, int64_t begin,
                  int64_t end) {
    const T* const x = static_cast<const T*>(x_data);
    T* const y = static_cast<T*>(y_data);
    RowAt at = row_at(plan, begin);
    for (int64_t r = begin; r < end; ++r, advance(plan, &at)) {
      if (plan.has_tables) {
        row(plan, at, x, y + r * plan.out_row);
        continue;
      }
      for_each_place(plan, at, [&](int64_t o, const auto& places, bool outside) {
        y[r * plan.out_row + o] = rounded<T>(outside ? static_cast<C>(plan.extrapolation)
                                                     : element(plan, places, 0, x, 0));
      });
    }
  }

  // Calls visit(o, places, outside) for the outputs of a row.
  template <class Visit>
  static void for_each_place(const ResizePlan& plan, RowAt at, const Visit& visit) {
    for (int64_t o = 0; o < plan.out_row; ++o) {
      at[plan.axes.size() - 1] = o;
      std::array<double, BP_MAX_RANK> places{};
      bool outside = false;
      for (size_t i = 0; i < plan.axes.size(); ++i) {
        const ResizeAxis& axis = plan.axes[i];
        places[i] = axis.is_identity() ? static_cast<double>(at[i]) : axis.place(plan.rules, at[i]);
        outside = outside || axis.is_outside(plan.rules, places[i]);
      }
      visit(o, places, outside);
    }
  }
};

// ---- mode nearest, which moves elements of any type ----

template <class T>
void move_one_by_one(const ResizePlan& plan, const RowAt& at, T extrapolated, const T* x, T* y) {
  Mixing<float>::for_each_place(plan, at, [&](int64_t o, const auto& places, bool outside) {
    int64_t index = 0;
    for (size_t i = 0; i < plan.axes.size() && !outside; ++i) {
      const ResizeAxis& axis = plan.axes[i];
      index = index * axis.in + (axis.is_identity() ? static_cast<int64_t>(places[i])
                                                    : axis.nearest(plan.rules, places[i]));
    }
    y[o] = outside ? extrapolated : x[index];
  });
}

// The first element of the row that a row of y comes from.
int64_t source_of(const ResizePlan& plan, const RowAt& at) {
  int64_t row = 0;
  for (size_t i = 0; i + 1 < plan.axes.size(); ++i) {
    row = row * plan.axes[i].in + plan.tables[i].index[static_cast<size_t>(at[i])];
  }
  return row * plan.in_row;
}

// A row of y from the row x.
template <class T>
void move_row(const ResizePlan& plan, const T* x, T* y) {
  const int64_t count = plan.axes.back().out;
  if (plan.repeats == 1) {
    std::copy_n(x, plan.out_row, y);
  } else if (plan.inner == 1 && plan.repeats == 2) {
    for (int64_t i = 0; i < count / 2; ++i) y[2 * i] = y[2 * i + 1] = x[i];
  } else if (plan.inner == 1) {
    const int32_t* const index = plan.tables.back().index.data();
    for (int64_t o = 0; o < count; ++o) y[o] = x[index[o]];
  } else {
    const int32_t* const index = plan.tables.back().index.data();
    for (int64_t o = 0; o < count; ++o) {
      std::copy_n(x + index[o] * plan.inner, plan.inner, y + o * plan.inner);
    }
  }
}

template <class T>
void move_rows(const ResizePlan& plan, T extrapolated, void* y_data, const void* x_data,
               int64_t begin, int64_t end) {
  const T* const x = static_cast<const T*>(x_data);
  RowAt at = row_at(plan, begin);
  int64_t last_start = -1;
  const T* last_row = nullptr;
  for (int64_t r = begin; r < end; ++r, advance(plan, &at)) {
    T* const y = static_cast<T*>(y_data) + r * plan.out_row;
    if (!plan.has_tables) {
      move_one_by_one(plan, at, extrapolated, x, y);
      continue;
    }
    if (is_outside(plan, at)) {
      std::fill_n(y, plan.out_row, extrapolated);
      continue;
    }
    const int64_t start = source_of(plan, at);
    if (start == last_start) {  // the row before came from there too
      std::copy_n(last_row, plan.out_row, y);
      continue;
    }
    move_row(plan, x + start, y);
    extrapolate(plan, extrapolated, y);
    last_start = start;
    last_row = y;
  }
}

template <class T>
struct Moving {
  static void run(const ResizePlan& plan, void* y_data, const void* x_data, int64_t begin,
                  int64_t end) {
    using C = typename Mixing<T>::C;
    move_rows<T>(plan, rounded<T>(static_cast<C>(plan.extrapolation)), y_data, x_data, begin, end);
  }
};

template <template <class> class Kernel>
constexpr auto any_table() {
  auto table = number_table<Kernel>();
  table[BP_DTYPE_BOOL] = &Kernel<bool>::run;
  return table;
}

constexpr auto kMixing = any_table<Mixing>();
constexpr auto kMoving = any_table<Moving>();

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ResizePlan*>(args.plan);
  if (plan.out_rows == 0) return BP_OK;
  const bp_tensor& x = input_of(args, 0);
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  const auto run = (plan.rules.mode == ResizeMode::kNearest ? kMoving : kMixing)[x.dtype];
  args.device->workers.for_ranges(
      plan.out_rows, plan.row_cost,
      [&](int64_t begin, int64_t end) noexcept { run(plan, y_data, x_data, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes};

constexpr bp_arg_rule kDevice{.struct_size = sizeof(bp_arg_rule),
                              .flags = 0,
                              .strides = BP_STRIDES_CONTIGUOUS,
                              .alignment_bytes = 0};
constexpr bp_arg_rule kHost{.struct_size = sizeof(bp_arg_rule),
                            .flags = BP_ARG_HOST_AT_PLAN_BIT,
                            .strides = BP_STRIDES_CONTIGUOUS,
                            .alignment_bytes = 0};
constexpr const bp_arg_rule* kRules[] = {&kDevice, &kHost, &kHost, &kHost};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "resize_tables",
                   .op = "resize",
                   .dtypes = kMasks,
                   .arg_rules = kRules,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_HOST_DATA_BIT,
                   .plan = plan_slot<ResizePlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(resize, kKernels);

}  // namespace bp::cpu
