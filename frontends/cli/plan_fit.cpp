// The answer to --device-profile: see plan_fit.hpp.
#include "frontends/cli/plan_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The tensor by which `op` reads the storage, in arguments and lists of them; null when it does not.
const trace::Tensor* find_tensor(const trace::Trace& trace, const std::vector<trace::Arg>& args,
                                 trace::StorageId storage) {
  for (const trace::Arg& arg : args) {
    if (arg.kind == trace::Arg::Kind::kTensor && arg.tensor < trace.tensors.size() &&
        trace.tensors[arg.tensor].storage == storage) {
      return &trace.tensors[arg.tensor];
    }
    if (const trace::Tensor* found = find_tensor(trace, arg.list, storage)) return found;
  }
  return nullptr;
}

/// What would make it fit, the cheapest means first.
std::string ways(const runtime::Fit& fit) {
  const auto bytes = format_bytes;
  if (fit.carried_bytes > fit.usable_bytes) {
    return fmt::format(
        "  parameters, buffers and optimizer states alone are {}: recomputation cannot help. They must\n"
        "  be fewer (a smaller model, an optimizer with less state), narrower, or live on the host.\n",
        bytes(fit.carried_bytes));
  }
  if (fit.floor_bytes > fit.usable_bytes) {
    return fmt::format(
        "  step {} alone needs {} with the states beside it: a smaller batch makes that less, but\n"
        "  recomputation does not.\n",
        fit.floor_step, bytes(fit.floor_bytes));
  }
  if (fit.activation_bytes >= fit.missing_bytes) {
    return fmt::format(
        "  {} of the {} of activations at the peak would have to be recomputed in the backward, or lie\n"
        "  on the host until then.\n",
        bytes(fit.missing_bytes), bytes(fit.activation_bytes));
  }
  return fmt::format(
      "  all {} of activations at the peak are {} too few: recomputation has to be joined by a smaller\n"
      "  batch.\n",
      bytes(fit.activation_bytes), bytes(fit.missing_bytes - fit.activation_bytes));
}

/// What was tried, and what it gave.
std::string rescue_text(const ProfileAnswer& answer) {
  const Rescue& rescue = *answer.rescue;
  const std::string how = fmt::format(
      "{} steps run again (about {:.0f}% more work), {} transfers of {} in all,\n  {} waiting on the host at most",
      rescue.repeats, 100 * rescue.repeated_share, rescue.transfers, format_bytes(rescue.transfer_bytes),
      format_bytes(rescue.host_bytes));
  if (rescue.peak_bytes <= answer.fit.usable_bytes) {
    return fmt::format("  --memory-budget {}: then the peak is {}, with\n  {}\n", answer.fit.usable_bytes,
                       format_bytes(rescue.peak_bytes), how);
  }
  return fmt::format("  no budget does: the smallest that was found is {}, with\n  {}\n",
                     format_bytes(rescue.peak_bytes), how);
}

std::string batch_line(const runtime::Fit& fit) {
  if (fit.batch == 0) return "";
  if (fit.largest_batch == 0)
    return fmt::format("batch: {} in the recording; not even 1 would fit (estimate)\n", fit.batch);
  return fmt::format(
      "batch: {} in the recording; up to about {} would fit\n"
      "  (estimate: activations, inputs and temporaries grow with it, states and gradients do not)\n",
      fit.batch, fit.largest_batch);
}

}  // namespace

std::uint64_t batch_of(const trace::Trace& trace) {
  using trace::Role;
  const std::uint32_t iteration =
      trace.iterations.size() > 1 ? 1 : 0;  // what is new in the second one is no state and no constant
  std::vector<std::int64_t> leading;
  for (const trace::External& external : trace.externals) {
    const bool is_data =
        (external.role == Role::kInput || external.role == Role::kUnknown) && !external.name.starts_with("grad of ");
    if (external.iteration != iteration || !is_data || external.op >= trace.ops.size()) continue;
    const trace::Tensor* tensor = find_tensor(trace, trace.ops[external.op].args, external.storage);
    if (tensor != nullptr && !tensor->sizes.empty() && !tensor->is_wrapped_number) leading.push_back(tensor->sizes[0]);
  }
  if (leading.empty()) return 0;
  const std::int64_t smallest = std::ranges::min(leading);
  const bool divides =
      smallest > 0 && std::ranges::all_of(leading, [&](std::int64_t size) { return size % smallest == 0; });
  return divides ? static_cast<std::uint64_t>(smallest) : 0;
}

std::string fit_text(const ProfileAnswer& answer) {
  const runtime::Fit& fit = answer.fit;
  const hardware::DeviceProfile& device = answer.device;
  std::string text;
  if (fit.fits) {
    text = fmt::format("fits on {}: {} of {}; {} stay free\n", device.name, format_bytes(fit.peak_bytes),
                       format_bytes(fit.usable_bytes), format_bytes(fit.usable_bytes - fit.peak_bytes));
  } else {
    text = fmt::format("does not fit on {}: {} of {}; {} are missing\n", device.name, format_bytes(fit.peak_bytes),
                       format_bytes(fit.usable_bytes), format_bytes(fit.missing_bytes));
  }
  if (device.reserved_bytes() > 0) {
    text += fmt::format("  (of its {}, {} are left to driver and context)\n", format_bytes(device.memory_bytes()),
                        format_bytes(device.reserved_bytes()));
  }
  text += fmt::format("at the peak: {} carried over, {} activations, {} gradients, {} other\n",
                      format_bytes(fit.carried_bytes), format_bytes(fit.activation_bytes),
                      format_bytes(fit.gradient_bytes), format_bytes(fit.rest_bytes));
  text += fmt::format("smallest peak: {}, of what is carried over and of step {}: no recomputation gets below\n",
                      format_bytes(fit.floor_bytes), fit.floor_step);
  if (!fit.fits) text += "what would make it fit:\n" + (answer.rescue ? rescue_text(answer) : "") + ways(fit);
  return text + batch_line(fit);
}

Json fit_json(const ProfileAnswer& answer) {
  const runtime::Fit& fit = answer.fit;
  const auto known = [](std::uint64_t number, bool is_known) { return is_known ? Json(number) : Json(nullptr); };
  const auto rescued = [&]() -> Json {
    if (!answer.rescue) return nullptr;
    return {{"peak_bytes", answer.rescue->peak_bytes},       {"fits", answer.rescue->peak_bytes <= fit.usable_bytes},
            {"steps_repeated", answer.rescue->repeats},      {"repeated_share", answer.rescue->repeated_share},
            {"transfers", answer.rescue->transfers},         {"transfer_bytes", answer.rescue->transfer_bytes},
            {"host_bytes", answer.rescue->host_bytes}};
  };
  return {{"name", answer.device.name},
          {"memory_bytes", answer.device.memory_bytes()},
          {"usable_bytes", fit.usable_bytes},
          {"source", answer.device.source},
          {"fits", fit.fits},
          {"missing_bytes", fit.missing_bytes},
          {"carried_bytes", fit.carried_bytes},
          {"activation_bytes", fit.activation_bytes},
          {"gradient_bytes", fit.gradient_bytes},
          {"rest_bytes", fit.rest_bytes},
          {"floor_bytes", fit.floor_bytes},
          {"floor_step", fit.floor_step},
          {"batch", known(fit.batch, fit.batch > 0)},
          {"largest_batch_estimate", known(fit.largest_batch, fit.batch > 0)},
          {"within_budget", rescued()}};
}

}  // namespace crucible::cli
