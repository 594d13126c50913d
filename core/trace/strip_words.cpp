#include "core/trace/strip_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/trace/reservations.hpp"

namespace crucible::trace {

namespace {

bool is_in(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != std::ranges::end(words);
}

bool is_digits(std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; }

// What torch.optim and the recorder call states (frontends/torch/package/crucible_torch/naming.py).
constexpr std::array<std::string_view, 18> kStates = {
    "acc_delta",  "ax",       "eta",        "exp_avg",        "exp_avg_sq",      "exp_inf",
    "grad",       "grad_avg", "lr",         "max_exp_avg_sq", "momentum_buffer", "mu",
    "mu_product", "prev",     "square_avg", "step",           "step_size",       "sum"};
constexpr std::array<std::string_view, 13> kDevices = {"cpu", "cuda", "hip",           "hpu",    "ipu", "lazy", "meta",
                                                       "mps", "mtia", "privateuseone", "vulkan", "xla", "xpu"};
// Texts that arguments of PyTorch's own ops may be.
constexpr std::array<std::string_view, 66> kStrings = {"",
                                                       "L",
                                                       "U",
                                                       "r",
                                                       "none",
                                                       "mean",
                                                       "sum",
                                                       "prod",
                                                       "amax",
                                                       "amin",
                                                       "max",
                                                       "min",
                                                       "tanh",
                                                       "trunc",
                                                       "floor",
                                                       "zeros",
                                                       "border",
                                                       "reflection",
                                                       "reflect",
                                                       "replicate",
                                                       "circular",
                                                       "constant",
                                                       "bilinear",
                                                       "bicubic",
                                                       "nearest",
                                                       "nearest-exact",
                                                       "linear",
                                                       "trilinear",
                                                       "area",
                                                       "lower",
                                                       "higher",
                                                       "midpoint",
                                                       "left",
                                                       "right",
                                                       "fro",
                                                       "nuc",
                                                       "ij",
                                                       "xy",
                                                       "same",
                                                       "valid",
                                                       "ortho",
                                                       "forward",
                                                       "backward",
                                                       "reduced",
                                                       "complete",
                                                       "gels",
                                                       "gelsy",
                                                       "gelsd",
                                                       "gelss",
                                                       "gesvd",
                                                       "gesvdj",
                                                       "gesvda",
                                                       "use_mm_for_euclid_dist",
                                                       "use_mm_for_euclid_dist_if_necessary",
                                                       "donot_use_mm_for_euclid_dist",
                                                       "inf",
                                                       "-inf",
                                                       "tril",
                                                       "triu",
                                                       "avg",
                                                       "band",
                                                       "bor",
                                                       "bxor",
                                                       "product",
                                                       "premul_sum",
                                                       "unknown reduction"};
constexpr std::array<std::string_view, 27> kCompounds = {"sparse_coo",
                                                         "sparse_csr",
                                                         "sparse_csc",
                                                         "sparse_bsr",
                                                         "sparse_bsc",
                                                         "nested",
                                                         "quantized_per_tensor",
                                                         "quantized_per_channel",
                                                         "mkldnn",
                                                         "conjugate",
                                                         "conjugate_negative",
                                                         "negative",
                                                         "indices",
                                                         "values",
                                                         "sparse_dim",
                                                         "dense_dim",
                                                         "compressed_indices",
                                                         "plain_indices",
                                                         "buffer",
                                                         "sizes",
                                                         "strides",
                                                         "offsets",
                                                         "data",
                                                         "scale",
                                                         "scales",
                                                         "zero_point",
                                                         "zero_points"};
constexpr std::array<std::string_view, 8> kMoreCompounds = {"axis",         "base",   "coalesced", "dtype",
                                                            "is_coalesced", "opaque", "quantized", "zero"};
// How texts begin that the recorder makes of its own words and of operators' names.
constexpr std::array<std::string_view, 11> kNotRecorded = {kOtherThreads,
                                                           kSetting,
                                                           "outputs that ",
                                                           "random numbers inside ",
                                                           "final bytes of a state that ",
                                                           "changes of a storage by something that is not an op",
                                                           "memory of `empty` that no recorded op wrote, read by ",
                                                           "sparse_",
                                                           "nested tensors",
                                                           "quantized tensors",
                                                           "tensors without a storage"};

/// "ij,jk->ik", "...a,b": what einsum's equations consist of.
bool is_equation(std::string_view text) {
  constexpr std::string_view kSigns = "->,. ";
  std::size_t letters = 0;
  for (const char sign : text) {
    const bool is_letter = (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z');
    if (!is_letter && kSigns.find(sign) == std::string_view::npos) return false;
    letters = is_letter ? letters + 1 : 0;
    if (letters > 8) return false;  // more dimensions than tensors have in a row: a word
  }
  return text.find(',') != std::string_view::npos || text.find("->") != std::string_view::npos;
}

}  // namespace

std::uint64_t keyed(const ContentHash& key, std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(key.bytes)));
  hash.update(std::as_bytes(std::span(text)));
  const ContentHash made = hash.finish();
  std::uint64_t bits = 0;
  std::memcpy(&bits, made.bytes.data(), sizeof bits);
  return bits;
}

