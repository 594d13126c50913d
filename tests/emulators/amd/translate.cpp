// Finding kernels in preprocessed text: see translate.hpp.
#include "tests/emulators/amd/translate.hpp"

#include <algorithm>
#include <regex>

namespace crucible::emulator {
namespace {

const std::regex& meeting_words() {
  static const std::regex words(
      R"(\b(__syncthreads\w*|__syncwarp|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__activemask|__builtin_amdgcn_s_barrier|)"
      R"(__builtin_amdgcn_wave_barrier|__builtin_amdgcn_ds_bpermute|__builtin_amdgcn_(mfma|wmma)_\w+)\b)");
  return words;
}

const std::regex& matrix_words() {
  static const std::regex words(R"(\b__builtin_amdgcn_(mfma|wmma)_)");
  return words;
}

const std::regex& index_words() {
  static const std::regex words(R"(\b(threadIdx|blockIdx|blockDim|gridDim|__builtin_amdgcn_(work|grid_size)\w*)\b)");
  return words;
}

bool contains(const std::string& text, const std::regex& words) { return std::regex_search(text, words); }

/// Behind the bracket that closes the one at `open`; strings are skipped. npos when it is missing.
std::size_t behind_bracket(const std::string& text, std::size_t open, char opening, char closing) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == opening) {
      ++depth;
    } else if (c == closing && --depth == 0) {
      return i + 1;
    }
  }
  return std::string::npos;
}

/// The attributes as keywords, which device_on_cpu.hpp defines.
std::string with_keywords(std::string text) {
  static const std::regex attribute(
      R"(__attribute__\s*\(\(\s*(?:__)?(global|device|host|shared|constant)(?:__)?\s*\)\))");
  text = std::regex_replace(text, attribute, " __$1__ ");
  // A pointer that was read from memory has the tag of a device's address still.
  static const std::regex followed(
      R"(\(\s*((?:const\s+)?\w+)\s*__attribute__\s*\(\(\s*address_space\s*\(\s*1\s*\)\s*\)\)\s*\*\s*\))");
  text = std::regex_replace(text, followed, "($1*)emu_followed");
  static const std::regex dynamic(
      R"(extern\s+(?:__shared__\s+)(?:__attribute__\s*\(\([^()]*(?:\([^()]*\))?\)\)\s*)?([\w ]+?)\s*(\w+)\s*\[\s*\]\s*;)");
  return std::regex_replace(text, dynamic, "EMU_DYNAMIC_SHARED($1, $2);");
}

struct Found {
  std::string name;
  std::size_t parameters = 0, end = 0;  // behind '('; behind the body or the declaration's ';'
  bool defined = false;
  unsigned most_threads = 1024;
};

/// The next kernel at or behind `from`, its end npos when there is none.
Found next_kernel(const std::string& text, std::size_t from) {
  static const std::regex head(
      R"(\b__global__\b(?:[^;{}()]|__launch_bounds__\s*\([^()]*\)|__attribute__\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\))*?\bvoid\s+)"
      R"((?:__launch_bounds__\s*\([^()]*\)\s*|__attribute__\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\)\s*)*(\w+)\s*\()");
  std::smatch match;
  Found found;
  found.end = std::string::npos;
  if (!std::regex_search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), match, head)) return found;
  found.name = match[1];
  found.parameters = from + static_cast<std::size_t>(match.position(0) + match.length(0));
  static const std::regex bound(R"((?:__launch_bounds__\s*\(\s*|amdgpu_flat_work_group_size\s*\(\s*\d+\s*,\s*)(\d+))");
  const std::string words = match[0];
  std::smatch number;
  if (std::regex_search(words, number, bound)) found.most_threads = static_cast<unsigned>(std::stoul(number[1]));
  const std::size_t behind = behind_bracket(text, found.parameters - 1, '(', ')');
  if (behind == std::string::npos) return found;
  const std::size_t body = text.find_first_of("{;", behind);
  if (body == std::string::npos) return found;
  found.defined = text[body] == '{';
  found.end = found.defined ? behind_bracket(text, body, '{', '}') : body + 1;
  return found;
}

}  // namespace

Translation translate(std::string_view preprocessed) {
  Translation result;
  const std::string text = with_keywords(std::string(preprocessed));
  std::string outside;
  std::size_t from = 0;
  while (true) {
    const Found found = next_kernel(text, from);
    if (found.end == std::string::npos) break;
    const bool none = text.find_first_not_of(" \t\n\r", found.parameters) == text.find(')', found.parameters);
    const std::string head = text.substr(from, found.parameters - from);
    outside += head;
    result.text += head + (none ? "EMU_INDICES" : "EMU_INDICES, ");
    const std::string rest = text.substr(found.parameters, found.end - found.parameters);
    result.text += rest;
    from = found.end;
    if (found.defined) {
      result.kernels.push_back({found.name, contains(rest, meeting_words()), found.most_threads});
    }
  }
  outside += text.substr(from);
  result.text += text.substr(from) + "\n";
  result.matrices = contains(text, matrix_words());
  result.indices_outside = contains(outside, index_words());
  // A function that meets may be called by any kernel.
  const bool any = contains(outside, meeting_words());
  for (TranslatedKernel& kernel : result.kernels) {
    kernel.meets |= any;
    result.text += (kernel.meets ? "EMU_THREAD_KERNEL(" : "EMU_BLOCK_KERNEL(") + kernel.name + ")\n";
  }
  return result;
}

}  // namespace crucible::emulator
