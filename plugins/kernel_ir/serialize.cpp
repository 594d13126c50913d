// Writing and reading the kernel IR: see serialize.hpp. fields() names what a record holds, in order; a Writer takes it
// apart, a Reader puts it together. Records have fixed sizes, so the header's counts must add up to the size of the
// whole before anything is allocated.
#include "plugins/kernel_ir/serialize.hpp"

#include <bit>
#include <type_traits>

#include "plugins/kernel_ir/check.hpp"
#include "plugins/kernel_ir/words.hpp"

namespace crucible::kernel {
namespace {

constexpr std::uint64_t kTrailerBytes = 8, kMostBytes = std::uint64_t{64} << 20;
constexpr int kDeepestBlock = 64;

/// FNV-1a: one changed byte always changes it, since each step maps states one to one.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ull;
  return hash;
}

struct Header {
  std::uint32_t magic = kIrMagic;
  std::uint16_t major = kIrMajor, minor = kIrMinor;
  std::uint32_t buffers = 0, scalars = 0, arrays = 0, variables = 0, exprs = 0, stmts = 0, top = 0, tiles = 0,
                transposes = 0;
};

class Writer {
 public:
  template <class T>
  using Of = const T;

  template <class T>
  void number(const T& value) {
    std::uint64_t bits = 0;
    if constexpr (std::is_same_v<T, double>) {
      bits = std::bit_cast<std::uint64_t>(value);
    } else {
      bits = static_cast<std::uint64_t>(value);
    }
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void type(const DType& type) { number(type); }
  template <class T>
  void one_of(const T& value, T, const char*) {
    number(value);
  }
  template <class... Flags>
  void flags(const char*, const Flags&... flags) {
    std::uint8_t bits = 0, at = 0;
    ((bits = static_cast<std::uint8_t>(bits | (flags ? 1 : 0) << at++)), ...);
    number(bits);
  }
  void reserved() { number(std::uint16_t{0}); }

  std::vector<std::byte> bytes;
};

class Reader {
 public:
  template <class T>
  using Of = T;

  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  void number(T& value) {  // whoever asks has seen that the bytes are there
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) bits |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * i);
    at_ += sizeof(T);
    if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(bits);
    } else {
      value = static_cast<T>(bits);
    }
  }
  void type(DType& type) {
    std::uint8_t bits = 0;
    number(bits);
    if (bits > static_cast<std::uint8_t>(DType::kF64))
      return refuse(at_before(1, bits, " is no type that a kernel computes with"));
    type = static_cast<DType>(bits);
  }
  template <class T>
  void one_of(T& value, T last, const char* what) {
    std::uint8_t bits = 0;
    number(bits);
    if (check_below(bits, static_cast<std::uint8_t>(last) + 1, what)) value = static_cast<T>(bits);
  }
  template <class... Flags>
  void flags(const char* what, Flags&... flags) {
    std::uint8_t bits = 0, at = 0;
    number(bits);
    check_below(bits, 1 << sizeof...(flags), what);
    ((flags = (bits >> at++ & 1) != 0), ...);
  }
  void reserved() { at_ += 2; }

  void refuse(std::string_view what) {
    if (!has_fault()) fault_.what = words("kernel IR: ", what);
  }
  void refuse_version(std::string version) {
    refuse(words("version ", version, ", this reader knows ", ir_version(kIrMajor, kIrMinor)));
    fault_.version = std::move(version);
  }
  bool has_fault() const { return !fault_.what.empty(); }
  const IrFault& fault() const { return fault_; }

 private:
  std::string at_before(std::size_t size, std::uint8_t bits, std::string_view what) const {
    return words("byte ", at_ - size, ": ", bits, what);
  }
  bool check_below(std::uint8_t bits, int limit, const char* what) {
    if (bits < limit) return true;
    refuse(words("byte ", at_ - 1, ": ", what, " is ", bits, ", must be below ", limit));
    return false;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  IrFault fault_;
};

template <class Archive>
void fields(Archive& a, typename Archive::template Of<Header>& header) {
  a.number(header.magic);
  a.number(header.major);
  a.number(header.minor);
  for (auto* count : {&header.buffers, &header.scalars, &header.arrays, &header.variables, &header.exprs, &header.stmts,
                      &header.top, &header.tiles, &header.transposes}) {
    a.number(*count);
  }
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<IrBuffer>& buffer) {
  a.type(buffer.type);
  a.flags("a buffer's flags", buffer.written, buffer.may_alias);
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<DType>& scalar) {
  a.type(scalar);
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<IrArray>& array) {
  a.type(array.type);
  a.number(array.size);
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<Variable>& variable) {
  a.type(variable.type);
  a.flags("a variable's flags", variable.is_mutable);
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<Expr>& expr) {
  a.one_of(expr.operation, Operation::kFma, "an operation");
  a.type(expr.type);
  a.reserved();
  for (auto& in : expr.in) a.number(in);
  a.number(expr.id);
  a.number(expr.integer);
  a.number(expr.high);
  a.number(expr.real);
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<Tile>& tile) {
  a.number(tile.sums);
  a.number(tile.base);
  a.number(tile.rows);
  a.number(tile.columns);
  a.one_of(tile.start, TileStart::kAdd, "a tile's start");
  a.flags("a tile's flags", tile.left.is_array, tile.right.is_array);
  a.reserved();
  a.number(tile.left.id);
  a.number(tile.left.base);
  a.number(tile.left.row_step);
  a.number(tile.left.step);
  a.number(tile.right.id);
  a.number(tile.right.base);
  a.number(tile.right.step);
}