const std::string& StripWords::hashed(std::string_view word) {
  const auto known = known_.find(word);
  if (known != known_.end()) return known->second;
  return known_.emplace(word, fmt::format("n{:010x}", keyed(key_, fmt::format("name {}", word)) >> 24)).first->second;
}

std::string StripWords::dotted(std::string_view text) {
  std::string made;
  for (std::size_t start = 0; start <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find('.', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    if (start > 0) made += '.';
    made += is_digits(part) ? part : hashed(part);
    start = end + 1;
  }
  return made;
}

std::string StripWords::state(std::string_view text) {
  const std::size_t of = text.find(" of ");
  if (of == std::string_view::npos) return dotted(text);
  const std::string_view first = text.substr(0, of);
  return (is_in(first, kStates) ? std::string(first) : dotted(first)) + " of " + dotted(text.substr(of + 4));
}

std::string StripWords::file(std::string_view text) {
  if (text.empty()) return "";
  return hashed(text) + (text.ends_with(".py") ? ".py" : "");
}

std::string StripWords::device(std::string_view text) {
  constexpr std::string_view kDefault = "default ";
  const bool is_default = text.starts_with(kDefault);
  const std::string_view whole = is_default ? text.substr(kDefault.size()) : text;
  const std::string_view kind = whole.substr(0, whole.find(':'));
  const bool is_known = whole.empty() || (is_in(kind, kDevices) &&
                                          (kind.size() == whole.size() || is_digits(whole.substr(kind.size() + 1))));
  return (is_default ? std::string(kDefault) : "") + (is_known ? std::string(whole) : hashed(whole));
}

std::string StripWords::string(std::string_view text) {
  if (is_in(text, kStrings) || is_digits(text) || is_equation(text)) return std::string(text);
  return hashed(text);
}

std::string StripWords::opaque(std::string_view text) {
  constexpr std::string_view kGroup = "process group '";
  if (text.starts_with(kGroup)) {
    const std::size_t end = text.find('\'', kGroup.size());
    const std::string_view group = text.substr(kGroup.size(), end - kGroup.size()),
                           rest = end == std::string_view::npos ? "" : text.substr(end);
    // The rest are numbers of ranks in words of our own.
    return std::string(kGroup) + (is_digits(group) ? std::string(group) : hashed(group)) + std::string(rest);
  }
  const bool is_own =
      text.starts_with("c10d::") || text.starts_with("__torch__.torch.classes.") || text == "symbolic scalar";
  return is_own ? std::string(text) : hashed(text);
}

std::string StripWords::compound(std::string_view text) {
  return is_in(text, kCompounds) || is_in(text, kMoreCompounds) ? std::string(text) : hashed(text);
}

std::string StripWords::not_recorded(std::string_view text) {
  const bool is_own =
      std::ranges::any_of(kNotRecorded, [&](std::string_view begin) { return text.starts_with(begin); });
  return is_own ? std::string(text) : "something whose description was stripped";
}

std::string StripWords::framework(std::string_view text) {
  constexpr std::string_view kTorch = "torch ";
  if (!text.starts_with(kTorch)) return "";
  std::size_t end = kTorch.size();
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) ++end;
  std::string made(text.substr(0, end));
  for (const std::string_view vendor :
       {", built for the CPU", ", built for NVIDIA CUDA", ", built for AMD ROCm", ", built for Intel XPU"}) {
    if (text.find(vendor) != std::string_view::npos) made += vendor;
  }
  return made;
}

std::string StripWords::frontend(std::string_view text) {
  return text.starts_with("crucible ") ? std::string(text) : text.empty() ? "" : hashed(text);
}

}  // namespace crucible::trace
