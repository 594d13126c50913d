// The table of composites, and the outline of a recorded op: see composites.hpp.
#include "frontends/aten/call/composites.hpp"

#include <algorithm>
#include <unordered_map>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {
namespace {

const std::vector<Renamed> kLayerNorm = {{"normalized_shape", "shape"}, {"eps", "eps"}};
const std::vector<Renamed> kGroupNorm = {
    {"N", "batches"}, {"C", "channels"}, {"HxW", "points"}, {"group", "groups"}, {"eps", "eps"}};
const std::vector<Renamed> kBatchNorm = {
    {"eps", "eps"}, {"epsilon", "eps"}, {"momentum", "momentum"}, {"exponential_average_factor", "momentum"}};
const std::vector<Renamed> kLoss = {{"reduction", "reduction"}, {"ignore_index", "ignore_index"}};
const std::vector<Renamed> kAdam = {
    {"lr", "lr"},   {"beta1", "beta1"},     {"beta2", "beta2"},      {"weight_decay", "weight_decay"},
    {"eps", "eps"}, {"amsgrad", "amsgrad"}, {"maximize", "maximize"}};
const std::vector<Renamed> kSgd = {{"lr", "lr"},
                                   {"weight_decay", "weight_decay"},
                                   {"momentum", "momentum"},
                                   {"dampening", "dampening"},
                                   {"nesterov", "nesterov"},
                                   {"maximize", "maximize"},
                                   {"is_first_step", "is_first_step"}};
const std::vector<Renamed> kAdagrad = {
    {"lr", "lr"}, {"lr_decay", "lr_decay"}, {"weight_decay", "weight_decay"}, {"eps", "eps"}, {"maximize", "maximize"}};
const std::vector<Renamed> kDim = {{"dim", "dims"}};
const std::vector<Renamed> kGelu = {{"approximate", "tanh"}};
const std::vector<std::string_view> kNormResults = {"output", "mean", "rstd"};
const std::vector<std::string_view> kParameterGradients = {"grad_input", "grad_weight", "grad_bias"};
const std::vector<Renamed> kSaved = {
    {"save_mean", "mean"}, {"save_invstd", "rstd"}, {"save_var", "rstd"}, {"grad_output", "grad_out"}};
const std::vector<std::string_view> kAttention = {"output", "log_sum"};
const std::vector<std::string_view> kAttentionGradients = {"grad_query", "grad_key", "grad_value", "grad_mask"};
const std::vector<Renamed> kMask = {
    {"attn_mask", "mask"}, {"attn_bias", "mask"}, {"bias", "mask"}, {"grad_out_", "grad_out"}};

const CompositeRow kRows[] = {
    {"aten::_softmax", "softmax", kDim, {"output"}},
    {"aten::_safe_softmax", "safe_softmax", kDim, {"output"}},
    {"aten::_log_softmax", "log_softmax", kDim, {"output"}},
    {"aten::_softmax_backward_data", "softmax_backward", kDim, {"grad_input"}},
    {"aten::_log_softmax_backward_data", "log_softmax_backward", kDim, {"grad_input"}},
    {"aten::native_layer_norm", "layer_norm", kLayerNorm, kNormResults},
    {"aten::native_layer_norm_backward", "layer_norm_backward", kLayerNorm, kParameterGradients},
    {"aten::_fused_rms_norm", "rms_norm", kLayerNorm, {"output", "rstd"}},
    {"aten::_fused_rms_norm_backward", "rms_norm_backward", kLayerNorm, {"grad_input", "grad_weight"}},
    {"aten::native_group_norm", "group_norm", kGroupNorm, kNormResults},
    {"aten::native_group_norm_backward", "group_norm_backward", kGroupNorm, kParameterGradients},
    {"aten::native_batch_norm", "batch_norm", kBatchNorm, kNormResults},
    {"aten::native_batch_norm_backward", "batch_norm_backward", kBatchNorm, kParameterGradients, kSaved},
    {"aten::_native_batch_norm_legit", "batch_norm", kBatchNorm, kNormResults},
    {"aten::_native_batch_norm_legit.no_stats", "batch_norm", kBatchNorm, kNormResults},
    {"aten::_native_batch_norm_legit_no_training", "batch_norm", kBatchNorm, kNormResults},
    {"aten::_batch_norm_with_update", "batch_norm", kBatchNorm, kNormResults},
    {"aten::_batch_norm_no_update", "batch_norm", kBatchNorm, kNormResults},
    {"aten::batch_norm_backward", "batch_norm_backward", kBatchNorm, kParameterGradients, kSaved},
    {"aten::cudnn_batch_norm", "batch_norm", kBatchNorm, kNormResults},
    {"aten::cudnn_batch_norm_backward", "batch_norm_backward", kBatchNorm, kParameterGradients, kSaved},
    {"aten::miopen_batch_norm", "batch_norm", kBatchNorm, kNormResults},
    {"aten::miopen_batch_norm_backward", "batch_norm_backward", kBatchNorm, kParameterGradients, kSaved},
    {"aten::gelu", "gelu", kGelu, {"output"}},
    {"aten::gelu_backward", "gelu_backward", kGelu, {"grad_input"}},
    {"aten::nll_loss_forward", "nll_loss", kLoss, {"output", "total_weight"}},
    {"aten::nll_loss_backward", "nll_loss_backward", kLoss, {"grad_input"}},
    {"aten::nll_loss2d_forward", "nll_loss", kLoss, {"output", "total_weight"}},
    {"aten::nll_loss2d_backward", "nll_loss_backward", kLoss, {"grad_input"}},
    {"aten::mse_loss", "mse_loss", kLoss, {"output"}},
    {"aten::mse_loss_backward", "mse_loss_backward", kLoss, {"grad_input"}},
    {"aten::binary_cross_entropy", "binary_cross_entropy", kLoss, {"output"}},
    {"aten::binary_cross_entropy_backward", "binary_cross_entropy_backward", kLoss, {"grad_input"}},
    {"aten::binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits", kLoss, {"output"}},
    {"aten::_thnn_fused_lstm_cell", "lstm_cell", {}, {"hy", "cy", "workspace"}},
    {"aten::_thnn_fused_gru_cell", "gru_cell", {}, {"hy", "workspace"}},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "attention", {}, kAttention, kMask},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     "attention_backward",
     {},
     kAttentionGradients,
     kMask},
    {"aten::_scaled_dot_product_flash_attention", "attention", {}, kAttention, kMask},
    {"aten::_scaled_dot_product_flash_attention_backward", "attention_backward", {}, kAttentionGradients, kMask},
    {"aten::_scaled_dot_product_efficient_attention", "attention", {}, kAttention, kMask},
    {"aten::_scaled_dot_product_efficient_attention_backward", "attention_backward", {}, kAttentionGradients, kMask},
    {"aten::_scaled_dot_product_cudnn_attention", "attention", {}, kAttention, kMask},
    {"aten::_scaled_dot_product_cudnn_attention_backward", "attention_backward", {}, kAttentionGradients, kMask},
    {"aten::_scaled_dot_product_fused_attention_overrideable", "attention", {}, kAttention, kMask},
    {"aten::_scaled_dot_product_fused_attention_overrideable_backward",
     "attention_backward",
     {},
     kAttentionGradients,
     kMask},
    {"aten::_cudnn_attention_forward", "attention", {}, kAttention, kMask},
    {"aten::_cudnn_attention_backward", "attention_backward", {}, kAttentionGradients, kMask},
    {"aten::_flash_attention_forward", "attention", {}, kAttention, kMask},
    {"aten::_flash_attention_backward", "attention_backward", {}, kAttentionGradients, kMask},
    {"aten::_efficient_attention_forward", "attention", {}, kAttention, kMask},
    {"aten::_efficient_attention_backward", "attention_backward", {}, kAttentionGradients, kMask},
    {"aten::_scaled_dot_product_attention_math", "attention", {}, {"output", "probabilities"}, kMask},
    {"aten::_scaled_dot_product_attention_math_for_mps", "attention", {}, {"output", "probabilities"}, kMask},
    {"aten::_fused_adam_", "adam", kAdam, {}},
    {"aten::_fused_adam_.tensor_lr", "adam", kAdam, {}},
    {"aten::_fused_adamw_", "adamw", kAdam, {}},
    {"aten::_fused_adamw_.tensor_lr", "adamw", kAdam, {}},
    {"aten::_fused_sgd_", "sgd", kSgd, {}},
    {"aten::_fused_sgd_.tensor_lr", "sgd", kSgd, {}},
    {"aten::_fused_adagrad_", "adagrad", kAdagrad, {}},
    {"aten::_fused_adagrad_.tensor_lr", "adagrad", kAdagrad, {}},
};

