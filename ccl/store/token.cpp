// SPDX-License-Identifier: Apache-2.0
//
// The only file that knows the library of cryptography.
#include "ccl/store/token.hpp"

#include <sodium.h>

#include <utility>

#include "ccl/store/private_file.hpp"
#include "core/base/foreign_text.hpp"

namespace bp::ccl {
namespace {

static_assert(kMacBytes == crypto_auth_hmacsha256_BYTES);
static_assert(Token::kBytes == crypto_auth_hmacsha256_KEYBYTES);

/// Any thread, as often as like.
Status start_cryptography() {
  if (::sodium_init() >= 0) return {};
  return Status(BP_UNAVAILABLE, "the system's random source does not answer (sodium_init failed)");
}

/// Wipes a text at the end of its scope.
class WipedText {
 public:
  explicit WipedText(std::string text) : text_(std::move(text)) {}
  ~WipedText() { wipe(&text_); }
  WipedText(const WipedText&) = delete;
  WipedText& operator=(const WipedText&) = delete;
  std::string_view get() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

Token::~Token() { ::sodium_memzero(bytes_.data(), bytes_.size()); }

Result<std::shared_ptr<const Token>> Token::make() {
  BP_TRY(start_cryptography());
  const std::shared_ptr<Token> token(new Token);
  ::randombytes_buf(token->bytes_.data(), token->bytes_.size());
  return std::shared_ptr<const Token>(token);
}

Result<std::shared_ptr<const Token>> Token::from_text(std::string_view text,
                                                      std::string_view origin) {
  const std::string name = foreign_text(origin);
  BP_TRY(start_cryptography());
  if (text.size() != kTextDigits) {
    return Status(BP_INVALID_ARGUMENT, name + ": a token has " + std::to_string(kTextDigits) +
                                           " hexadecimal digits, found " +
                                           std::to_string(text.size()) + " characters");
  }
  const std::shared_ptr<Token> token(new Token);
  size_t count = 0;
  const int failed = ::sodium_hex2bin(token->bytes_.data(), kBytes, text.data(), text.size(),
                                      nullptr, &count, nullptr);
  if (failed == 0 && count == kBytes) return std::shared_ptr<const Token>(token);
  return Status(BP_INVALID_ARGUMENT, name + ": a token has " + std::to_string(kTextDigits) +
                                         " hexadecimal digits, found another character");
}

Result<std::shared_ptr<const Token>> Token::from_file(const std::string& path) {
  BP_TRY_ASSIGN(std::string content, read_private_file(path, kTextDigits + 2));
  const WipedText text(std::move(content));
  std::string_view digits = text.get();
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  if (digits.ends_with('\r')) digits.remove_suffix(1);
  return from_text(digits, path);
}

Status Token::write_file(const std::string& path) const {
  const WipedText digits(text());
  return write_private_file(path, digits.get());
}

std::string Token::text() const {
  std::string digits(kTextDigits + 1, '\0');
  ::sodium_bin2hex(digits.data(), digits.size(), bytes_.data(), bytes_.size());
  digits.pop_back();
  return digits;
}

Mac Token::mac(std::string_view bytes) const {
  Mac mac = {};
  ::crypto_auth_hmacsha256(mac.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size(), bytes_.data());
  return mac;
}

Result<Nonce> make_nonce() {
  BP_TRY(start_cryptography());
  Nonce nonce = {};
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

bool is_same_mac(std::string_view a, const Mac& b) {
  return a.size() == b.size() && ::sodium_memcmp(a.data(), b.data(), b.size()) == 0;
}

void wipe(std::string* text) {
  text->resize(text->capacity());  // where it was longer once
  ::sodium_memzero(text->data(), text->size());
  text->clear();
}

}  // namespace bp::ccl
