// SPDX-License-Identifier: Apache-2.0
//
// The values of one case, as write_case.py writes them: lines of text, and after a tensor's line
// its bytes, contiguous, in this machine's order.
//
//   tolerance RELATIVE ABSOLUTE RMS   RMS: in units of the expected tensor's root mean square
//   option NAME VALUE                 for the session: a symbolic dimension's size
//   set                               begins one set of inputs and outputs
//   input DTYPE RANK SIZE... NAME     DTYPE: a code of backplane/types.h
//   output DTYPE RANK SIZE... NAME
#ifndef BACKPLANE_TESTS_ONNX_VALUES_FILE_HPP
#define BACKPLANE_TESTS_ONNX_VALUES_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bp::tests {

struct Tolerance {
  double relative = 0;
  double absolute = 0;
  double rms = 0;
};

struct CaseTensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<std::byte> bytes;
};

struct CaseSet {
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> outputs;
};

struct CaseValues {
  Tolerance tolerance;
  std::map<std::string, int64_t> dims;
  std::vector<CaseSet> sets;
};

/// Throws std::runtime_error for a file that is not there or not of this form.
CaseValues read_values(const std::string& path);

/// Bytes of so many elements; dtypes below 8 bits are packed.
uint64_t bytes_of(uint32_t dtype, const std::vector<int64_t>& sizes);

/// The elements as doubles, which hold every value that is compared by a tolerance.
std::vector<double> to_doubles(const CaseTensor& tensor);

struct Difference {
  std::string words;  // empty: there is none
  /// The widest error in units of what the tolerance allows; infinite where what differs is no
  /// number of a float tensor.
  double widest = 0;
};

/// There is none if `found` is what was expected: dtype, sizes, integers exactly, floats within the
/// tolerance, NaN where NaN is expected.
Difference difference(const CaseTensor& expected, const CaseTensor& found,
                      const Tolerance& tolerance);

}  // namespace bp::tests

#endif
