// See predict.hpp. Two walks over the steps: the first leaves behind when each value was touched last, as an iteration
// does for the next one; the second predicts.
#include "runtime/plan/predict.hpp"

#include <algorithm>
#include <string_view>

namespace crucible::runtime {
namespace {

class Predictor {
 public:
  Predictor(const graph::Program& program, const kernel::Schedule& schedule, const hardware::DeviceProfile& profile)
      : program_(program), schedule_(schedule), profile_(profile), touched_at_(program.values.size(), -1.0) {
    // What an iteration leaves in a state's end, the next one finds in its start: the two are one buffer.
    same_as_.resize(program.values.size());
    for (graph::ValueId id = 0; id < same_as_.size(); ++id) same_as_[id] = id;
    for (const graph::State& state : program.states) {
      if (state.start < same_as_.size() && state.end < same_as_.size()) same_as_[state.end] = state.start;
    }
  }

  std::vector<hardware::Prediction> run() {
    for (const kernel::Step& step : schedule_.steps) walk(step);
    std::vector<hardware::Prediction> predictions;
    for (const kernel::Step& step : schedule_.steps) predictions.push_back(hardware::predict(profile_, walk(step)));
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      if (schedule_.steps[i].kind == kernel::StepKind::kTransfer)
        predictions[i] = transfer(schedule_.steps[i], predictions[i]);
    }
    return predictions;
  }

 private:
  double bytes_of(graph::ValueId id) const {
    const graph::Value& value = program_.values[id];
    return static_cast<double>(value.elements) * static_cast<double>(size_bytes(value.dtype));
  }

  /// What a step does, and that it has done it.
  hardware::Work walk(const kernel::Step& step) {
    hardware::Work work;
    double touched = 0;
    for (const kernel::BufferArgument& argument : step.buffers) touched += bytes_of(argument.value);
    // The estimate of the schedule knows what is really read (a gather touches few rows of its table); operands share
    // it.
    const double share = touched > 0 && step.bytes > 0 ? std::min(1.0, static_cast<double>(step.bytes) / touched) : 1;
    const double now = clock_ + touched;
    for (const kernel::BufferArgument& argument : step.buffers) {
      double& last = touched_at_[same_as_[argument.value]];
      const double distance = argument.written || last < 0 ? touched : std::max(now - last, touched);
      work.traffic.push_back({bytes_of(argument.value) * share, distance});
    }
    for (const kernel::BufferArgument& argument : step.buffers) touched_at_[same_as_[argument.value]] = now;
    clock_ = now;
    const bool is_library = step.kind == kernel::StepKind::kLibrary;
    work.flops = static_cast<double>(step.flops);
    work.dtype = name(dtype_of(step));
    work.is_matrix = is_library;
    work.is_shared = !is_library && step.grain > 0 && step.grid / step.grain > 1;
    return work;
  }

  DType dtype_of(const kernel::Step& step) const {
    if (step.kind == kernel::StepKind::kLibrary) return step.library.dtype;
    for (const kernel::BufferArgument& argument : step.buffers) {
      if (argument.written) return program_.values[argument.value].dtype;
    }
    return DType::kF32;
  }

  hardware::Prediction transfer(const kernel::Step& step, hardware::Prediction prediction) const {
    const double link = profile_.value("host_link.bandwidth") / 1e9;
    if (link > 0 && !step.buffers.empty()) prediction.memory_ns = bytes_of(step.buffers[0].value) / link;
    return prediction;
  }

  const graph::Program& program_;
  const kernel::Schedule& schedule_;
  const hardware::DeviceProfile& profile_;
  std::vector<double> touched_at_;       // per value: bytes that were touched before it was, in all; -1: never
  std::vector<graph::ValueId> same_as_;  // per value
  double clock_ = 0;                     // bytes touched so far
};

}  // namespace

std::vector<hardware::Prediction> predict_steps(const graph::Program& program, const kernel::Schedule& schedule,
                                                const hardware::DeviceProfile& profile) {
  return Predictor(program, schedule, profile).run();
}

}  // namespace crucible::runtime
