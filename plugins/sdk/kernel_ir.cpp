// Reading kernels: see kernel_ir.hpp. The host may be of another build than this plugin, and a store may have been
// damaged, so nothing is believed: sizes first, then the checksum, then each record.
#include "plugins/sdk/kernel_ir.hpp"

#include <bit>
#include <string>
#include <type_traits>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

constexpr std::uint32_t kMagic = 0x52494b43u;  // "CKIR"
constexpr std::uint16_t kMajor = 1, kMinor = 5;
constexpr std::uint64_t kHeader = 44, kTrailer = 8, kMostBytes = std::uint64_t{64} << 20;
constexpr int kDeepest = 64;

[[noreturn]] void corrupt(const std::string& what) { throw Failure(CRUCIBLE_E_DATA_CORRUPT, "kernel IR: " + what); }

class Reader {
 public:
  Reader(const void* data, std::uint64_t size) : data_(static_cast<const unsigned char*>(data)), size_(size) {}

  Kernel run() {
    read_header();
    Kernel kernel;
    for (std::uint32_t i = 0; i < buffers_; ++i) {
      const Type type = read_type();
      const auto flags = below(4, "a buffer's flags");
      kernel.buffers.push_back({type, (flags & 1) != 0, (flags & 2) != 0});
    }
    for (std::uint32_t i = 0; i < scalars_; ++i) {
      kernel.scalars.push_back(read_type());
      if (kernel.scalars[i] != Type::kF64 && kernel.scalars[i] != Type::kI64) {
        corrupt("byte " + std::to_string(at_ - 1) + ": a scalar of " + std::string(name(kernel.scalars[i])) + ", it is f64 or i64");
      }
    }
    for (std::uint32_t i = 0; i < arrays_; ++i) {
      const Type type = read_type();
      kernel.arrays.push_back({type, number<std::int64_t>()});
    }
    for (std::uint32_t i = 0; i < variables_; ++i) {
      const Type type = read_type();
      kernel.variables.push_back({type, below(2, "a variable's flags") == 1});
    }
    for (std::uint32_t i = 0; i < exprs_; ++i) kernel.exprs.push_back(read_expr());
    for (std::uint32_t i = 0; i < tiles_; ++i) kernel.tiles.push_back(read_tile());
    for (std::uint32_t i = 0; i < transposes_; ++i) kernel.transposes.push_back(read_transpose());
    kernel.body = read_block(top_, 0);
    if (stmts_ != 0) corrupt(std::to_string(stmts_) + " statements belong to no block");
    return kernel;
  }

