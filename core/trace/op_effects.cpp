// What is told apart by name stands in the three tables at the top.
#include "core/trace/op_effects.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

/// They write every element of their first argument and read none of it, in every overload.
constexpr std::array<std::string_view, 13> kReplaceFirst = {
    "aten::zero_",       "aten::fill_",          "aten::copy_",         "aten::normal_",      "aten::uniform_",
    "aten::random_",     "aten::bernoulli_",     "aten::cauchy_",       "aten::exponential_", "aten::geometric_",
    "aten::log_normal_", "aten::_foreach_zero_", "aten::_foreach_copy_"};

/// True for operators that have running statistics among their arguments and change them, which their schemas keep
/// quiet.
bool changes_running_statistics(std::string_view name) {
  return name.find("backward") == std::string_view::npos && name.find("no_training") == std::string_view::npos;
}

bool is_false(const Arg& arg) { return arg.kind == Arg::Kind::kBool && arg.integer == 0; }

}  // namespace

std::vector<std::string_view> argument_declarations(std::string_view schema_text) {
  const std::size_t open = schema_text.find('(');
  if (open == std::string_view::npos) return {};
  std::vector<std::string_view> declarations;
  int depth = 0;
  char quote = 0;
  std::size_t start = open + 1;
  for (std::size_t i = open + 1; i < schema_text.size(); ++i) {
    const char letter = schema_text[i];
    if (quote != 0) {
      if (letter == quote) quote = 0;
      continue;
    }
    if (letter == '\'' || letter == '"') quote = letter;
    const bool is_end = letter == ')' && depth == 0;
    if (is_end || (letter == ',' && depth == 0)) {
      std::string_view declaration = schema_text.substr(start, i - start);
      declaration.remove_prefix(std::min(declaration.find_first_not_of(' '), declaration.size()));
      if (!declaration.empty() && declaration != "*") declarations.push_back(declaration);
      start = i + 1;
    }
    if (is_end) return declarations;
    if (letter == '(' || letter == '[') ++depth;
    if (letter == ')' || letter == ']') --depth;
  }
  return {};
}

bool covers_storage(const Trace& trace, const Tensor& tensor) {
  if (tensor.storage == kNone || tensor.offset != 0 || size_bytes(tensor.dtype) == 0) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride, size
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return false;
    if (tensor.sizes[i] != 1) dimensions.emplace_back(tensor.strides[i], tensor.sizes[i]);
  }
  std::ranges::sort(dimensions);
  std::uint64_t elements = 1;
  for (const auto& [stride, size] : dimensions) {
    if (stride <= 0 || static_cast<std::uint64_t>(stride) != elements) return false;
    if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) return false;
  }
  std::uint64_t bytes = 0;
  return !__builtin_mul_overflow(elements, std::uint64_t{size_bytes(tensor.dtype)}, &bytes) &&
         bytes == trace.storages[tensor.storage].size_bytes;
}

OpEffects::OpEffects(const Trace& trace) : trace_(trace), effects_(trace.schemas.size()), compounds_(trace) {}

const OpEffects::Effects& OpEffects::effects(SchemaId id) {
  Effects& found = effects_[id];
  if (found.is_known) return found;
  const Schema& schema = trace_.schemas[id];
  found.is_known = true;
  found.writes_all = schema.name.starts_with("c10d::");
  found.writes_running = changes_running_statistics(schema.name);
  found.replaces_first = std::ranges::find(kReplaceFirst, schema.name) != kReplaceFirst.end();
  const std::vector<std::string> names = argument_names(schema.text);
  for (const std::string_view declaration : argument_declarations(schema.text)) {
    // "Tensor(a!)[] self": the annotation is in front of the first space that is outside brackets.
    std::size_t end = 0;
    for (int depth = 0; end < declaration.size() && (depth > 0 || declaration[end] != ' '); ++end) {
      if (declaration[end] == '(') ++depth;
      if (declaration[end] == ')') --depth;
    }
    const std::string_view type = declaration.substr(0, end);
    const std::size_t index = found.arguments.size();
    // Whatever its schema says, it tells the allocator which stream uses the memory, and writes nothing.
    const bool is_written = type.find('!') != std::string_view::npos && schema.name != "aten::record_stream";
    found.arguments.push_back(
        {index < names.size() ? names[index] : "", is_written, type.find('(') != std::string_view::npos});
  }
  return found;
}

void OpEffects::collect(const Arg& arg, std::vector<TensorId>& tensors, int depth) const {
  constexpr int kDeepest = 32;  // compound tensors of a damaged file could contain themselves
  if (depth > kDeepest) return;
  if (arg.kind == Arg::Kind::kList) {
    for (const Arg& element : arg.list) collect(element, tensors, depth + 1);
  }
  if (arg.kind != Arg::Kind::kTensor) return;
  if (trace_.tensors[arg.tensor].storage != kNone) tensors.push_back(arg.tensor);
  const CompoundTensor* compound = compounds_.find(arg.tensor);
  if (compound == nullptr) return;
  for (const auto& [name, part] : compound->parts) collect(part, tensors, depth + 1);
}

std::vector<TensorUse> OpEffects::uses(const Op& op) {
  const Effects& known = effects(op.schema);
  std::vector<TensorUse> found;
  std::vector<TensorId> tensors;
  const std::vector<StorageId> returned = results(op);
  bool is_evaluation = false;
  for (std::size_t i = 0; i < op.args.size() && i < known.arguments.size(); ++i) {
    const std::string& name = known.arguments[i].name;
    if ((name == "training" || name == "train" || name == "use_input_stats") && is_false(op.args[i]))
      is_evaluation = true;
  }
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    tensors.clear();
    collect(op.args[i], tensors, 0);
    const bool is_declared = i < known.arguments.size();
    const bool is_running =
        is_declared && (known.arguments[i].name == "running_mean" || known.arguments[i].name == "running_var" ||
                        known.arguments[i].name == "noise");
    for (const TensorId tensor : tensors) {
      TensorUse use{tensor, trace_.tensors[tensor].storage, known.writes_all || !is_declared, false};
      if (is_declared && known.arguments[i].is_written) use.is_written = true;
      if (is_running && known.writes_running && !is_evaluation) use.is_written = true;
      // A result that shares its storage with an argument without the schema saying so: an op that writes quietly.
      if (is_declared && !known.arguments[i].is_aliased && std::ranges::find(returned, use.storage) != returned.end())
        use.is_written = true;
      use.is_viewed = is_declared && known.arguments[i].is_aliased && !use.is_written;
      use.is_replaced =
          known.replaces_first && i == 0 && use.is_written && covers_storage(trace_, trace_.tensors[tensor]);
      found.push_back(use);
    }
  }
  for (TensorUse& use : found) {  // copy_ from another view of the same storage reads it
    const auto same = [&](const TensorUse& other) { return other.storage == use.storage && &other != &use; };
    if (use.is_replaced && std::ranges::any_of(found, same)) use.is_replaced = false;
  }
  return found;
}

std::vector<StorageId> OpEffects::results(const Op& op) const {
  std::vector<TensorId> tensors;
  for (const Arg& output : op.outputs) collect(output, tensors, 0);
  std::vector<StorageId> storages;
  for (const TensorId tensor : tensors) storages.push_back(trace_.tensors[tensor].storage);
  return storages;
}

}  // namespace crucible::trace
