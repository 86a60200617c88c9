// SPDX-License-Identifier: Apache-2.0
//
// A lookup that is right until device_fault names what is wrong with it. Part of
// fake_wrong_kernels.hpp, whose is_wrong() and read() it takes.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_WRONG_GATHER_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_WRONG_GATHER_HPP

namespace {

template <class T>
T* values_of(const bp_tensor& tensor) {
  return reinterpret_cast<T*>(tensor.handle + tensor.offset_bytes);
}

int64_t product(const int64_t* begin, const int64_t* end) {
  int64_t all = 1;
  for (; begin != end; ++begin) all *= *begin;
  return all;
}

/// The index in range; one that is not is told.
int64_t checked_index(const bp_launch_args& args, int64_t index, int64_t extent) {
  if (is_wrong(args, "gather_cuts_indices")) index = static_cast<int32_t>(index);
  if (index >= 0 && index < extent) return index;
  if (index < 0 && index >= -extent) return index + extent;
  bp_fault_word* const fault =
      reinterpret_cast<bp_fault_word*>(args.fault.handle + args.fault.offset_bytes);
  fault->code = is_wrong(args, "gather_new_fault") ? 77 : BP_FAULT_INDEX;
  fault->input = is_wrong(args, "gather_odd_input") ? 999 : 1;
  fault->op_seq = args.op_seq;
  fault->index = index;
  fault->extent = extent;
  if (is_wrong(args, "gather_no_fault")) fault->index = extent - 1;
  if (is_wrong(args, "gather_below_nothing")) fault->extent = -1;
  if (is_wrong(args, "gather_tells_zeros")) fault->index = fault->extent = 0;
  if (is_wrong(args, "gather_faults_behind")) fault[1].code = BP_FAULT_INDEX;
  return index < 0 ? 0 : extent - 1;
}

void wrong_gather(const bp_launch_args& args) {
  const bp_tensor& x = args.tensors[0];
  const bp_tensor& indices = args.tensors[1];
  const bp_tensor& out = args.tensors[2];
  const bool is_long = indices.dtype == BP_DTYPE_I64;
  const uint64_t bytes = bp::sdk::dtype_bytes(x.dtype);
  const auto out_bytes = static_cast<uint64_t>(bp::sdk::element_count(out)) * bytes;
  if (out_bytes == 0) return;
  if (is_wrong(args, "gather_zeros_a_pair") && x.dtype == BP_DTYPE_F32 && is_long) {
    std::memset(values_of<char>(out), 0, out_bytes);
    return;
  }
  int64_t axis = bp::sdk::read_attributes(args.attributes, bp_attrs_gather_defaults()).axis;
  if (axis < 0) axis += x.rank;
  const int64_t extent = x.sizes[axis];
  const int64_t outer = product(x.sizes, x.sizes + axis);
  const int64_t count = bp::sdk::element_count(indices);
  const int64_t inner = product(x.sizes + axis + 1, x.sizes + x.rank) * static_cast<int64_t>(bytes);
  for (int64_t i = 0; i < outer * count; ++i) {
    const int64_t index =
        is_long ? values_of<int64_t>(indices)[i % count] : values_of<int32_t>(indices)[i % count];
    const int64_t from = i / count * extent + checked_index(args, index, extent);
    std::memcpy(values_of<char>(out) + i * inner, values_of<char>(x) + from * inner,
                static_cast<size_t>(inner));
  }
}

void wrong_gather_of_host(const bp_launch_args& args) {
  const bp_tensor& indices = args.tensors[1];
  wrong_gather(args);
  const auto bytes =
      static_cast<uint64_t>(bp::sdk::element_count(indices)) * bp::sdk::dtype_bytes(indices.dtype);
  if (is_wrong(args, "gather_reads_behind_host")) {
    read(values_of<float>(indices) + bytes / sizeof(float));
  }
}

}  // namespace

#endif
