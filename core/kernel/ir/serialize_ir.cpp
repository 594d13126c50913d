// Writing and reading the kernel IR: see serialize_ir.hpp. Records have fixed sizes, so the header's counts must add up
// to the size of the whole before anything is allocated.
#include "core/kernel/ir/serialize_ir.hpp"

#include <fmt/format.h>

#include <bit>
#include <type_traits>

namespace crucible::kernel {
namespace {

constexpr std::uint64_t kHeaderBytes = 44, kBufferBytes = 2, kScalarBytes = 1, kArrayBytes = 9, kVariableBytes = 2, kExprBytes = 44,
                        kStmtBytes = 20, kTileBytes = 60, kTransposeBytes = 36, kTrailerBytes = 8;
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr std::uint32_t kDeepestBlock = 64;

/// FNV-1a: one changed byte always changes it, since each step maps states one to one.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ull;
  return hash;
}

class Writer {
 public:
  template <class T>
  void put(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(bits) >> (8 * i)));
  }
  std::vector<std::byte> finish() {
    put(checksum(bytes_));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

std::uint32_t count_stmts(const std::vector<Stmt>& body) {
  auto count = static_cast<std::uint32_t>(body.size());
  for (const Stmt& stmt : body) count += count_stmts(stmt.body);
  return count;
}

void write_block(Writer& out, const std::vector<Stmt>& body) {
  for (const Stmt& stmt : body) {
    out.put(static_cast<std::uint8_t>(stmt.kind));
    out.put(static_cast<std::uint8_t>(stmt.mode));
    out.put(std::uint16_t{0});
    out.put(stmt.id);
    out.put(stmt.a);
    out.put(stmt.b);
    out.put(static_cast<std::uint32_t>(stmt.body.size()));
    write_block(out, stmt.body);
  }
}

struct Counts {
  std::uint32_t buffers, scalars, arrays, variables, exprs, stmts, top, tiles, transposes;
  std::uint64_t bytes() const {
    return kHeaderBytes + buffers * kBufferBytes + scalars * kScalarBytes + arrays * kArrayBytes + variables * kVariableBytes +
           exprs * kExprBytes + tiles * kTileBytes + transposes * kTransposeBytes + stmts * kStmtBytes + kTrailerBytes;
  }
};

Error bad(std::string what) { return Error{ErrorCode::kBadInput, "kernel IR: " + what}; }

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<KernelIr> run() {
    CRUCIBLE_TRY(const Counts counts, read_header());
    KernelIr kernel;
    for (std::uint32_t i = 0; i < counts.buffers; ++i) CRUCIBLE_TRY_VOID(read_buffer(kernel));
    for (std::uint32_t i = 0; i < counts.scalars; ++i) {
      const std::size_t at = at_;
      CRUCIBLE_TRY(const DType type, read_dtype());
      if (type != DType::kF64 && type != DType::kI64) return bad(fmt::format("byte {}: a scalar of {}, it is f64 or i64", at, name(type)));
      kernel.scalars.push_back(type);
    }
    for (std::uint32_t i = 0; i < counts.arrays; ++i) {
      CRUCIBLE_TRY(const DType type, read_dtype());
      kernel.arrays.push_back({type, get<std::int64_t>()});
    }
    for (std::uint32_t i = 0; i < counts.variables; ++i) {
      CRUCIBLE_TRY(const DType type, read_dtype());
      CRUCIBLE_TRY(const std::uint8_t flags, read_below(2, "a variable's flags"));
      kernel.variables.push_back({type, flags == 1});
    }
    for (std::uint32_t i = 0; i < counts.exprs; ++i) CRUCIBLE_TRY_VOID(read_expr(kernel));
    for (std::uint32_t i = 0; i < counts.tiles; ++i) CRUCIBLE_TRY_VOID(read_tile(kernel));
    for (std::uint32_t i = 0; i < counts.transposes; ++i) kernel.transposes.push_back(read_transpose());
    stmts_left_ = counts.stmts;
    CRUCIBLE_TRY_VOID(read_block(kernel.body, counts.top, 0));
    if (stmts_left_ != 0) return bad(fmt::format("{} statements belong to no block", stmts_left_));
    return kernel;
  }

 private:
  template <class T>
  T get() {  // the header's size was checked: every record is there
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) bits |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * i);
    at_ += sizeof(T);
    return static_cast<T>(bits);
  }

  Result<std::uint8_t> read_below(std::uint8_t limit, const char* what) {
    const std::size_t at = at_;
    const auto value = get<std::uint8_t>();
    if (value < limit) return value;
    return bad(fmt::format("byte {}: {} is {}, must be below {}", at, what, value, limit));
  }

  Result<DType> read_dtype() {
    const std::size_t at = at_;
    const auto value = static_cast<DType>(get<std::uint8_t>());
    if (size_bytes(value) != 0 && value <= DType::kF64) return value;
    return bad(fmt::format("byte {}: {} is no type that a kernel computes with", at, static_cast<int>(value)));
  }

  Result<Counts> read_header() {
    if (bytes_.size() < kHeaderBytes + kTrailerBytes) {
      return bad(fmt::format("{} bytes, a kernel has at least {}", bytes_.size(), kHeaderBytes + kTrailerBytes));
    }
    if (bytes_.size() > kMostBytes) return bad(fmt::format("{} bytes, at most {} are read", bytes_.size(), kMostBytes));
    if (const auto magic = get<std::uint32_t>(); magic != kIrMagic) {
      return bad(fmt::format("it starts with {:#010x}, a kernel with {:#010x}", magic, kIrMagic));
    }
    const auto major = get<std::uint16_t>(), minor = get<std::uint16_t>();
    if (major != kIrMajor || minor != kIrMinor) {
      return bad(fmt::format("version {}.{}, this reader knows {}.{}", major, minor, kIrMajor, kIrMinor));
    }
    Counts counts{};
    for (std::uint32_t* count : {&counts.buffers, &counts.scalars, &counts.arrays, &counts.variables, &counts.exprs,
                                 &counts.stmts, &counts.top, &counts.tiles, &counts.transposes}) {
      *count = get<std::uint32_t>();
    }
    if (counts.bytes() != bytes_.size()) {
      return bad(fmt::format("its counts need {} bytes, there are {}", counts.bytes(), bytes_.size()));
    }
    const std::size_t end = bytes_.size() - kTrailerBytes;
    const std::uint64_t found = checksum(bytes_.first(end));
    std::uint64_t stored = 0;
    for (std::size_t i = 0; i < kTrailerBytes; ++i)
      stored |= std::to_integer<std::uint64_t>(bytes_[end + i]) << (8 * i);
    if (found != stored)
      return bad(fmt::format("its checksum is {:#x}, its bytes have {:#x}: it was changed", stored, found));
    return counts;
  }

  Result<void> read_buffer(KernelIr& kernel) {
    CRUCIBLE_TRY(const DType type, read_dtype());
    CRUCIBLE_TRY(const std::uint8_t flags, read_below(4, "a buffer's flags"));
    kernel.buffers.push_back({type, (flags & 1) != 0, (flags & 2) != 0});
    return {};
  }

  Result<void> read_expr(KernelIr& kernel) {
    Expr expr;
    CRUCIBLE_TRY(const std::uint8_t operation,
                 read_below(static_cast<std::uint8_t>(Operation::kFma) + 1, "an operation"));
    expr.operation = static_cast<Operation>(operation);
    CRUCIBLE_TRY(expr.type, read_dtype());
    get<std::uint16_t>();
    for (ExprId& in : expr.in) in = get<std::uint32_t>();
    expr.id = get<std::uint32_t>();
    expr.integer = get<std::int64_t>();
    expr.high = get<std::int64_t>();
    expr.real = std::bit_cast<double>(get<std::uint64_t>());
    kernel.exprs.push_back(expr);
    return {};
  }

  Result<void> read_tile(KernelIr& kernel) {
    Tile tile;
    tile.sums = get<std::uint32_t>();
    tile.base = get<std::uint32_t>();
    tile.rows = get<std::uint32_t>();
    tile.columns = get<std::uint32_t>();
    CRUCIBLE_TRY(const std::uint8_t start, read_below(static_cast<std::uint8_t>(TileStart::kAdd) + 1, "a tile's start"));
    tile.start = static_cast<TileStart>(start);
    CRUCIBLE_TRY(const std::uint8_t flags, read_below(4, "a tile's flags"));
    tile.left.is_array = (flags & 1) != 0;
    tile.right.is_array = (flags & 2) != 0;
    get<std::uint16_t>();
    tile.left.id = get<std::uint32_t>();
    tile.left.base = get<std::uint32_t>();
    tile.left.row_step = get<std::int64_t>();
    tile.left.step = get<std::int64_t>();
    tile.right.id = get<std::uint32_t>();
    tile.right.base = get<std::uint32_t>();
    tile.right.step = get<std::int64_t>();
    kernel.tiles.push_back(tile);
    return {};
  }

  Transpose read_transpose() {
    Transpose transpose;
    transpose.to = get<std::uint32_t>();
    transpose.from = get<std::uint32_t>();
    transpose.columns = get<std::uint32_t>();
    transpose.to_base = get<std::uint32_t>();
    transpose.from_base = get<std::uint32_t>();
    transpose.to_step = get<std::int64_t>();
    transpose.from_step = get<std::int64_t>();
    return transpose;
  }

  Result<void> read_block(std::vector<Stmt>& body, std::uint32_t count, std::uint32_t depth) {
    if (depth > kDeepestBlock) return bad(fmt::format("blocks nest deeper than {}", kDeepestBlock));
    for (std::uint32_t i = 0; i < count; ++i) {
      if (stmts_left_ == 0) return bad("a block has more statements than there are");
      --stmts_left_;
      Stmt stmt;
      CRUCIBLE_TRY(const std::uint8_t kind,
                   read_below(static_cast<std::uint8_t>(StmtKind::kPrefetch) + 1, "a statement's kind"));
      CRUCIBLE_TRY(const std::uint8_t mode,
                   read_below(static_cast<std::uint8_t>(LoopMode::kUnrolled) + 1, "a loop's mode"));
      stmt.kind = static_cast<StmtKind>(kind);
      stmt.mode = static_cast<LoopMode>(mode);
      get<std::uint16_t>();
      stmt.id = get<std::uint32_t>();
      stmt.a = get<std::uint32_t>();
      stmt.b = get<std::uint32_t>();
      const auto children = get<std::uint32_t>();
      CRUCIBLE_TRY_VOID(read_block(stmt.body, children, depth + 1));
      body.push_back(std::move(stmt));
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint32_t stmts_left_ = 0;
};

}  // namespace

