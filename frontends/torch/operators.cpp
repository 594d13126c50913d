// Reads schemas. Names appear here only where a schema does not say what an operator does: batch norms write their
// running statistics and collectives their tensors without an annotation, older versions have no tag for random
// operators, and nothing tells of memory that is returned as it was found.
#include "frontends/torch/operators.hpp"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace crucible::recorder {

namespace {

constexpr std::string_view kRandom[] = {
    "aten::_fused_dropout",
    "aten::bernoulli",
    "aten::bernoulli_",
    "aten::binomial",
    "aten::cauchy_",
    "aten::exponential_",
    "aten::geometric_",
    "aten::log_normal_",
    "aten::multinomial",
    "aten::native_dropout",
    "aten::normal",
    "aten::normal_",
    "aten::poisson",
    "aten::rand",
    "aten::rand_like",
    "aten::randint",
    "aten::randint_like",
    "aten::randn",
    "aten::randn_like",
    "aten::random_",
    "aten::randperm",
    "aten::rrelu_with_noise",
    "aten::rrelu_with_noise_",
    "aten::uniform_",
};

constexpr std::string_view kUnfilled[] = {
    "aten::empty",         "aten::empty_like", "aten::empty_permuted",
    "aten::empty_strided", "aten::new_empty",  "aten::new_empty_strided",
    "aten::resize_",       "aten::resize_as_", "aten::_resize_output_",
};

/// They take sizes and type of their first argument and look at none of its elements.
bool takes_form(std::string_view name) {
  if (!name.starts_with("aten::")) return false;
  return name.starts_with("aten::new_") || name == "aten::is_same_size" ||
         (name.ends_with("_like") &&
          (name.starts_with("aten::empty") || name.starts_with("aten::zeros") || name.starts_with("aten::ones") ||
           name.starts_with("aten::full") || name.starts_with("aten::rand")));
}

std::uint64_t viewed_arguments(const c10::FunctionSchema& schema) {
  std::uint64_t viewed = 0;
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < 64; ++i) {
    if (arguments[i].alias_info() != nullptr && !arguments[i].alias_info()->isWrite()) viewed |= std::uint64_t{1} << i;
  }
  return viewed;
}

/// What a collective writes: its outputs where it has any, else the tensors that it works in.
std::uint64_t written_by_collective(const c10::FunctionSchema& schema) {
  if (!schema.name().starts_with("c10d::") || !schema.name().ends_with('_')) return 0;
  std::uint64_t outputs = 0;
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < 64; ++i) {
    if (arguments[i].name().starts_with("output")) outputs |= std::uint64_t{1} << i;
  }
  return outputs != 0 ? outputs : 1;
}

std::uint64_t written_arguments(const c10::FunctionSchema& schema) {
  std::uint64_t written = written_by_collective(schema);
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < 64; ++i) {
    // It tells the allocator, and says in its schema that it writes.
    if (schema.name() == "aten::record_stream") return 0;
    const bool annotated = arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    const bool running_statistics = arguments[i].name() == "running_mean" || arguments[i].name() == "running_var";
    if (annotated || running_statistics) written |= std::uint64_t{1} << i;
  }
  return written;
}

/// Results of attention that say which mask it drew: a lowering draws it again. By name, which is all that tells them.
bool is_seed(std::string_view name) { return name == "philox_seed" || name == "philox_offset" || name == "rng_state"; }

std::uint64_t seeds_among(const std::vector<c10::Argument>& results) {
  std::uint64_t told = 0;
  for (std::size_t i = 0; i < results.size() && i < 64; ++i) {
    if (is_seed(results[i].name())) told |= std::uint64_t{1} << i;
  }
  return told;
}

bool has_argument(const c10::FunctionSchema& schema, std::string_view name) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [name](const c10::Argument& argument) { return argument.name() == name; });
}

void describe(Operator& entry) {
  const c10::FunctionSchema& schema = entry.handle.schema();
  entry.name = schema.name();
  entry.overload = schema.overload_name();
  entry.text = c10::toString(schema);
  entry.written_arguments = written_arguments(schema);
  entry.only_reads =
      entry.written_arguments == 0 && std::ranges::none_of(schema.returns(), [](const c10::Argument& result) {
        const auto kind = result.type()->kind();
        return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
      });
  entry.viewed_arguments = viewed_arguments(schema);
  for (std::size_t i = 0; i < 32; ++i) {
    const bool is_unread = entry.views(i) || (i == 0 && takes_form(entry.name));
    const Usage usage = entry.writes(i) ? Usage::kWrite : is_unread ? Usage::kView : Usage::kRead;
    entry.accesses |= static_cast<std::uint64_t>(usage) << (2 * i);
  }
  entry.unfilled = std::find(std::begin(kUnfilled), std::end(kUnfilled), schema.name()) != std::end(kUnfilled);
  const bool seeded = entry.handle.hasTag(at::Tag::nondeterministic_seeded) ||
                      std::find(std::begin(kRandom), std::end(kRandom), schema.name()) != std::end(kRandom);
  entry.draws_inside = seeded && has_argument(schema, "dropout_p");
  entry.random = seeded && !entry.draws_inside;
  // Their first result is the second times their argument: what need not be kept is not waited for.
  if (entry.name == "aten::native_dropout" || entry.name == "aten::_fused_dropout") entry.drawn_result = 1;
  if (entry.draws_inside) entry.told_draws = seeds_among(schema.returns());
  // A backward pass that is given the seed draws what the forward pass has drawn.
  if (std::ranges::any_of(schema.arguments(), [](const c10::Argument& given) { return is_seed(given.name()); }))
    entry.draws_inside = false;
  entry.special_results = entry.random || entry.unfilled || entry.told_draws != 0;
  entry.control =
      schema.name().starts_with("profiler::") ||
      (schema.name().starts_with("c10d::") &&
       std::none_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
         return argument.type()->str().find("Tensor") != std::string::npos;
       }));
  entry.composite = entry.handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

}  // namespace

const Operator& Operators::find_or_add(const c10::OperatorHandle& handle) {
  const c10::OperatorName& name = handle.operator_name();
  {
    // The dispatcher keeps each name in one place, until its library is unloaded: then another may come to lie there.
    const std::lock_guard lock(mutex_);
    const auto known = by_address_.find(&name);
    if (known != by_address_.end() && known->second->name == name.name &&
        known->second->overload == name.overload_name) {
      return *known->second;
    }
  }
  std::string key = name.name;
  key += '.';
  key += name.overload_name;
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = by_name_.try_emplace(std::move(key), nullptr);
  if (is_new) {
    Operator& entry = operators_.emplace_back(handle);
    entry.id = static_cast<std::uint32_t>(operators_.size() - 1);
    describe(entry);
    place->second = &entry;
  }
  by_address_[&name] = place->second;
  return *place->second;
}

const Operator& Operators::operator[](std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return operators_[id];
}

std::size_t Operators::size() const {
  const std::lock_guard lock(mutex_);
  return operators_.size();
}

}  // namespace crucible::recorder