 private:
  template <class T>
  T number() {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) bits |= std::uint64_t{data_[at_ + i]} << (8 * i);
    at_ += sizeof(T);
    return static_cast<T>(bits);
  }

  std::uint8_t below(std::uint8_t limit, const char* what) {
    const auto value = number<std::uint8_t>();
    if (value < limit) return value;
    corrupt("byte " + std::to_string(at_ - 1) + ": " + what + " is " + std::to_string(value) + ", must be below " +
            std::to_string(limit));
  }

  Type read_type() { return static_cast<Type>(below(static_cast<std::uint8_t>(Type::kF64) + 1, "a type")); }

  void read_header() {
    if (data_ == nullptr || size_ < kHeader + kTrailer) {
      corrupt(std::to_string(data_ == nullptr ? 0 : size_) + " bytes, a kernel has at least " +
              std::to_string(kHeader + kTrailer));
    }
    if (size_ > kMostBytes)
      corrupt(std::to_string(size_) + " bytes, at most " + std::to_string(kMostBytes) + " are read");
    if (number<std::uint32_t>() != kMagic) corrupt("the first four bytes are not CKIR");
    const auto major = number<std::uint16_t>(), minor = number<std::uint16_t>();
    if (major != kMajor || minor != kMinor) {
      const std::string have = std::to_string(major) + "." + std::to_string(minor);
      const std::string need = std::to_string(kMajor) + "." + std::to_string(kMinor);
      throw Failure(CRUCIBLE_E_INCOMPATIBLE,
                    "kernel IR: the host writes version " + have + ", this plugin reads " + need,
                    {{"have", have}, {"need", need}});
    }
    for (std::uint32_t* count : {&buffers_, &scalars_, &arrays_, &variables_, &exprs_, &stmts_, &top_, &tiles_, &transposes_}) {
      *count = number<std::uint32_t>();
    }
    const std::uint64_t needed =
        kHeader + 2ull * buffers_ + scalars_ + 9ull * arrays_ + 2ull * variables_ + 44ull * exprs_ + 60ull * tiles_ + 36ull * transposes_ +
        20ull * stmts_ + kTrailer;
    if (needed != size_)
      corrupt("its counts need " + std::to_string(needed) + " bytes, there are " + std::to_string(size_));
    std::uint64_t hash = 0xcbf29ce484222325ull, stored = 0;
    for (std::uint64_t i = 0; i < size_ - kTrailer; ++i) hash = (hash ^ data_[i]) * 0x100000001b3ull;
    for (std::uint64_t i = 0; i < kTrailer; ++i) stored |= std::uint64_t{data_[size_ - kTrailer + i]} << (8 * i);
    if (hash != stored) corrupt("its checksum does not fit its bytes: it was changed");
  }

  Expr read_expr() {
    Expr expr;
    expr.op = static_cast<Op>(below(static_cast<std::uint8_t>(Op::kFma) + 1, "an operation"));
    expr.type = read_type();
    at_ += 2;  // reserved
    for (std::uint32_t& in : expr.in) in = number<std::uint32_t>();
    expr.id = number<std::uint32_t>();
    expr.integer = number<std::int64_t>();
    expr.high = number<std::int64_t>();
    expr.real = std::bit_cast<double>(number<std::uint64_t>());
    return expr;
  }

  Tile read_tile() {
    Tile tile;
    tile.sums = number<std::uint32_t>();
    tile.base = number<std::uint32_t>();
    tile.rows = number<std::uint32_t>();
    tile.columns = number<std::uint32_t>();
    tile.start = static_cast<TileStart>(below(static_cast<std::uint8_t>(TileStart::kAdd) + 1, "a tile's start"));
    const auto flags = below(4, "a tile's flags");
    tile.left.is_array = (flags & 1) != 0;
    tile.right.is_array = (flags & 2) != 0;
    at_ += 2;  // reserved
    tile.left.id = number<std::uint32_t>();
    tile.left.base = number<std::uint32_t>();
    tile.left.row_step = number<std::int64_t>();
    tile.left.step = number<std::int64_t>();
    tile.right.id = number<std::uint32_t>();
    tile.right.base = number<std::uint32_t>();
    tile.right.step = number<std::int64_t>();
    return tile;
  }

  Transpose read_transpose() {
    Transpose transpose;
    transpose.to = number<std::uint32_t>();
    transpose.from = number<std::uint32_t>();
    transpose.columns = number<std::uint32_t>();
    transpose.to_base = number<std::uint32_t>();
    transpose.from_base = number<std::uint32_t>();
    transpose.to_step = number<std::int64_t>();
    transpose.from_step = number<std::int64_t>();
    return transpose;
  }

  std::vector<Stmt> read_block(std::uint32_t count, int depth) {
    if (depth > kDeepest) corrupt("blocks nest deeper than " + std::to_string(kDeepest));
    std::vector<Stmt> body;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (stmts_ == 0) corrupt("a block has more statements than there are");
      --stmts_;
      Stmt stmt;
      stmt.kind = static_cast<StmtKind>(below(static_cast<std::uint8_t>(StmtKind::kPrefetch) + 1, "a statement's kind"));
      stmt.mode = static_cast<LoopMode>(below(static_cast<std::uint8_t>(LoopMode::kUnrolled) + 1, "a loop's mode"));
      at_ += 2;  // reserved
      stmt.id = number<std::uint32_t>();
      stmt.a = number<std::uint32_t>();
      stmt.b = number<std::uint32_t>();
      const auto children = number<std::uint32_t>();
      stmt.body = read_block(children, depth + 1);
      body.push_back(std::move(stmt));
    }
    return body;
  }

  const unsigned char* data_;
  std::uint64_t size_, at_ = 0;
  std::uint32_t buffers_ = 0, scalars_ = 0, arrays_ = 0, variables_ = 0, exprs_ = 0, stmts_ = 0, top_ = 0,
                tiles_ = 0, transposes_ = 0;
};

}  // namespace

std::string_view name(Type type) {
  constexpr std::string_view kNames[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

std::uint32_t size_bytes(Type type) {
  constexpr std::uint32_t kSizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

const std::vector<Function>& functions() {
  static const std::vector<Function> kFunctions = {
      {"ceil", 1, true},     {"trunc", 1, true}, {"round", 1, true}, {"exp2", 1, true},   {"expm1", 1, true},
      {"log1p", 1, true},    {"log2", 1, true},  {"log10", 1, true}, {"tan", 1, true},    {"asin", 1, true},
      {"acos", 1, true},     {"atan", 1, true},  {"sinh", 1, true},  {"cosh", 1, true},   {"asinh", 1, true},
      {"acosh", 1, true},    {"atanh", 1, true}, {"erfc", 1, true},  {"erfinv", 1, true}, {"lgamma", 1, true},
      {"digamma", 1, true},  {"atan2", 2, true}, {"fmod", 2, true},  {"not", 1, false},   {"quotient", 2, false},
      {"modulus", 2, false}, {"ipow", 2, false}, {"and", 2, false},  {"or", 2, false},    {"xor", 2, false},
      {"shl", 2, false},     {"shr", 2, false},
  };
  return kFunctions;
}

Kernel read_kernel(const void* data, std::uint64_t size) {
  Kernel kernel = Reader(data, size).run();
  check_kernel(kernel);
  return kernel;
}

}  // namespace crucible::sdk
