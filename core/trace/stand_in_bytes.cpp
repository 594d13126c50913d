// Two passes over the elements: what they are like, then others in their place. Values come from a beta distribution
// over [least, largest], the one that exists for every mean and deviation that such values can have: a bell for
// weights, two peaks for labels.
#include "core/trace/stand_in_bytes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

namespace crucible::trace {

namespace {

using Random = std::mt19937_64;

constexpr std::size_t kFew = 16;             // so few elements are known by their statistics: theirs are kept roughly
constexpr std::size_t kTable =
    1 << 16;  // values drawn one by one; beyond that they are taken from a table, a little shifted
constexpr std::size_t kMarkers = 4;          // negative integers of so few values mean something (-100: ignore)
constexpr double kWideRange = 1000;          // integers of a wider one do not keep their extremes to the unit
constexpr double kShare = 1e-3;              // of the range, by which extremes may be missed

double uniform(Random& random, double low, double high) {
  return low + (high - low) * std::generate_canonical<double, 53>(random);
}

/// Says yes exactly `wanted` times in `all` calls.
class Sample {
 public:
  Sample(std::uint64_t wanted, std::uint64_t all) : wanted_(wanted), all_(all) {}
  bool next(Random& random) {
    const bool yes = wanted_ > 0 && std::uniform_int_distribution<std::uint64_t>(1, all_)(random) <= wanted_;
    wanted_ -= yes;
    --all_;
    return yes;
  }

 private:
  std::uint64_t wanted_, all_;
};

/// Of some numbers.
struct Statistics {
  std::uint64_t count = 0;
  double mean = 0, squares = 0, least = std::numeric_limits<double>::infinity(),
         largest = -std::numeric_limits<double>::infinity();
  std::uint64_t at_least = 0, at_largest = 0;  // how many are
  bool is_whole = true;

  void add(double number) {
    ++count;
    const double before = number - mean;
    mean += before / static_cast<double>(count);
    squares += before * (number - mean);
    at_least = number < least ? 1 : at_least + (number == least);
    at_largest = number > largest ? 1 : at_largest + (number == largest);
    least = std::min(least, number);
    largest = std::max(largest, number);
    is_whole = is_whole && number == std::trunc(number);
  }
  double range() const { return largest - least; }
  bool is_one_value() const { return least == largest; }
  bool is_two_values() const { return !is_one_value() && at_least + at_largest == count; }
};

/// Numbers in [least, largest] with the mean and deviation of some.
class Shape {
 public:
  Shape(const Statistics& like, Random& random) : least_(like.least), range_(like.range()) {
    const double mean = std::clamp((like.mean - least_) / range_, 1e-9, 1 - 1e-9);
    double variance = like.squares / static_cast<double>(like.count) / range_ / range_;
    if (like.count < kFew) variance = std::min(variance, mean * (1 - mean) / 2);
    const double both = std::max(mean * (1 - mean) / std::max(variance, 1e-300) - 1, 1e-3);
    mean_ = mean;
    a_ = std::gamma_distribution<double>(mean * both);
    b_ = std::gamma_distribution<double>((1 - mean) * both);
    if (like.count <= kTable) return;
    table_.reserve(kTable);
    for (std::size_t i = 0; i < kTable; ++i) table_.push_back(draw(random));
  }
  double next(Random& random) {
    if (table_.empty()) return least_ + range_ * draw(random);
    const std::uint64_t bits = random();
    const double shift = (static_cast<double>(bits >> 32) / 4294967296.0 - 0.5) / kTable;
    return least_ + range_ * std::clamp(table_[bits % kTable] + shift, 0.0, 1.0);
  }

 private:
  double draw(Random& random) {
    const double a = a_(random), b = b_(random);
    if (a + b > 0 && std::isfinite(a + b)) return a / (a + b);
    return uniform(random, 0, 1) < mean_ ? 1 : 0;
  }
  double least_, range_, mean_ = 0;
  std::gamma_distribution<double> a_, b_;
  std::vector<double> table_;
};

/// Numbers that stand in for real ones of the statistics given.
class RealSource {
 public:
  RealSource(const Statistics& like, const StandInUse& use, Random& random)
      : like_(like),
        use_(use),
        two_(like.is_two_values() && (like.is_whole || like.count >= kFew)),
        ones_(like.at_largest, like.count) {
    if (like.count > 0 && !like.is_one_value()) shape_.emplace_back(like, random);
  }
  double next(Random& random) {
    if (like_.is_one_value()) return other_than(like_.least, random);
    if (two_) return ones_.next(random) ? like_.largest : like_.least;
    const double drawn = shape_.front().next(random);
    return like_.is_whole ? std::clamp(std::round(drawn), like_.least, like_.largest) : drawn;
  }
  /// Whether a number that happens to be the original's is drawn again.
  bool avoids(double number) const { return !two_ && !like_.is_whole && number != 0; }
  /// Near the least or the largest one, which noise alone may miss.
  double extreme(bool is_largest, Random& random) const {
    const double off =
        like_.is_whole && like_.range() <= kWideRange ? 0 : like_.range() * uniform(random, kShare / 10, kShare);
    const double number = is_largest ? like_.largest - off : like_.least + off;
    return like_.is_whole ? std::trunc(number) : number;
  }
  bool has_extremes() const { return like_.count >= kFew && !like_.is_one_value() && !two_; }

