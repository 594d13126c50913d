// SHA-256 against published values. The hash is internal, so this test is built with its source and not through the
// ABI.
#include "backends/cpu/sha256.hpp"

#include <gtest/gtest.h>

namespace crucible_cpu {
namespace {

std::string hash(std::string_view text) {
  Sha256 sha;
  sha.update(text);
  return sha.hex();
}

// Source: FIPS 180-4 examples; the last two computed with sha256sum.
TEST(Sha256, AgreesWithPublishedValues) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hash(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(Sha256, TakesItsBytesInAnyPieces) {
  const std::string text(300, 'x');
  Sha256 pieces;
  for (std::size_t i = 0; i < text.size(); i += 7) pieces.update(std::string_view(text).substr(i, 7));
  EXPECT_EQ(pieces.hex(), hash(text));
}

TEST(Sha256, KeepsFieldsApart) {
  Sha256 one, two;
  one.update_field("ab");
  one.update_field("c");
  two.update_field("a");
  two.update_field("bc");
  EXPECT_NE(one.hex(), two.hex());
}

}  // namespace
}  // namespace crucible_cpu