std::string_view renamed(const std::vector<Renamed>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name, &Renamed::schema);
  return found == names.end() ? name : found->composite;
}

graph::Scalar integer_of(std::int64_t number) { return {graph::kNone, true, 0, number}; }

}  // namespace

const CompositeRow* find_composite(std::string_view entry) {
  static const auto kByEntry = [] {
    std::unordered_map<std::string_view, const CompositeRow*> rows;
    for (const CompositeRow& row : kRows) rows.emplace(row.entry, &row);
    return rows;
  }();
  const auto found = kByEntry.find(entry);
  return found == kByEntry.end() ? nullptr : found->second;
}

void CompositeLog::add_input(std::string_view name, const Term& term, std::size_t element, bool is_list) {
  const std::string_view role = renamed(row->roles, name);
  const auto is_it = [&](const Named& named) { return named.name == role && named.element == element; };
  if (!std::ranges::any_of(inputs, is_it)) inputs.push_back({std::string(role), element, is_list, term});
}

void CompositeLog::set_input(std::string_view name, const Term& term) {
  std::erase_if(inputs, [&](const Named& named) { return named.name == name; });
  inputs.push_back({std::string(name), 0, false, term});
}

void CompositeLog::set_attribute(std::string_view name, double number, bool is_integer) {
  graph::Scalar scalar{graph::kNone, is_integer, is_integer ? 0 : number,
                       is_integer ? static_cast<std::int64_t>(number) : 0};
  attributes.push_back({std::string(name), false, {scalar}});
}

