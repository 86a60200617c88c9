// SPDX-License-Identifier: Apache-2.0
//
// Rows of any strides and of half types by way of loops that know neither (run_by_dense in
// elementwise.hpp): each expression then is one loop per instruction set, f32 and f64, and what
// differs is done here once for all of them, in buffers that stay in the first cache.
#include <algorithm>

#include "cast_halves.hpp"
#include "element.hpp"
#include "elementwise.hpp"
#include "math/convert.hpp"
#include "math/copies.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kPart = 512;  // elements of one buffer

struct Buffer {
  alignas(64) std::byte bytes[kPart * sizeof(double)];
};

template <class T>
void gather(void* to_data, const void* from_data, int64_t stride, int64_t count) {
  T* const to = static_cast<T*>(to_data);
  const T* const from = static_cast<const T*>(from_data);
  if (stride == 0) {
    std::fill_n(to, count, from[0]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

using Gather = void (*)(void*, const void*, int64_t, int64_t);
Gather gather_of(int64_t bytes) {
  if (bytes == 1) return gather<uint8_t>;
  if (bytes == 2) return gather<uint16_t>;
  return bytes == 4 ? gather<uint32_t> : gather<uint64_t>;
}

int64_t bytes_of(uint32_t dtype) { return is_half(dtype) ? 2 : dtype == BP_DTYPE_F64 ? 8 : 4; }

// One input's elements, as `dense` takes them: where they lie, or in a buffer.
class Input {
 public:
  Input(const MapRow& row, size_t index)
      : from_(static_cast<const std::byte*>(row.inputs[index])),
        stride_(row.strides[index]),
        is_bool_((row.form->bool_inputs >> index & 1u) != 0),
        dtype_(row.form->dtype),
        bytes_(is_bool_ ? 1 : bytes_of(dtype_)) {}

  const void* part(int64_t begin, int64_t count, Buffer* buffer) const {
    const std::byte* at = from_ + begin * stride_ * bytes_;
    const bool widens = !is_bool_ && is_half(dtype_);
    if (stride_ == 0 && begin > 0) return buffer->bytes;  // the first part has filled it
    Buffer halves;
    if (stride_ != 1) {
      std::byte* const to = widens ? halves.bytes : buffer->bytes;
      gather_of(bytes_)(to, at, stride_, count);
      at = to;
    }
    if (!widens) return at;
    widen_halves(dtype_, at, reinterpret_cast<float*>(buffer->bytes), count);
    return buffer->bytes;
  }

 private:
  const std::byte* from_;
  int64_t stride_;
  bool is_bool_;
  uint32_t dtype_;
  int64_t bytes_;
};

}  // namespace

void run_by_dense(const MapRow& row) {
  const MapForm& form = *row.form;
  const bool narrows = is_half(form.dtype) && !form.gives_bool;
  const bool streams = form.past_cache && !narrows && !form.gives_bool;
  bool is_dense = !is_half(form.dtype) && !streams;
  size_t input_count = 0;
  for (; input_count < kMaxMapInputs && row.inputs[input_count] != nullptr; ++input_count) {
    is_dense = is_dense && (row.strides[input_count] == 1 || row.count == 1);
  }
  if (is_dense) return form.dense(row);
  Buffer buffers[kMaxMapInputs];
  Buffer result;
  MapRow part = row;
  std::fill_n(part.strides, kMaxMapInputs, 1);
  const int64_t y_bytes = form.gives_bool ? 1 : bytes_of(form.dtype);
  for (int64_t begin = 0; begin < row.count; begin += kPart) {
    part.count = std::min(kPart, row.count - begin);
    for (size_t i = 0; i < input_count; ++i) {
      part.inputs[i] = Input(row, i).part(begin, part.count, &buffers[i]);
    }
    std::byte* const y = static_cast<std::byte*>(row.y) + begin * y_bytes;
    part.y = narrows || streams ? result.bytes : y;
    form.dense(part);
    if (narrows) {
      narrow_halves(form.dtype, reinterpret_cast<const float*>(result.bytes), y, part.count);
    } else if (streams) {
      stream_copy(y, result.bytes, part.count * y_bytes);
    }
  }
}

}  // namespace bp::cpu
