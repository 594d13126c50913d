// Reads the dynamic section the way the dynamic loader does: through program headers, not sections, which a stripped
// file may lack. The number of symbols comes from the section headers or, without them, from the hash table.
#include "plugins/conformance/elf_facts.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

namespace crucible::conformance {
namespace {

/// The bytes of a file, by offset and by the address at which they will be mapped.
class Image {
 public:
  explicit Image(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    }
    return std::nullopt;
  }
  /// The text at an offset of the string table; "" when it is not there or has no end.
  std::string text(std::uint64_t offset) const {
    const std::uint64_t start = strings + offset;
    if (start >= bytes_.size()) return "";
    const std::size_t end = bytes_.find('\0', start);
    return end == std::string::npos ? "" : bytes_.substr(start, end - start);
  }

  std::vector<Elf64_Phdr> segments;
  std::uint64_t strings = 0;

 private:
  std::string bytes_;
};

struct Dynamic {
  std::map<std::int64_t, std::uint64_t> values;  // by tag
  std::vector<std::uint64_t> needed;
  bool text_relocations = false;
};

Dynamic read_dynamic(const Image& image) {
  Dynamic dynamic;
  for (const Elf64_Phdr& segment : image.segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t i = 0; i < segment.p_filesz / sizeof(Elf64_Dyn); ++i) {
      const auto entry = image.at<Elf64_Dyn>(segment.p_offset + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) dynamic.needed.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0))
        dynamic.text_relocations = true;
      dynamic.values[entry->d_tag] = entry->d_un.d_val;
    }
  }
  return dynamic;
}

/// The file that each version index needs.
std::map<std::uint16_t, std::string> needed_versions(const Image& image, const Dynamic& dynamic) {
  std::map<std::uint16_t, std::string> result;
  const auto table = dynamic.values.find(DT_VERNEED);
  if (table == dynamic.values.end()) return result;
  auto offset = image.offset_of(table->second);
  for (int files = 0; offset && files < 1000; ++files) {
    const auto need = image.at<Elf64_Verneed>(*offset);
    if (!need) break;
    std::uint64_t aux = *offset + need->vn_aux;
    for (std::uint16_t i = 0; i < need->vn_cnt; ++i) {
      const auto version = image.at<Elf64_Vernaux>(aux);
      if (!version) break;
      result[version->vna_other & 0x7fff] = image.text(need->vn_file);
      aux += version->vna_next;
    }
    if (need->vn_next == 0) break;
    *offset += need->vn_next;
  }
  return result;
}

/// Number of dynamic symbols: of the section of that type, else as the GNU hash table implies.
std::uint64_t symbol_count(const Image& image, const Elf64_Ehdr& header, const Dynamic& dynamic) {
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = image.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section && section->sh_type == SHT_DYNSYM) return section->sh_size / sizeof(Elf64_Sym);
  }
  if (const auto hash = dynamic.values.find(DT_HASH); hash != dynamic.values.end()) {
    if (const auto at = image.offset_of(hash->second)) return image.at<std::uint32_t>(*at + 4).value_or(0);
  }
  return 0;
}

void read_symbols(const Image& image, const Elf64_Ehdr& header, const Dynamic& dynamic, ElfFacts& facts) {
  const auto table = dynamic.values.find(DT_SYMTAB);
  if (table == dynamic.values.end()) return;
  const auto start = image.offset_of(table->second);
  if (!start) return;
  const auto files = needed_versions(image, dynamic);
  std::optional<std::uint64_t> versions;
  if (const auto versym = dynamic.values.find(DT_VERSYM); versym != dynamic.values.end())
    versions = image.offset_of(versym->second);
  const std::uint64_t count = symbol_count(image, header, dynamic);
  for (std::uint64_t i = 1; i < count; ++i) {
    const auto symbol = image.at<Elf64_Sym>(*start + i * sizeof(Elf64_Sym));
    if (!symbol) return;
    const int binding = ELF64_ST_BIND(symbol->st_info), visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    if (binding == STB_LOCAL || ELF64_ST_TYPE(symbol->st_info) == STT_SECTION) continue;
    const std::string name = image.text(symbol->st_name);
    if (name.empty()) continue;
    if (symbol->st_shndx != SHN_UNDEF) {
      const bool is_version =
          symbol->st_shndx == SHN_ABS && symbol->st_size == 0;  // the name of a version script's node
      if ((visibility == STV_DEFAULT || visibility == STV_PROTECTED) && !is_version) facts.exported.push_back(name);
      continue;
    }
    UndefinedSymbol undefined{name, "", binding == STB_WEAK};
    if (versions) {
      const auto file = files.find(image.at<std::uint16_t>(*versions + i * 2).value_or(0) & 0x7fff);
      if (file != files.end()) undefined.library = file->second;
    }
    facts.undefined.push_back(std::move(undefined));
  }
}

}  // namespace

Result<ElfFacts> read_elf(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  Image image(std::string{std::istreambuf_iterator<char>(stream), {}});
  const auto broken = [&](std::string_view what) {
    return Error{ErrorCode::kBadInput, fmt::format("{} is not a plugin: {}", file.string(), what)};
  };
  if (!stream) return broken("it cannot be read");
  const auto header = image.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return broken("it is no ELF file");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return broken("it is not a 64-bit little-endian ELF file");
  }
  if (header->e_type != ET_DYN) return broken("it is no shared object");
  ElfFacts facts;
  facts.type = header->e_type;
  facts.machine = header->e_machine;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = image.at<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return broken("it ends before its program headers do");
    if (segment->p_type == PT_GNU_STACK) facts.executable_stack = (segment->p_flags & PF_X) != 0;
    image.segments.push_back(*segment);
  }
  const Dynamic dynamic = read_dynamic(image);
  if (dynamic.values.empty()) return broken("it has no dynamic section");
  if (const auto table = dynamic.values.find(DT_STRTAB); table != dynamic.values.end())
    image.strings = image.offset_of(table->second).value_or(0);
  if (image.strings == 0) return broken("its dynamic section names no texts");
  facts.text_relocations = dynamic.text_relocations;
  for (const std::uint64_t offset : dynamic.needed) facts.needed.push_back(image.text(offset));
  for (const std::int64_t tag : {DT_RPATH, DT_RUNPATH}) {
    if (const auto path = dynamic.values.find(tag); path != dynamic.values.end())
      facts.search_path = image.text(path->second);
  }
  read_symbols(image, *header, dynamic, facts);
  return facts;
}

}  // namespace crucible::conformance