 private:
  double other_than(double number, Random& random) const {
    if (number == 0) return use_.is_compared_only ? uniform(random, 0.5, 1.5) : 0;
    return number * uniform(random, 0.95, 0.99);
  }
  const Statistics like_;
  const StandInUse use_;
  bool two_;
  Sample ones_;
  std::vector<Shape> shape_;  // one, where there is a range
};

double widen_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31 ? (fraction != 0 ? std::nan("") : std::numeric_limits<double>::infinity())
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

std::uint16_t narrow_f16(double number) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(number) ? 0x8000 : 0);
  const double size = std::fabs(number);
  if (std::isnan(number)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const int exponent = size == 0 ? -14 : std::max(std::ilogb(size), -14);
  // In units of the last place; a carry into the next exponent is one in these bits too.
  const auto units = static_cast<std::uint16_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (units + ((exponent + 14) << 10)));
}

std::uint16_t narrow_bf16(double number) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Elements of real types as they lie in memory.
struct F16 {
  std::uint16_t bits;
  static F16 of(double number) { return {narrow_f16(number)}; }
  double value() const { return widen_f16(bits); }
};
struct BF16 {
  std::uint16_t bits;
  static BF16 of(double number) { return {narrow_bf16(number)}; }
  double value() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};
template <class Number>
struct Plain {
  Number number;
  static Plain of(double number) { return {static_cast<Number>(number)}; }
  double value() const { return static_cast<double>(number); }
};

template <class Element>
Element element_at(std::span<const std::byte> bytes, std::size_t index) {
  Element element;
  std::memcpy(&element, bytes.data() + index * sizeof element, sizeof element);
  return element;
}

template <class Element>
void put(std::span<std::byte> bytes, std::size_t index, const Element& element) {
  std::memcpy(bytes.data() + index * sizeof element, &element, sizeof element);
}

template <class Element>
void stand_in_reals(std::span<const std::byte> from, std::span<std::byte> to, const StandInUse& use, Random& random) {
  const std::size_t count = from.size() / sizeof(Element);
  Statistics like;
  std::uint64_t nans = 0, above = 0, below = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double number = element_at<Element>(from, i).value();
    if (std::isfinite(number)) like.add(number);
    nans += std::isnan(number);
    above += std::isinf(number) && number > 0;
    below += std::isinf(number) && number < 0;
  }
  RealSource source(like, use, random);
  Sample is_nan(nans, count), is_above(above, count - nans), is_below(below, count - nans - above);
  for (std::size_t i = 0; i < count; ++i) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (is_nan.next(random)) {
      put(to, i, Element::of(std::nan("")));
    } else if (is_above.next(random)) {
      put(to, i, Element::of(kInfinity));
    } else if (is_below.next(random)) {
      put(to, i, Element::of(-kInfinity));
    } else {
      const Element before = element_at<Element>(from, i);
      Element drawn = Element::of(source.next(random));
      for (int again = 0; again < 4 && drawn.value() == before.value() && source.avoids(before.value()); ++again)
        drawn = Element::of(source.next(random));
      put(to, i, drawn);
    }
  }
  if (!source.has_extremes() || nans + above + below > 0) return;
  const std::size_t place = std::uniform_int_distribution<std::size_t>(0, count - 2)(random);
  put(to, place, Element::of(source.extreme(false, random)));
  put(to, place + 1, Element::of(source.extreme(true, random)));
}

/// Of integers below zero: a few values that mean something, or a range.
struct Negatives {
  std::uint64_t count = 0;
  std::int64_t least = 0, largest = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> values;

  void add(std::int64_t number) {
    ++count;
    least = std::min(least, number);
    largest = std::max(largest, number);
    if (values.size() <= kMarkers && std::ranges::find(values, number) == values.end()) values.push_back(number);
  }
  std::int64_t next(Random& random) const {
    if (values.size() <= kMarkers) return values[random() % values.size()];
    return std::uniform_int_distribution<std::int64_t>(least, largest)(random);
  }
};

/// Whether each number from `least` on is there once: positions, permutations.
template <class Number>
bool is_each_once(std::span<const std::byte> from, std::size_t count, std::int64_t least) {
  std::vector<bool> met(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const auto place =
        static_cast<std::size_t>(static_cast<std::int64_t>(element_at<Plain<Number>>(from, i).number) - least);
    if (place >= count || met[place]) return false;
    met[place] = true;
  }
  return true;
}

