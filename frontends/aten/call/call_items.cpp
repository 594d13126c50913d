// An op of many tensors as one op for each of them: see OpCall::by_items() in op_call.hpp.
#include <algorithm>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {
namespace {

using Kind = trace::Arg::Kind;

bool is_given(const trace::Arg* arg) {
  return arg != nullptr && arg->kind != Kind::kNone && arg->kind != Kind::kUndefinedTensor;
}

}  // namespace

// The other arguments are read before the list, in their order: slots are numbered by who asks first.
void OpCall::by_items(std::span<const std::string_view> names, const std::function<void(OpCall&)>& lower) {
  const std::size_t count = std::min({names.size(), names_.size(), op_.args.size()});
  std::size_t list = 0;
  while (list < count && op_.args[list].kind != Kind::kList) ++list;
  if (!expect(list < count, "self", "a list of tensors")) return;
  CallItems items{{names.begin(), names.end()}, std::vector<std::vector<Term>>(names.size())};
  for (std::size_t k = 0; k < count; ++k) {
    if (k == list || !is_given(&op_.args[k])) continue;
    items.terms[k] = op_.args[k].kind == Kind::kList ? operands(names_[k]) : std::vector<Term>{operand(names_[k])};
  }
  items.terms[list] = tensors(names_[list]);
  const std::size_t last = items.terms[list].size();
  items_ = std::move(items);
  for (; items_->at < last; ++items_->at) lower(*this);
  items_.reset();
}

const std::vector<Term>* OpCall::item_terms(std::string_view name) const {
  const auto at = std::ranges::find(items_->names, name);
  if (at == items_->names.end()) return nullptr;
  const auto& terms = items_->terms[static_cast<std::size_t>(at - items_->names.begin())];
  return terms.empty() ? nullptr : &terms;
}

Expression OpCall::item_term(std::string_view name) {
  const std::vector<Term>* terms = item_terms(name);
  if (!expect(terms != nullptr, name, "there")) return {emitter_, Term::number(0)};
  return {emitter_, (*terms)[items_->at % terms->size()]};
}

void OpCall::set_item(const Term& term) {
  const std::size_t k = items_->at;
  if (results_.empty()) return write(is_given(find("out")) ? "out" : "self", term, k);
  if (wants(k)) set_tensor(k, results_[k], term);
}

}  // namespace crucible::aten
