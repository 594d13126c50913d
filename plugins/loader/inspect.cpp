// Reads .dynsym by hand: Boost.DLL 1.74's library_info reads .symtab, which a stripped library does not have. The file
// is read and not mapped: a mapped file that somebody makes shorter meanwhile is a SIGBUS.
#include "plugins/loader/inspect.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace crucible::backend {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr Elf64_Half kMachine = EM_RISCV;
#else
#error "the number of this machine in the headers of its programs is not known here"
#endif

std::string machine_name(Elf64_Half machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "x86 of 32 bits";
    case EM_ARM:
      return "ARM of 32 bits";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "POWER";
    default:
      return fmt::format("machine {}", machine);
  }
}

class Reader {
 public:
  explicit Reader(int descriptor) : descriptor_(descriptor) {
    struct stat status = {};
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) size_ = static_cast<std::uint64_t>(status.st_size);
  }
  std::uint64_t size() const { return size_; }
  bool has(std::uint64_t offset, std::uint64_t size) const { return offset <= size_ && size <= size_ - offset; }

  /// The bytes of a part of the file, or nothing when not all of it is there.
  std::optional<std::string> read(std::uint64_t offset, std::uint64_t size) const {
    if (!has(offset, size)) return std::nullopt;
    std::string bytes(size, '\0');
    std::size_t have = 0;
    while (have < size) {
      const ssize_t got = pread(descriptor_, bytes.data() + have, size - have, static_cast<off_t>(offset + have));
      if (got <= 0) return std::nullopt;
      have += static_cast<std::size_t>(got);
    }
    return bytes;
  }

  /// `count` items of type T at `offset`; nothing when they are not all in the file.
  template <class T>
  std::optional<std::vector<T>> items(std::uint64_t offset, std::uint64_t count) const {
    if (count > size_ / sizeof(T)) return std::nullopt;
    const auto bytes = read(offset, count * sizeof(T));
    if (!bytes) return std::nullopt;
    std::vector<T> result(count);
    if (count != 0) std::memcpy(static_cast<void*>(result.data()), bytes->data(), bytes->size());
    return result;
  }

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// The zero-ended text at `offset` of a table of texts; "" when it has no end there.
std::string text_at(const std::string& texts, std::uint64_t offset) {
  const std::size_t end = offset < texts.size() ? texts.find('\0', offset) : std::string::npos;
  return end == std::string::npos ? "" : texts.substr(offset, end - offset);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(':', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string header_problem(const Reader& reader, const Elf64_Ehdr& header) {
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is a program of 32 bits, this host has 64";
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) return "its numbers have the other byte order";
  if (header.e_machine != kMachine) {
    return fmt::format("it is built for {}, this host is {}: get the build for this machine",
                       machine_name(header.e_machine), machine_name(kMachine));
  }
  if (header.e_type != ET_DYN) return "it is not a shared object";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return "its headers are damaged";
  }
  const auto segments = reader.items<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  bool whole = segments && reader.has(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (std::size_t i = 0; whole && i < segments->size(); ++i) {
    whole = (*segments)[i].p_type != PT_LOAD || reader.has((*segments)[i].p_offset, (*segments)[i].p_filesz);
  }
  if (!whole) return fmt::format("it is cut off after {} bytes: copy it again", reader.size());
  return "";
}

void read_symbols(const Reader& reader, const Elf64_Shdr& section, const std::string& texts, Inspection& result) {
  const auto symbols = reader.items<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
  if (!symbols) return;
  for (const Elf64_Sym& symbol : *symbols) {
    const unsigned bind = ELF64_ST_BIND(symbol.st_info), visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || bind == STB_LOCAL) continue;
    if (visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
    if (std::string name = text_at(texts, symbol.st_name); !name.empty()) result.exports.push_back(std::move(name));
  }
}

void read_dynamic(const Reader& reader, const Elf64_Shdr& section, const std::string& texts, Inspection& result) {
  const auto entries = reader.items<Elf64_Dyn>(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn));
  if (!entries) return;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) result.needed.push_back(text_at(texts, entry.d_un.d_val));
    if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) result.folders = split(text_at(texts, entry.d_un.d_val));
  }
}

Inspection inspect(int descriptor, bool with_exports) {
  Inspection result;
  const Reader reader(descriptor);
  const auto headers = reader.items<Elf64_Ehdr>(0, 1);
  const auto magic = reader.read(0, SELFMAG);
  if (!magic || *magic != std::string_view(ELFMAG, SELFMAG)) return result.problem = "it is not an ELF file", result;
  if (!headers)
    return result.problem = fmt::format("it is cut off after {} bytes: copy it again", reader.size()), result;
  const Elf64_Ehdr& header = headers->front();
  result.problem = header_problem(reader, header);
  if (!result.problem.empty()) return result;
  const auto sections = reader.items<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  if (!sections) return result.problem = "its headers are damaged", result;
  for (const Elf64_Shdr& section : *sections) {
    const bool is_wanted = section.sh_type == SHT_DYNAMIC || (section.sh_type == SHT_DYNSYM && with_exports);
    if (!is_wanted) continue;
    if (section.sh_link >= sections->size()) continue;
    const Elf64_Shdr& names = (*sections)[section.sh_link];
    const auto texts = reader.read(names.sh_offset, names.sh_size);
    if (!texts) continue;
    if (section.sh_type == SHT_DYNSYM) read_symbols(reader, section, *texts, result);
    if (section.sh_type == SHT_DYNAMIC) read_dynamic(reader, section, *texts, result);
  }
  return result;
}

}  // namespace

bool Inspection::exports_symbol(std::string_view name) const {
  return std::find(exports.begin(), exports.end(), name) != exports.end();
}

Inspection inspect_file(int descriptor) { return inspect(descriptor, true); }

Inspection inspect_needs(int descriptor) { return inspect(descriptor, false); }

bool exports_symbol(const std::filesystem::path& path, std::string_view symbol) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool found = inspect_file(descriptor).exports_symbol(symbol);
  close(descriptor);
  return found;
}

}  // namespace crucible::backend