std::vector<std::byte> serialize_ir(const KernelIr& kernel) {
  Writer out;
  out.put(kIrMagic);
  out.put(kIrMajor);
  out.put(kIrMinor);
  for (const std::size_t count :
       {kernel.buffers.size(), kernel.scalars.size(), kernel.arrays.size(), kernel.variables.size(),
        kernel.exprs.size(), std::size_t{count_stmts(kernel.body)}, kernel.body.size(), kernel.tiles.size(),
        kernel.transposes.size()}) {
    out.put(static_cast<std::uint32_t>(count));
  }
  for (const IrBuffer& buffer : kernel.buffers) {
    out.put(static_cast<std::uint8_t>(buffer.type));
    out.put(static_cast<std::uint8_t>((buffer.written ? 1 : 0) | (buffer.may_alias ? 2 : 0)));
  }
  for (const DType type : kernel.scalars) out.put(static_cast<std::uint8_t>(type));
  for (const IrArray& array : kernel.arrays) {
    out.put(static_cast<std::uint8_t>(array.type));
    out.put(array.size);
  }
  for (const Variable& variable : kernel.variables) {
    out.put(static_cast<std::uint8_t>(variable.type));
    out.put(static_cast<std::uint8_t>(variable.is_mutable ? 1 : 0));
  }
  for (const Expr& expr : kernel.exprs) {
    out.put(static_cast<std::uint8_t>(expr.operation));
    out.put(static_cast<std::uint8_t>(expr.type));
    out.put(std::uint16_t{0});
    for (const ExprId in : expr.in) out.put(in);
    out.put(expr.id);
    out.put(expr.integer);
    out.put(expr.high);
    out.put(std::bit_cast<std::uint64_t>(expr.real));
  }
  for (const Tile& tile : kernel.tiles) {
    for (const std::uint32_t number : {tile.sums, tile.base, tile.rows, tile.columns}) out.put(number);
    out.put(static_cast<std::uint8_t>(tile.start));
    out.put(static_cast<std::uint8_t>((tile.left.is_array ? 1 : 0) | (tile.right.is_array ? 2 : 0)));
    out.put(std::uint16_t{0});
    out.put(tile.left.id);
    out.put(tile.left.base);
    out.put(tile.left.row_step);
    out.put(tile.left.step);
    out.put(tile.right.id);
    out.put(tile.right.base);
    out.put(tile.right.step);
  }
  for (const Transpose& transpose : kernel.transposes) {
    for (const std::uint32_t number : {transpose.to, transpose.from, transpose.columns, transpose.to_base, transpose.from_base})
      out.put(number);
    out.put(transpose.to_step);
    out.put(transpose.from_step);
  }
  write_block(out, kernel.body);
  return out.finish();
}

Result<KernelIr> read_ir(std::span<const std::byte> bytes) { return Reader(bytes).run(); }

}  // namespace crucible::kernel