template <class Archive>
void fields(Archive& a, typename Archive::template Of<Transpose>& copy) {
  for (auto* number : {&copy.to, &copy.from, &copy.columns, &copy.to_base, &copy.from_base}) a.number(*number);
  a.number(copy.to_step);
  a.number(copy.from_step);
}

/// `inside`: how many statements its own block has; they follow.
template <class Archive>
void fields(Archive& a, typename Archive::template Of<Stmt>& stmt,
            typename Archive::template Of<std::uint32_t>& inside) {
  a.one_of(stmt.kind, StmtKind::kPrefetch, "a statement's kind");
  a.one_of(stmt.mode, LoopMode::kUnrolled, "a loop's mode");
  a.reserved();
  a.number(stmt.id);
  a.number(stmt.a);
  a.number(stmt.b);
  a.number(inside);
}

template <class... Record>
std::uint64_t bytes_of(const Record&... record) {
  Writer writer;
  fields(writer, record...);
  return writer.bytes.size();
}

/// All that stands before the statements, in order, each with its count. `visit` gets a list and its count.
template <class Kernel, class Counts, class Visit>
void each_list(Kernel& kernel, Counts& header, Visit visit) {
  visit(kernel.buffers, header.buffers);
  visit(kernel.scalars, header.scalars);
  visit(kernel.arrays, header.arrays);
  visit(kernel.variables, header.variables);
  visit(kernel.exprs, header.exprs);
  visit(kernel.tiles, header.tiles);
  visit(kernel.transposes, header.transposes);
}

std::uint32_t count_stmts(const std::vector<Stmt>& body) {
  auto count = static_cast<std::uint32_t>(body.size());
  for (const Stmt& stmt : body) count += count_stmts(stmt.body);
  return count;
}

void write_block(Writer& out, const std::vector<Stmt>& body) {
  for (const Stmt& stmt : body) {
    fields(out, stmt, static_cast<std::uint32_t>(stmt.body.size()));
    write_block(out, stmt.body);
  }
}

void read_block(Reader& in, std::vector<Stmt>& body, std::uint32_t count, std::uint32_t& left, int depth) {
  if (depth > kDeepestBlock) return in.refuse(words("blocks nest deeper than ", kDeepestBlock));
  for (std::uint32_t i = 0; i < count && !in.has_fault(); ++i) {
    if (left == 0) return in.refuse("a block has more statements than there are");
    --left;
    std::uint32_t inside = 0;
    fields(in, body.emplace_back(), inside);
    read_block(in, body.back().body, inside, left, depth + 1);
  }
}

/// Takes nothing but the header, and whether the rest is what it says.
void check_header(Reader& in, const Header& header, std::span<const std::byte> bytes) {
  if (header.magic != kIrMagic) return in.refuse("the first four bytes are not CKIR");
  if (header.major != kIrMajor || header.minor != kIrMinor)
    return in.refuse_version(ir_version(header.major, header.minor));
  std::uint64_t needed = bytes_of(header) + header.stmts * bytes_of(Stmt{}, std::uint32_t{0}) + kTrailerBytes;
  KernelIr none;
  each_list(none, header, [&](const auto& list, std::uint32_t count) {
    needed += count * bytes_of(typename std::remove_cvref_t<decltype(list)>::value_type{});
  });
  if (needed != bytes.size()) return in.refuse(words("its counts need ", needed, " bytes, there are ", bytes.size()));
  std::uint64_t stored = 0;
  Reader(bytes.last(kTrailerBytes)).number(stored);
  if (stored != checksum(bytes.first(bytes.size() - kTrailerBytes)))
    in.refuse("its checksum does not fit its bytes: it was changed");
}

}  // namespace

std::string ir_version(std::uint16_t major, std::uint16_t minor) { return words(major, ".", minor); }

std::vector<std::byte> serialize_ir(const KernelIr& kernel) {
  Header header{.stmts = count_stmts(kernel.body), .top = static_cast<std::uint32_t>(kernel.body.size())};
  each_list(kernel, header,
            [](const auto& list, std::uint32_t& count) { count = static_cast<std::uint32_t>(list.size()); });
  Writer out;
  fields(out, header);
  each_list(kernel, header, [&](const auto& list, std::uint32_t) {
    for (const auto& record : list) fields(out, record);
  });
  write_block(out, kernel.body);
  out.number(checksum(out.bytes));
  return std::move(out.bytes);
}

std::variant<KernelIr, IrFault> deserialize_ir(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Header header;
  KernelIr kernel;
  if (const std::uint64_t least = bytes_of(header) + kTrailerBytes; bytes.size() < least) {
    in.refuse(words(bytes.size(), " bytes, a kernel has at least ", least));
  } else if (bytes.size() > kMostBytes) {
    in.refuse(words(bytes.size(), " bytes, at most ", kMostBytes, " are read"));
  } else {
    fields(in, header);
    check_header(in, header, bytes);
  }
  if (in.has_fault()) return in.fault();
  each_list(kernel, header, [&](auto& list, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count && !in.has_fault(); ++i) fields(in, list.emplace_back());
  });
  std::uint32_t left = header.stmts;
  if (!in.has_fault()) read_block(in, kernel.body, header.top, left, 0);
  if (left != 0) in.refuse(words(left, " statements belong to no block"));
  if (!in.has_fault()) {
    if (std::string unsound = check_types(kernel); !unsound.empty()) in.refuse(unsound);
  }
  if (in.has_fault()) return in.fault();
  return kernel;
}

}  // namespace crucible::kernel
