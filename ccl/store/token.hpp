// SPDX-License-Identifier: Apache-2.0
//
// The secret of a job, which its processes know and no one else does: whoever proves to know it may
// use the job's store and be a rank of it. It is never part of a message, a log line or a command
// line; it travels by a file that only its user can read, or by the environment.
#ifndef BACKPLANE_CCL_STORE_TOKEN_HPP
#define BACKPLANE_CCL_STORE_TOKEN_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace bp::ccl {

inline constexpr size_t kMacBytes = 32;
inline constexpr size_t kNonceBytes = 32;
using Mac = std::array<unsigned char, kMacBytes>;
using Nonce = std::array<unsigned char, kNonceBytes>;

/// 256 bits. They lie in one place, which is wiped at the end. Any thread.
class Token {
 public:
  static constexpr size_t kBytes = 32;
  static constexpr size_t kTextDigits = 2 * kBytes;

  /// From the system's random source. Errors: UNAVAILABLE where there is none.
  static Result<std::shared_ptr<const Token>> make();
  /// From 64 hexadecimal digits, that `origin` (the name of a variable) has. Errors:
  /// INVALID_ARGUMENT with the origin and without the text.
  static Result<std::shared_ptr<const Token>> from_text(std::string_view text,
                                                        std::string_view origin);
  /// From a file of 64 hexadecimal digits, and a line's end where there is one. Links are followed.
  /// Errors: UNAVAILABLE if it cannot be opened; INVALID_ARGUMENT if it is no regular file, not
  /// this user's, open to its group or to others, or of another content.
  static Result<std::shared_ptr<const Token>> from_file(const std::string& path);

  ~Token();
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  /// Writes a new file, which only this user can read. Errors: UNAVAILABLE, also where there is a
  /// file of that name.
  Status write_file(const std::string& path) const;
  /// The digits, for a child's environment; to be wiped by wipe().
  std::string text() const;
  /// HMAC-SHA256 of the bytes.
  Mac mac(std::string_view bytes) const;

 private:
  Token() = default;
  std::array<unsigned char, kBytes> bytes_{};
};

/// Unpredictable and never used before. Errors: UNAVAILABLE as Token::make().
Result<Nonce> make_nonce();
/// Compares in a time that tells nothing.
bool is_same_mac(std::string_view a, const Mac& b);
/// Overwrites the text's bytes, and makes it empty.
void wipe(std::string* text);

}  // namespace bp::ccl

#endif
