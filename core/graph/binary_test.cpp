// The binary form: every field there and back, and damaged bytes.
#include "core/graph/binary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "core/base/hash.hpp"
#include "core/graph/awkward_program.hpp"
#include "core/graph/opaque.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

/// A program whose one op only a framework can run, with each kind of argument.
Program with_opaque() {
  Opaque opaque;
  opaque.schema = "aten::frobnicate(Tensor self, Scalar[] more) -> Tensor";
  opaque.reason = "because";
  opaque.effect = OpaqueEffect::kRandom;
  using Kind = OpaqueArg::Kind;
  OpaqueArg tensor, list, real, complex, integer, text;
  tensor.kind = Kind::kTensor, tensor.operand = 0;
  real.kind = Kind::kReal, real.real = -0.0;
  complex.kind = Kind::kComplex, complex.real = 1.5, complex.imaginary = -2.5;
  integer.kind = Kind::kInteger, integer.integer = std::int64_t{-1} << 62;
  text.kind = Kind::kText, text.text = std::string("a\0b", 3);
  list.kind = Kind::kList, list.items = {real, complex, integer, text, OpaqueArg()};
  opaque.args = {tensor, list};
  opaque.results = {{.written = kNone, .returned = 0}};
  Program p;
  p.iterations = 1;
  p.values = {{ValueKind::kInput, DType::kF32, 6, "x", kNone}, {ValueKind::kTemporary, DType::kF32, 6, "", 0}};
  p.inputs = {{0, {3}, false}};
  Attributes entry;
  entry.index = 0;
  const View row = View::contiguous({6});
  p.ops = {{OpKind::kOpaque, {{0, row, {}}}, {{1, row, {}}}, entry, kNone}};
  p.outputs = {{"y", {1, row, {}}, {}, {4}}};
  p.opaques = {std::make_shared<const Opaque>(std::move(opaque))};
  return p;
}

/// The bytes with a checksum that fits them, as somebody who means harm would write it.
std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  const std::uint64_t sum = checksum64(std::span(bytes).first(bytes.size() - 8));
  for (std::size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = static_cast<std::byte>(sum >> (8 * i));
  return bytes;
}

TEST(Binary, EveryFieldComesBack) {
  std::size_t binary = 0, text = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Program p = awkward_program(seed);
    const auto bytes = to_binary(p);
    const auto back = from_binary(bytes);
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(difference(p, *back), "") << "seed " << seed;
    ASSERT_TRUE(to_binary(*back) == bytes);
    binary += bytes.size();
    text += to_text(p).size();
  }
  EXPECT_LT(binary * 2, text);
}

TEST(Binary, OpaqueOpsComeBack) {
  const Program p = with_opaque();
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  const auto back = from_binary(to_binary(p));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(difference(p, *back), "");
  Program other = with_opaque();
  Opaque changed = *other.opaques[0];
  changed.args[1].items[1].imaginary = 2.5;
  other.opaques[0] = std::make_shared<const Opaque>(changed);
  EXPECT_EQ(difference(p, other), "opaques");
}

TEST(Binary, DamageIsRefused) {
  const auto bytes = to_binary(awkward_program(3));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = from_binary(std::span(bytes).first(length));
    ASSERT_FALSE(cut);
    ASSERT_EQ(cut.error().code, ErrorCode::kBadInput);
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto changed = bytes;
    changed[at] ^= std::byte{0x10};
    ASSERT_FALSE(from_binary(changed)) << "byte " << at;
  }
}

TEST(Binary, ForgedBytesAreRefusedOrValid) {
  std::mt19937_64 random(5);
  std::size_t refused = 0, accepted = 0;
  for (std::uint64_t round = 0; round < 20000; ++round) {
    auto bytes = to_binary(round % 5 == 0 ? with_opaque() : awkward_program(round % 40));
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = 8 + random() % (bytes.size() - 16);
      switch (random() % 3) {
        case 0: bytes[at] = static_cast<std::byte>(random()); break;
        case 1: bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at)); break;
        default: bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::byte>(random()));
      }
    }
    const auto back = from_binary(sealed(std::move(bytes)));
    if (back) {
      ++accepted;
      ASSERT_TRUE(verify(*back));
    } else {
      ++refused;
      ASSERT_EQ(back.error().code, ErrorCode::kBadInput);
      ASSERT_THAT(back.error().message, testing::StartsWith("the program cannot be read: "));
    }
  }
  EXPECT_GT(refused, 8000u);
  EXPECT_GT(accepted, 300u);
}

TEST(Binary, MessagesSayWhatIsWrong) {
  const auto message = [](const std::vector<std::byte>& bytes) { return from_binary(bytes).error().message; };
  auto version = to_binary(with_opaque());
  EXPECT_TRUE(is_binary_program(version));
  version[8] = std::byte{9};
  EXPECT_THAT(message(sealed(version)),
              HasSubstr("it is of version 9 of the binary form, this crucible reads version 3"));
  EXPECT_THAT(message({}), HasSubstr("it does not begin as one"));
  auto cut = to_binary(with_opaque());
  cut.resize(cut.size() - 9);
  EXPECT_THAT(message(cut), HasSubstr("damaged or cut off"));
  auto longer = to_binary(with_opaque());
  longer.insert(longer.end() - 8, std::byte{0});
  EXPECT_THAT(message(sealed(longer)), HasSubstr("more follows behind its end"));
  Program unknown = with_opaque();
  unknown.ops[0].outputs[0].value = 0;
  EXPECT_THAT(message(to_binary(unknown)), HasSubstr("op 0"));
}

}  // namespace
}  // namespace crucible::graph