template <class Number>
void stand_in_integers(std::span<const std::byte> from, std::span<std::byte> to, const StandInUse& use,
                       Random& random) {
  const std::size_t count = from.size() / sizeof(Number);
  Statistics like;
  Negatives negatives;
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), largest = 0,
               last = std::numeric_limits<std::int64_t>::min();
  bool ascends = true;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::int64_t>(element_at<Plain<Number>>(from, i).number);
    ascends = ascends && number >= last;
    last = number;
    if (number < 0) {
      negatives.add(number);
      continue;
    }
    like.add(static_cast<double>(number));
    least = std::min(least, number);
    largest = std::max(largest, number);
  }
  if (use.keeps_order && ascends && count > 1 && negatives.count == 0) {
    std::vector<Number> sorted{static_cast<Number>(least), static_cast<Number>(largest)};
    std::uniform_int_distribution<std::int64_t> any(least, largest);
    while (sorted.size() < count) sorted.push_back(static_cast<Number>(any(random)));
    std::ranges::sort(sorted);
    return std::memcpy(to.data(), sorted.data(), count * sizeof(Number)), void();
  }
  if (count > 1 && negatives.count == 0 && static_cast<std::uint64_t>(largest - least) == count - 1 &&
      is_each_once<Number>(from, count, least)) {
    std::vector<Number> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<Number>(least + static_cast<std::int64_t>(i));
    std::ranges::shuffle(order, random);
    return std::memcpy(to.data(), order.data(), count * sizeof(Number)), void();
  }
  const std::int64_t room = std::numeric_limits<Number>::max() - largest;
  const auto one_value = [&]() -> std::int64_t {
    if (use.is_compared_only && room >= 4) return largest + 1 + static_cast<std::int64_t>(random() % 4);
    return largest < 2 ? largest : std::uniform_int_distribution<std::int64_t>(1, largest - 1)(random);
  };
  std::vector<Shape> shape;
  if (like.count > 0 && !like.is_one_value()) shape.emplace_back(like, random);
  Sample is_negative(negatives.count, count);
  std::vector<std::size_t> places;  // of the first two that are not negative: for the extremes
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t number = 0;
    if (is_negative.next(random)) {
      number = negatives.next(random);
    } else if (shape.empty()) {
      number = one_value();
    } else {
      const double above = std::round(shape.front().next(random)) - static_cast<double>(least);
      number = above >= static_cast<double>(largest - least)
                   ? largest
                   : least + std::max<std::int64_t>(static_cast<std::int64_t>(above), 0);
      if (places.size() < 2) places.push_back(i);
    }
    put(to, i, Plain<Number>{static_cast<Number>(number)});
  }
  if (like.count < kFew || places.size() < 2) return;
  const double range = static_cast<double>(largest - least);
  const auto off = [&] {
    return range <= kWideRange ? 0 : static_cast<std::int64_t>(range * uniform(random, kShare / 10, kShare));
  };
  put(to, places[0], Plain<Number>{static_cast<Number>(least + off())});
  put(to, places[1], Plain<Number>{static_cast<Number>(largest - off())});
}

void stand_in_truths(std::span<const std::byte> from, std::span<std::byte> to, Random& random) {
  const auto truths =
      static_cast<std::uint64_t>(std::ranges::count_if(from, [](std::byte byte) { return byte != std::byte{0}; }));
  for (int again = 0; again < 8; ++again) {
    Sample is_true(truths, from.size());
    for (std::byte& byte : to) byte = is_true.next(random) ? std::byte{1} : std::byte{0};
    if (truths == 0 || truths == from.size() || !std::ranges::equal(from, to)) return;
  }
}

}  // namespace

std::vector<std::byte> stand_in(std::span<const std::byte> content, DType dtype, const StandInUse& use,
                                std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> made(content.size(), std::byte{0});
  switch (dtype) {
    case DType::kBool: stand_in_truths(content, made, random); break;
    case DType::kU8:
    case DType::kOther: stand_in_integers<std::uint8_t>(content, made, use, random); break;
    case DType::kI8: stand_in_integers<std::int8_t>(content, made, use, random); break;
    case DType::kI16: stand_in_integers<std::int16_t>(content, made, use, random); break;
    case DType::kI32: stand_in_integers<std::int32_t>(content, made, use, random); break;
    case DType::kI64: stand_in_integers<std::int64_t>(content, made, use, random); break;
    case DType::kF16: stand_in_reals<F16>(content, made, use, random); break;
    case DType::kBF16: stand_in_reals<BF16>(content, made, use, random); break;
    case DType::kF32:
    case DType::kC64: stand_in_reals<Plain<float>>(content, made, use, random); break;
    case DType::kF64:
    case DType::kC128: stand_in_reals<Plain<double>>(content, made, use, random); break;
  }
  return made;
}

}  // namespace crucible::trace
