// egg/egg_bignum.cpp -- arithmetic of big integers and fractions.
#include "egg/egg_bignum.h"
#include "base/check.h"
#include <algorithm>
#include <bit>
#include <cmath>

namespace luminal::egraph {

void BigInt::trim(Limbs& limbs) {
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
}

BigInt BigInt::from(bool negative, Limbs limbs) {
  BigInt out;
  trim(limbs);
  out.negative_ = negative && !limbs.empty();
  out.limbs_ = std::move(limbs);
  return out;
}

BigInt::BigInt(int64_t value) : negative_(value < 0) {
  uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  for (; size != 0; size >>= 32) limbs_.push_back(static_cast<uint32_t>(size));
}

std::optional<BigInt> BigInt::parse(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  Limbs limbs;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    uint64_t carry = static_cast<uint64_t>(c - '0');
    for (uint32_t& limb : limbs) {
      carry += uint64_t(limb) * 10;
      limb = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) limbs.push_back(static_cast<uint32_t>(carry));
  }
  return from(negative, std::move(limbs));
}

uint64_t BigInt::bit_count() const {
  return limbs_.empty() ? 0 : limbs_.size() * 32 - static_cast<uint64_t>(std::countl_zero(limbs_.back()));
}

std::string BigInt::text() const {
  if (limbs_.empty()) return "0";
  std::string out;
  for (Limbs rest = limbs_; !rest.empty();) {
    uint64_t remainder = 0;
    for (size_t i = rest.size(); i-- > 0;) {
      remainder = remainder << 32 | rest[i];
      rest[i] = static_cast<uint32_t>(remainder / 1000000000);
      remainder %= 1000000000;
    }
    trim(rest);
    for (int i = 0; i < 9 && (!rest.empty() || remainder != 0); ++i, remainder /= 10)
      out += static_cast<char>('0' + remainder % 10);
  }
  if (negative_) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::optional<int64_t> BigInt::to_int64() const {
  if (limbs_.size() > 2) return std::nullopt;
  uint64_t size = 0;
  for (size_t i = limbs_.size(); i-- > 0;) size = size << 32 | limbs_[i];
  if (size > (uint64_t(1) << 63) - (negative_ ? 0 : 1)) return std::nullopt;
  return static_cast<int64_t>(negative_ ? 0 - size : size);
}

int BigInt::compare(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

BigInt::Limbs BigInt::add(const Limbs& a, const Limbs& b) {
  Limbs out;
  uint64_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    carry += uint64_t(i < a.size() ? a[i] : 0) + (i < b.size() ? b[i] : 0);
    out.push_back(static_cast<uint32_t>(carry));
    carry >>= 32;
  }
  if (carry != 0) out.push_back(static_cast<uint32_t>(carry));
  return out;
}

BigInt::Limbs BigInt::subtract(const Limbs& a, const Limbs& b) {
  Limbs out;
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    borrow += int64_t(a[i]) - (i < b.size() ? int64_t(b[i]) : 0);
    out.push_back(static_cast<uint32_t>(borrow));
    borrow >>= 32;
  }
  return out;
}

BigInt BigInt::operator-() const { return from(!negative_, limbs_); }

BigInt operator+(const BigInt& a, const BigInt& b) {
  if (a.negative_ == b.negative_) return BigInt::from(a.negative_, BigInt::add(a.limbs_, b.limbs_));
  if (BigInt::compare(a.limbs_, b.limbs_) < 0) return b + a;
  return BigInt::from(a.negative_, BigInt::subtract(a.limbs_, b.limbs_));
}

