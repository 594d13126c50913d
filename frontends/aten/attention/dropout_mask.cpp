// Masks of attention drawn again: see dropout_mask.hpp. 32-bit words stand in i64, products of two in halves, so that
// nothing overflows.
#include "frontends/aten/attention/dropout_mask.hpp"

#include <array>
#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr std::int64_t kWord = 0xFFFFFFFF;

Expression low(const Expression& x, std::int64_t bits) {
  return x.binary(OpKind::kBitAnd, Term::integer((std::int64_t{1} << bits) - 1));
}
Expression shifted(const Expression& x, std::int64_t bits) {
  return x.binary(OpKind::kShiftRight, Term::integer(bits));
}
Expression raised(const Expression& x, std::int64_t bits) { return x.binary(OpKind::kShiftLeft, Term::integer(bits)); }
Expression differs(const Expression& a, const Expression& b) { return a.binary(OpKind::kBitXor, b); }

struct Product {
  Expression high, low;
};

/// Of a word and a fixed one.
Product product(const Expression& word, std::int64_t factor) {
  const Expression first = low(word, 16) * factor, second = shifted(word, 16) * factor + shifted(first, 16);
  return {shifted(second, 16), raised(low(second, 16), 16).binary(OpKind::kBitOr, low(first, 16))};
}

/// Words of a number of 64 bits.
std::vector<Expression> words(const Expression& x) { return {low(x, 32), low(shifted(x, 32), 32)}; }

/// Four neighbours in the last two dimensions share a counter: word k of it is element 4 i + k.
Expression efficient(Emitter& e, const DropoutSeed& drawn, double dropout_p, const Sizes& sizes) {
  constexpr int kRounds = 10;
  const std::int64_t count = sizes[0] * sizes[1] * sizes[2] * sizes[3], quads = (count + 3) / 4;
  // The generator hands out offsets in fours.
  const Expression first = shifted({e, e.reshape(drawn.offset, {1})}, 2);
  std::vector<Expression> counter = words(first + e.position(0, {quads}));
  const Expression nothing = e.fill(Term::integer(0), {1}, DType::kI64);
  counter.insert(counter.end(), {nothing, nothing});
  std::vector<Term> kept;
  for (const Expression& word : philox(e, counter, drawn.seed, kRounds))
    kept.push_back(e.unsqueeze(word >= least_kept(dropout_p), -1));
  return e.reshape(narrow(e.reshape(e.concat(kept, 1), {quads * 4}), 0, 0, count), sizes);
}

/// A counter serves one lane in a tile of 16 rows and 32 columns: of rows r and r + 8, and of each eight columns two
/// neighbours, a byte each.
Expression flash(Emitter& e, const DropoutSeed& drawn, double dropout_p, const Sizes& sizes) {
  constexpr int kRounds = 7;
  const std::int64_t planes = sizes[0] * sizes[1], rows = (sizes[2] + 15) / 16, columns = (sizes[3] + 31) / 32;
  // plane, tile's row, half of it, row, tile's column, eight columns, pair, one of the pair
  const auto along = [&](std::size_t dim, std::int64_t size) {
    Sizes all(8, 1);
    all[dim] = size;
    return e.position(static_cast<std::int64_t>(dim), all);
  };
  const Expression lane = along(3, 8) * 4 + along(6, 4);
  const Expression offset(e, e.reshape(drawn.offset, Sizes(8, 1)));
  std::vector<Expression> counter = words(offset + along(0, planes) * 32 + lane);
  counter.insert(counter.end(), {along(1, rows), along(4, columns)});
  std::vector<Term> eights;
  for (const Expression& word : philox(e, counter, drawn.seed, kRounds))
    eights.push_back(e.expand(word, {planes, rows, 1, 8, columns, 1, 4, 1}));
  const Expression word = e.concat(eights, 5), byte = (along(2, 2) * 2 + along(7, 2)) * 8;
  const auto most = static_cast<std::int64_t>(std::floor((1.0F - static_cast<float>(dropout_p)) * 255.0));
  const Expression kept = low(word.binary(OpKind::kShiftRight, byte), 8) <= most;
  const Expression tiled = e.reshape(kept, {planes, rows * 16, columns * 32});
  return e.reshape(narrow(narrow(tiled, 1, 0, sizes[2]), 2, 0, sizes[3]), sizes);
}

}  // namespace

std::vector<Expression> philox(Emitter& e, const std::vector<Expression>& counter, const Term& seed, int rounds) {
  constexpr std::array<std::int64_t, 2> kFactors = {0xD2511F53, 0xCD9E8D57}, kSteps = {0x9E3779B9, 0xBB67AE85};
  std::vector<Expression> c = counter;
  const std::vector<Expression> key = words({e, e.reshape(seed, {1})});
  for (int round = 0; round < rounds; ++round) {
    const auto key_of = [&](std::size_t i) { return low(key[i] + (kSteps[i] * round & kWord), 32); };
    const Product first = product(c[0], kFactors[0]), second = product(c[2], kFactors[1]);
    c = {differs(differs(second.high, c[1]), key_of(0)), second.low, differs(differs(first.high, c[3]), key_of(1)),
         first.low};
  }
  return c;
}

std::int64_t least_kept(double dropout_p) {
  const auto p = static_cast<float>(dropout_p);
  const auto keeps = [p](std::int64_t word) { return static_cast<float>(word) * 0x1p-32F + 0x1p-33F > p; };
  std::int64_t from = 0, to = kWord + 1;  // the first word kept is in [from, to]: larger words are larger floats
  while (from < to) {
    const std::int64_t middle = (from + to) / 2;
    keeps(middle) ? to = middle : from = middle + 1;
  }
  return from;
}

Expression kept_scores(Emitter& e, MaskLayout layout, const DropoutSeed& drawn, double dropout_p, const Sizes& sizes) {
  for (const std::int64_t size : sizes) {
    if (size == 0) return e.fill(Term::integer(1), sizes, DType::kBool);
  }
  return layout == MaskLayout::kFlash ? flash(e, drawn, dropout_p, sizes) : efficient(e, drawn, dropout_p, sizes);
}

}  // namespace crucible::aten
