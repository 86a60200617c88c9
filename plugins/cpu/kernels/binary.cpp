// SPDX-License-Identifier: Apache-2.0
//
// add, sub, mul, div and max on all number types, with broadcasting and any strides. Half types are
// computed in f32 and rounded once.
#include "element.hpp"
#include "elementwise.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

struct Add {
  template <class C>
  static C apply(C a, C b) {
    return a + b;
  }
};
struct Sub {
  template <class C>
  static C apply(C a, C b) {
    return a - b;
  }
};
struct Mul {
  template <class C>
  static C apply(C a, C b) {
    return a * b;
  }
};
struct Div {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (!std::is_floating_point_v<C>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<C>) {
        // The quotient of the smallest value by -1 does not exist; it wraps to that value.
        if (b == -1) return static_cast<C>(Wrapping<C>{0} - static_cast<Wrapping<C>>(a));
      }
      return static_cast<C>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Max {
  template <class C>
  static C apply(C a, C b) {
    return larger(a, b);
  }
};

// Separate loops where a stride is known: the compiler makes vector code of them.
template <class T, class Function>
void for_row(T* y, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t count,
             const Function& function) {
  if (a_stride == 1 && b_stride == 1) {
    for (int64_t i = 0; i < count; ++i) y[i] = function(a[i], b[i]);
  } else if (a_stride == 1 && b_stride == 0) {
    const T value = b[0];
    for (int64_t i = 0; i < count; ++i) y[i] = function(a[i], value);
  } else if (a_stride == 0 && b_stride == 1) {
    const T value = a[0];
    for (int64_t i = 0; i < count; ++i) y[i] = function(value, b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = function(a[i * a_stride], b[i * b_stride]);
  }
}

// Exact: computed in the element's own type.
template <class Op>
struct Exact {
  template <class T>
  struct Of {
    static void run(void* y, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
                    int64_t count) {
      for_row(static_cast<T*>(y), static_cast<const T*>(a), a_stride, static_cast<const T*>(b),
              b_stride, count, [](const T& left, const T& right) {
                return store<T>(Op::apply(load(left), load(right)));
              });
    }
  };
};

// Integers wrap: computed in an unsigned type that is not narrower.
template <class Op>
struct Wrapped {
  template <class T>
  struct Of {
    static void run(void* y, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
                    int64_t count) {
      using W = Wrapping<T>;
      for_row(static_cast<T*>(y), static_cast<const T*>(a), a_stride, static_cast<const T*>(b),
              b_stride, count, [](const T& left, const T& right) {
                const W result = Op::apply(static_cast<W>(load(left)), static_cast<W>(load(right)));
                return store<T>(static_cast<Compute<T>>(result));
              });
    }
  };
};

constexpr auto kAddRows = wrapping_table<Wrapped<Add>::Of>();
constexpr auto kSubRows = wrapping_table<Wrapped<Sub>::Of>();
constexpr auto kMulRows = wrapping_table<Wrapped<Mul>::Of>();
constexpr auto kDivRows = number_table<Exact<Div>::Of>();
constexpr auto kMaxRows = number_table<Exact<Max>::Of>();

template <const DtypeTable<BinaryRow>& Rows, int64_t ItemCost>
bp_status launch(const bp_launch_args& args) {
  return run_binary(args, Rows[output_of(args).dtype], ItemCost);
}

constexpr uint64_t kMasks[] = {kNumberTypes};

template <const DtypeTable<BinaryRow>& Rows, int64_t ItemCost>
constexpr bp_kernel binary_kernel(std::string_view name, std::string_view op) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .launch = launch_slot<launch<Rows, ItemCost>>});
}

constexpr bp_kernel kKernels[] = {
    binary_kernel<kAddRows, 1>("add_loop", "add"), binary_kernel<kSubRows, 1>("sub_loop", "sub"),
    binary_kernel<kMulRows, 1>("mul_loop", "mul"), binary_kernel<kDivRows, 4>("div_loop", "div"),
    binary_kernel<kMaxRows, 1>("max_loop", "max")};

}  // namespace

BP_SDK_KERNELS(binary, kKernels);

}  // namespace bp::cpu
