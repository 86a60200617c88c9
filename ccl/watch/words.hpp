// SPDX-License-Identifier: Apache-2.0
//
// How the sentences of a trace name what they are about.
#ifndef BACKPLANE_CCL_WATCH_WORDS_HPP
#define BACKPLANE_CCL_WATCH_WORDS_HPP

#include <cstdint>
#include <span>
#include <string>

#include "ccl/watch/record.hpp"

namespace bp::ccl {

/// "3", "1 Ki", "1 Mi": in units where it is whole.
std::string count_words(uint64_t count);
/// "all_reduce sum f32 1 Mi", "send f32 8 to 1".
std::string operation_words(const Operation& operation);
/// "rank 3", "ranks 0, 1 and 5", "ranks 0 to 6 and 9". The ranks are ascending.
std::string ranks_words(std::span<const uint32_t> ranks);
/// "world", "world epoch 2".
std::string group_words(const std::string& name, uint64_t epoch);
/// "rank 3", and "rank 3 (7 of the job)" where that is another number.
std::string rank_words(const GroupInfo& group, uint32_t rank);

}  // namespace bp::ccl

#endif