BigInt operator*(const BigInt& a, const BigInt& b) {
  BigInt::Limbs out(a.limbs_.size() + b.limbs_.size(), 0);
  for (size_t i = 0; i < a.limbs_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.limbs_.size(); ++j) {
      carry += uint64_t(a.limbs_[i]) * b.limbs_[j] + out[i + j];
      out[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    out[i + b.limbs_.size()] = static_cast<uint32_t>(carry);
  }
  return BigInt::from(a.negative_ != b.negative_, std::move(out));
}

BigInt BigInt::divide(const BigInt& a, const BigInt& b, BigInt& remainder) {
  LUMINAL_CHECK(!b.is_zero());
  if (compare(a.limbs_, b.limbs_) < 0) {
    remainder = a;
    return {};
  }
  // Knuth's algorithm D: the divisor is shifted so that its highest bit is set, which makes guesses
  // of digits near.
  const auto shift = static_cast<uint32_t>(std::countl_zero(b.limbs_.back()));
  Limbs rest = a.abs().shifted_left(shift).limbs_;
  const Limbs divisor = b.abs().shifted_left(shift).limbs_;
  const size_t n = divisor.size();
  rest.resize(std::max(rest.size(), a.limbs_.size()) + 1, 0);
  Limbs quotient(rest.size() - n, 0);
  for (size_t j = quotient.size(); j-- > 0;) {
    const uint64_t high = uint64_t(rest[j + n]) << 32 | rest[j + n - 1];
    uint64_t digit = high / divisor[n - 1], left = high % divisor[n - 1];
    while (digit >> 32 != 0 || (n > 1 && digit * divisor[n - 2] > (left << 32 | rest[j + n - 2]))) {
      --digit;
      left += divisor[n - 1];
      if (left >> 32 != 0) break;
    }
    int64_t borrow = 0;
    uint64_t carry = 0;
    for (size_t i = 0; i < n; ++i) {
      carry += digit * divisor[i];
      borrow += int64_t(rest[i + j]) - int64_t(static_cast<uint32_t>(carry));
      rest[i + j] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
      carry >>= 32;
    }
    borrow += int64_t(rest[j + n]) - int64_t(carry);
    rest[j + n] = static_cast<uint32_t>(borrow);
    if (borrow < 0) { // one too many: add the divisor back
      --digit;
      carry = 0;
      for (size_t i = 0; i < n; ++i) {
        carry += uint64_t(rest[i + j]) + divisor[i];
        rest[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
      rest[j + n] += static_cast<uint32_t>(carry);
    }
    quotient[j] = static_cast<uint32_t>(digit);
  }
  remainder = from(false, std::move(rest)).shifted_right(shift);
  if (a.negative_) remainder = -remainder;
  return from(a.negative_ != b.negative_, std::move(quotient));
}

BigInt BigInt::shifted_left(uint32_t bits) const {
  Limbs out(bits / 32, 0);
  uint64_t carry = 0;
  for (const uint32_t limb : limbs_) {
    carry |= uint64_t(limb) << (bits % 32);
    out.push_back(static_cast<uint32_t>(carry));
    carry >>= 32;
  }
  out.push_back(static_cast<uint32_t>(carry));
  return from(negative_, std::move(out));
}

BigInt BigInt::shifted_right(uint32_t bits) const {
  const size_t whole = bits / 32;
  if (whole >= limbs_.size()) return negative_ ? BigInt(-1) : BigInt();
  Limbs out;
  bool lost = false;
  for (size_t i = 0; i < whole; ++i) lost = lost || limbs_[i] != 0;
  lost = lost || (limbs_[whole] & ((uint64_t(1) << (bits % 32)) - 1)) != 0;
  for (size_t i = whole; i < limbs_.size(); ++i) {
    const uint64_t two = limbs_[i] | uint64_t(i + 1 < limbs_.size() ? limbs_[i + 1] : 0) << 32;
    out.push_back(static_cast<uint32_t>(two >> (bits % 32)));
  }
  const BigInt shifted = from(negative_, std::move(out));
  return negative_ && lost ? shifted - BigInt(1) : shifted;
}

BigInt::Limbs BigInt::complement(size_t size) const {
  Limbs out = limbs_;
  out.resize(size, 0);
  if (!negative_) return out;
  uint64_t carry = 1;
  for (uint32_t& limb : out) {
    carry += static_cast<uint32_t>(~limb);
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return out;
}

BigInt BigInt::bitwise(char op, const BigInt& a, const BigInt& b) {
  const size_t size = std::max(a.limbs_.size(), b.limbs_.size()) + 1;
  Limbs out = a.complement(size);
  const Limbs other = b.complement(size);
  for (size_t i = 0; i < size; ++i)
    out[i] = op == '&' ? out[i] & other[i] : op == '|' ? out[i] | other[i] : out[i] ^ other[i];
  if (out.back() >> 31 == 0) return from(false, std::move(out));
  BigInt negative = from(true, std::move(out));
  return from(true, negative.complement(size));
}

BigInt BigInt::gcd(BigInt a, BigInt b) {
  while (!b.is_zero()) {
    BigInt rest;
    divide(a, b, rest);
    a = std::move(b);
    b = std::move(rest);
  }
  return a.abs();
}

BigInt BigInt::root() const {
  if (is_zero()) return {};
  // Newton's method from above.
  BigInt x = BigInt(1).shifted_left(static_cast<uint32_t>((bit_count() + 1) / 2)), rest;
  for (;;) {
    const BigInt next = (x + divide(*this, x, rest)).shifted_right(1);
    if (next >= x) return x;
    x = next;
  }
}

std::strong_ordering BigInt::operator<=>(const BigInt& other) const {
  if (negative_ != other.negative_)
    return negative_ ? std::strong_ordering::less : std::strong_ordering::greater;
  const int order = compare(limbs_, other.limbs_);
  return (negative_ ? -order : order) <=> 0;
}

// ---- fractions

BigRational::BigRational(BigInt numerator, BigInt denominator) {
  LUMINAL_CHECK(!denominator.is_zero());
  const BigInt common = BigInt::gcd(numerator, denominator);
  BigInt rest;
  numerator_ = BigInt::divide(numerator, common, rest);
  denominator_ = BigInt::divide(denominator, common, rest);
  if (!denominator_.is_negative()) return;
  numerator_ = -numerator_;
  denominator_ = -denominator_;
}

BigRational operator+(const BigRational& a, const BigRational& b) {
  return {a.numerator_ * b.denominator_ + b.numerator_ * a.denominator_, a.denominator_ * b.denominator_};
}
BigRational operator*(const BigRational& a, const BigRational& b) {
  return {a.numerator_ * b.numerator_, a.denominator_ * b.denominator_};
}
std::strong_ordering BigRational::operator<=>(const BigRational& other) const {
  return numerator_ * other.denominator_ <=> other.numerator_ * denominator_;
}

BigRational BigRational::floor() const {
  BigInt rest;
  BigInt whole = BigInt::divide(numerator_, denominator_, rest);
  if (rest.is_negative()) whole = whole - BigInt(1);
  return {whole, 1};
}

BigRational BigRational::round() const {
  const BigRational half(1, 2);
  return numerator_.is_negative() ? -(-*this + half).floor() : (*this + half).floor();
}

double BigRational::to_double() const {
  if (numerator_.is_zero()) return 0;
  // A quotient of at least 65 bits, whose lowest bit also stands for what is left: then one
  // rounding is the right one.
  const int64_t shift =
      66 - static_cast<int64_t>(numerator_.bit_count()) + static_cast<int64_t>(denominator_.bit_count());
  const auto up = static_cast<uint32_t>(std::max<int64_t>(shift, 0)),
             down = static_cast<uint32_t>(std::max<int64_t>(-shift, 0));
  BigInt rest;
  const BigInt quotient =
      BigInt::divide(numerator_.abs().shifted_left(up), denominator_.shifted_left(down), rest);
  const auto high = static_cast<uint64_t>(*quotient.shifted_right(40).to_int64());
  const auto low =
      static_cast<uint64_t>(*BigInt::bitwise('&', quotient, BigInt((int64_t(1) << 40) - 1)).to_int64());
  const unsigned __int128 bits = static_cast<unsigned __int128>(high) << 40 | low | (rest.is_zero() ? 0 : 1);
  const double value =
      std::ldexp(static_cast<double>(bits), static_cast<int>(std::clamp<int64_t>(-shift, -5000, 5000)));
  return numerator_.is_negative() ? -value : value;
}

} // namespace luminal::egraph
