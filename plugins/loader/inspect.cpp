// Reads .dynsym by hand: Boost.DLL 1.74's library_info reads .symtab, which a stripped library does not have.
// Every offset comes from the file and is checked before it is followed.
#include "plugins/loader/inspect.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace crucible::backend {
namespace {

/// A file's bytes, mapped for reading; empty when it cannot be.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file) {
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    if (descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      const auto size = static_cast<std::size_t>(status.st_size);
      void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (data != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(data), size};
    }
    if (descriptor >= 0) close(descriptor);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// The T at `offset`, if all of it is inside the file.
template <class T>
std::optional<T> read_at(std::span<const std::byte> file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

/// True when the symbols of section `symbols`, named in section `names`, define `wanted`.
bool defines(std::span<const std::byte> file, const Elf64_Shdr& symbols, const Elf64_Shdr& names,
             const std::string& wanted) {
  if (names.sh_offset > file.size() || names.sh_size > file.size() - names.sh_offset) return false;
  const std::span<const std::byte> texts = file.subspan(names.sh_offset, names.sh_size);
  for (std::uint64_t i = 0; i < symbols.sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = read_at<Elf64_Sym>(file, symbols.sh_offset + i * sizeof(Elf64_Sym));
    if (!symbol) return false;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= texts.size()) continue;
    const std::size_t size = wanted.size() + 1;  // with its closing zero
    if (texts.size() - symbol->st_name < size) continue;
    if (std::memcmp(texts.data() + symbol->st_name, wanted.c_str(), size) == 0) return true;
  }
  return false;
}

}  // namespace

bool exports_symbol(const std::filesystem::path& path, std::string_view symbol) {
  const MappedFile mapped(path);
  const std::span<const std::byte> file = mapped.bytes();
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_type != ET_DYN || header->e_shentsize != sizeof(Elf64_Shdr)) {
    return false;
  }
  const auto section = [&](std::uint64_t index) {
    return read_at<Elf64_Shdr>(file, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto symbols = section(i);
    if (!symbols || symbols->sh_type != SHT_DYNSYM) continue;
    const auto names = section(symbols->sh_link);
    if (names && defines(file, *symbols, *names, std::string(symbol))) return true;
  }
  return false;
}

}  // namespace crucible::backend