void OpCall::name_composite(std::string_view name) {
  if (log_ != nullptr) log_->name = name;
}

void OpCall::refuse_composite() {
  if (log_ != nullptr) log_->is_refused = true;
}

void OpCall::role(std::string_view name, const Term& term) {
  if (log_ != nullptr) log_->set_input(name, term);
}

void OpCall::turn_results(std::initializer_list<std::string_view> names) {
  if (log_ != nullptr) log_->turned = names;
}

void OpCall::note(std::string_view attribute, double number, bool is_integer) {
  if (log_ != nullptr) log_->set_attribute(attribute, number, is_integer);
}

void OpCall::begin_part(std::size_t element) {
  if (log_ != nullptr) log_->parts.push_back({emitter_.next_op(), element});
}

/// Attributes from the recorded arguments; what differs between iterations is a slot, and an operand.
void OpCall::add_attributes(graph::Outline& outline) {
  for (const auto& [schema, name] : log_->row->attributes) {
    const trace::Arg* arg = find(schema);
    if (arg == nullptr) continue;
    if (alignment_.differing.contains({position_, index_of(schema), -1})) {
      outline.inputs.push_back({std::string(name), operand(schema).operand});
      continue;
    }
    graph::CompositeAttribute attribute{std::string(name), false, {}};
    switch (arg->kind) {
      case trace::Arg::Kind::kInt:
        attribute.is_list = name == "dims" || name == "shape";
        attribute.numbers = {
            integer_of(name == "dims" && arg->integer < 0 ? wrap_dim(arg->integer, result_rank()) : arg->integer)};
        break;
      case trace::Arg::Kind::kBool:
        attribute.numbers = {integer_of(arg->integer != 0)};
        break;
      case trace::Arg::Kind::kDouble:
        attribute.numbers = {graph::Scalar{graph::kNone, false, arg->real, 0}};
        break;
      case trace::Arg::Kind::kString:
        if (arg->text != name) continue;
        attribute.numbers = {integer_of(1)};
        break;
      case trace::Arg::Kind::kList:
        attribute.is_list = true;
        for (const trace::Arg& item : arg->list) attribute.numbers.push_back(integer_of(item.integer));
        break;
      default:  // none, or a tensor, which is an operand
        continue;
    }
    outline.attributes.push_back(std::move(attribute));
  }
  outline.attributes.insert(outline.attributes.end(), log_->attributes.begin(), log_->attributes.end());
}

std::int64_t OpCall::result_rank() const {
  return results_.empty() || results_[0] == trace::kNone
             ? 0
             : static_cast<std::int64_t>(trace_.tensors[results_[0]].sizes.size());
}

void OpCall::outline(std::vector<graph::Outline>& outlines) {
  if (log_ == nullptr || log_->is_refused) return;
  graph::Outline all;
  all.name = log_->name.empty() ? std::string(log_->row->composite) : log_->name;
  add_attributes(all);
  std::vector<CompositeLog::Part> parts = log_->parts;
  if (parts.empty()) parts.push_back({first_op_, 0});
  parts.push_back({log_->parts.empty() ? emitter_.next_op() : log_end_, 0});
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    graph::Outline part = all;
    part.first = parts[i].first;
    part.end = parts[i + 1].first;
    std::vector<graph::Role> tensors;
    for (const CompositeLog::Named& named : log_->inputs) {
      if (!named.is_list || named.element == parts[i].element) tensors.push_back({named.name, named.term.operand});
    }
    part.inputs.insert(part.inputs.begin(), tensors.begin(), tensors.end());
    for (std::size_t k = 0; k < log_->written.size() && k < writes_.size(); ++k) {
      const CompositeLog::Named& named = log_->written[k];
      if (named.is_list && named.element != parts[i].element) continue;
      const auto& [tensor, term] = writes_[k];
      const trace::Tensor& recorded = trace_.tensors[tensor];
      const StorageMap::Entry* entry = storages_.find(recorded.storage);
      if (entry != nullptr) {
        part.outputs.push_back({named.name, {entry->value, {recorded.offset, recorded.sizes, recorded.strides}, {}}});
      }
      if (!term.is_number()) part.outputs.push_back({named.name, term.operand});
    }
    for (graph::Role& role : part.outputs) {
      graph::View& view = role.operand.view;
      if (view.sizes.size() != 4 || std::ranges::find(log_->turned, role.name) == log_->turned.end()) continue;
      std::swap(view.sizes[1], view.sizes[2]);
      std::swap(view.strides[1], view.strides[2]);
    }
    outlines.push_back(std::move(part));
  }
}

}  // namespace crucible::aten
