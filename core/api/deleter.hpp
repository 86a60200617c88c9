// SPDX-License-Identifier: Apache-2.0
//
// The end of memory that the application lent.
#ifndef BACKPLANE_CORE_API_DELETER_HPP
#define BACKPLANE_CORE_API_DELETER_HPP

#include "core/api/handles.hpp"

namespace bp {

/// Once armed, calls a deleter at the end of its life; not in a forked child.
class Deleter {
 public:
  Deleter() = default;
  ~Deleter() {
    if (deleter_ == nullptr || forked()) return;
    report_throw("a deleter", contain([&] { deleter_(user_); }));
  }
  Deleter(const Deleter&) = delete;
  Deleter& operator=(const Deleter&) = delete;
  void arm(bpa_deleter deleter, void* user) {
    deleter_ = deleter;
    user_ = user;
  }

 private:
  bpa_deleter deleter_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace bp

#endif
