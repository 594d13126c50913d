// Loops of the interpreter, many passes at a time: each expression of the loop's body is evaluated for up to kLanes
// passes before the next one, which costs a tenth of doing pass after pass. Only where that cannot be told from the
// order of the text: innermost loops whose passes do not read what others write, and sums, which are still added one by
// one. For interpreter.cpp alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/kernel/ir/interpreter_numbers.hpp"
#include "core/kernel/ir/interpreter_plan.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "core/kernel/math/native_math.hpp"

namespace crucible::kernel {

/// `Run` is the interpreter, whose memory and variables this works on.
template <class Run>
class LaneLoops {
 public:
  explicit LaneLoops(Run& run) : run_(run) {}

  /// Does the loop, or says false and has done nothing.
  bool run(const Stmt& loop, std::int64_t begin, std::int64_t end) {
    if (end - begin < 2) return false;
    const LanePlan* plan = find(loop);
    if (plan == nullptr) return false;
    start(*plan, static_cast<std::size_t>(std::min<std::int64_t>(kLanes, end - begin)));
    for (std::int64_t at = begin; at < end && run_.failure_.empty(); at += kLanes) {
      lanes_ = static_cast<std::size_t>(std::min<std::int64_t>(kLanes, end - at));
      for (std::size_t i = 0; i < lanes_; ++i)
        slots_[0].template as<std::int64_t>()[i] = at + static_cast<std::int64_t>(i);
      for (const Instruction& instruction : plan->instructions) execute(instruction);
    }
    return true;
  }

  /// The same for some passes, kLanes at most.
  bool run(const Stmt& loop, std::span<const std::int64_t> passes) {
    const LanePlan* plan = find(loop);
    if (plan == nullptr) return false;
    start(*plan, passes.size());
    lanes_ = passes.size();
    std::ranges::copy(passes, slots_[0].template as<std::int64_t>());
    for (const Instruction& instruction : plan->instructions) execute(instruction);
    return true;
  }

  // ---- passes of loops within loops, chosen one by one: start, add each, flush ----
  void start_leaf(LanePlan& plan) {
    look_up_functions(plan);
    start(plan, kLanes);
    lanes_ = 0;
  }
  /// `passes`: the variable of each loop.
  void add_leaf(const LanePlan& plan, const std::vector<std::int64_t>& passes) {
    for (std::size_t d = 0; d < passes.size(); ++d) slots_[d].template as<std::int64_t>()[lanes_] = passes[d];
    if (++lanes_ == static_cast<std::size_t>(kLanes)) flush_leaf(plan);
  }
  void flush_leaf(const LanePlan& plan) {
    if (lanes_ == 0) return;
    for (const Instruction& instruction : plan.instructions) {
      if (run_.failure_.empty()) execute(instruction);
    }
    lanes_ = 0;
  }

 private:
  using Word = interpreter::Word;
  using Slot = LanePlan::Slot;
  using Instruction = LanePlan::Instruction;
  using Kind = LanePlan::Kind;
  static constexpr std::int64_t kLanes = 64;
  static constexpr Slot kNone = LanePlan::kNone;

  struct Lanes {
    alignas(64) std::byte bytes[static_cast<std::size_t>(kLanes) * 8];
    template <class T>
    T* as() {
      return reinterpret_cast<T*>(bytes);
    }
  };
  const LanePlan* find(const Stmt& loop) {
    const auto [at, is_new] = plans_.try_emplace(&loop);
    if (is_new) {
      at->second = plan_lanes(run_.kernel_, loop);
      if (at->second) look_up_functions(*at->second);
    }
    return at->second.get();
  }

  void look_up_functions(LanePlan& plan) {
    for (Instruction& instruction : plan.instructions) {
      if (instruction.kind == Kind::kCompute && run_.functions_[instruction.id] != nullptr)
        instruction.kind = Kind::kFunction;
    }
  }

  void start(const LanePlan& plan, std::size_t lanes) {
    if (slots_.size() < plan.slots) slots_.resize(plan.slots);
    for (const LanePlan::Uniform& uniform : plan.uniforms) broadcast(uniform, lanes);
  }

  void broadcast(const LanePlan::Uniform& uniform, std::size_t lanes) {
    const Word word = run_.eval(uniform.expr);
    with_size(run_.kernel_.exprs[uniform.expr].type,
              [&]<class T>(T) { std::fill_n(slots_[uniform.to].template as<T>(), lanes, word.as<T>()); });
  }

  /// `body` with an unsigned number of the type's size.
  template <class Body>
  static void with_size(DType type, const Body& body) {
    switch (size_bytes(type)) {
      case 1:
        return body(std::uint8_t{});
      case 2:
        return body(std::uint16_t{});
      case 4:
        return body(std::uint32_t{});
      default:
        return body(std::uint64_t{});
    }
  }

  void execute(const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::kLoad:
        return load(instruction);
      case Kind::kStore:
        return store(instruction);
      case Kind::kAssume:
        return assume(instruction);
      case Kind::kSelect:
        return with_size(instruction.type, [&]<class T>(T) {
          const bool* const chosen = slots_[instruction.a].template as<bool>();
          const T* const x = slots_[instruction.b].template as<T>();
          const T* const y = slots_[instruction.c].template as<T>();
          T* const to = slots_[instruction.to].template as<T>();
          for (std::size_t i = 0; i < lanes_; ++i) to[i] = chosen[i] ? x[i] : y[i];
        });
      case Kind::kFma:
        run_.work_.multiply_adds += lanes_;
        return instruction.type == DType::kF64 ? fma<double>(instruction) : fma<float>(instruction);
      case Kind::kFunction:
        return call(instruction);
      case Kind::kCompute:
        return compute(instruction);
      case Kind::kGather:
        return gather(instruction);
      case Kind::kMask: {
        const bool* const holds = slots_[instruction.a].template as<bool>();
        const bool* const mask = mask_of(instruction);
        bool* const to = slots_[instruction.to].template as<bool>();
        for (std::size_t i = 0; i < lanes_; ++i) to[i] = (mask == nullptr || mask[i]) && holds[i] != instruction.is_not;
        return;
      }
    }
  }

  const bool* mask_of(const Instruction& instruction) {
    return instruction.mask == kNone ? nullptr : slots_[instruction.mask].template as<bool>();
  }

  void load(const Instruction& instruction) {
    const std::int64_t* const index = slots_[instruction.a].template as<std::int64_t>();
    run_.work_.loads += lanes_;
    const bool* const mask = mask_of(instruction);
    with_size(instruction.type, [&]<class T>(T) {
      T* const to = slots_[instruction.to].template as<T>();
      for (std::size_t i = 0; i < lanes_; ++i) {
        to[i] = T{0};
        if (mask != nullptr && !mask[i]) continue;
        const std::byte* const at = run_.place(instruction.is_array, instruction.place, index[i]).at;
        if (at == nullptr) return;
        std::memcpy(&to[i], at, sizeof(T));
      }
      if (instruction.type != DType::kBool) return;
      for (std::size_t i = 0; i < lanes_; ++i) to[i] = to[i] != 0;
    });
  }

  void store(const Instruction& instruction) {
    const std::int64_t* const index = slots_[instruction.a].template as<std::int64_t>();
    const std::size_t size = size_bytes(instruction.type);
    const bool* const mask = mask_of(instruction);
    for (std::size_t i = 0; i < lanes_ && run_.failure_.empty(); ++i) {
      if (mask != nullptr && !mask[i]) continue;
      Word word;
      std::memcpy(word.bytes, slots_[instruction.b].bytes + i * size, size);
      run_.write(instruction.is_array, instruction.place, index[i], word, size);
    }
  }

  void assume(const Instruction& instruction) {
    const std::int64_t* const from = slots_[instruction.a].template as<std::int64_t>();
    std::int64_t* const to = slots_[instruction.to].template as<std::int64_t>();
    const bool* const mask = mask_of(instruction);
    for (std::size_t i = 0; i < lanes_; ++i) {
      to[i] = from[i];
      if (mask != nullptr && !mask[i]) continue;
      if (from[i] < instruction.expr->integer || from[i] > instruction.expr->high)
        return run_.fail_assumption(*instruction.expr, from[i]);
    }
  }

  template <class T>
  void fma(const Instruction& instruction) {
    const T* const x = slots_[instruction.a].template as<T>();
    const T* const y = slots_[instruction.b].template as<T>();
    const T* const z = slots_[instruction.c].template as<T>();
    T* const to = slots_[instruction.to].template as<T>();
    for (std::size_t i = 0; i < lanes_; ++i) to[i] = std::fma(x[i], y[i], z[i]);
  }

  void call(const Instruction& instruction) {
    const NativeFunction function = run_.functions_[instruction.id];
    const std::size_t in = size_bytes(instruction.type), out = size_bytes(instruction.expr->type);
    if (is_floating(instruction.type)) run_.work_.arithmetic += lanes_;
    Lanes& to = slots_[instruction.to];
    const std::byte* const a = slots_[instruction.a].bytes;
    const std::byte* const b = instruction.b == kNone ? a : slots_[instruction.b].bytes;
    for (std::size_t i = 0; i < lanes_; ++i) function(a + i * in, b + i * in, to.bytes + i * out);
  }

  void compute(const Instruction& instruction) {
    if (is_floating(instruction.type)) run_.work_.arithmetic += lanes_;
    const Expr& e = *instruction.expr;
    interpreter::with_type(instruction.type, [&]<class T>(T) {
      const T* const x = slots_[instruction.a].template as<T>();
      const T* const y = instruction.b == kNone ? x : slots_[instruction.b].template as<T>();
      compute_lanes(e, x, y, slots_[instruction.to]);
      return Word{};
    });
  }

  template <class T>
  void compute_lanes(const Expr& e, const T* x, const T* y, Lanes& to) {
    if (interpreter::compute_many(e.operation, x, y, lanes_, to.bytes)) return;
    const std::size_t size = size_bytes(e.type);
    for (std::size_t i = 0; i < lanes_ && run_.failure_.empty(); ++i) {
      const Word word = run_.compute(e, run_.kernel_.exprs[e.in[0]].type, Word::of(x[i]), Word::of(y[i]));
      std::memcpy(to.bytes + i * size, word.bytes, size);
    }
  }

  /// One lane after the other, from the variable and back.
  void gather(const Instruction& instruction) {
    const Expr& e = *instruction.expr;
    const std::size_t size = size_bytes(instruction.type);
    Word& variable = run_.variables_[instruction.place];
    const auto word = [&](Slot slot, std::size_t lane) {
      Word made;
      std::memcpy(made.bytes, slots_[slot].bytes + lane * size, size);
      return made;
    };
    if (e.operation == Operation::kFma) {
      run_.work_.multiply_adds += lanes_;
    } else if (is_floating(instruction.type)) {
      run_.work_.arithmetic += lanes_;
    }
    const NativeFunction function = run_.functions_[instruction.id];
    for (std::size_t i = 0; i < lanes_; ++i) {
      const Word a = word(instruction.a, i);
      if (e.operation == Operation::kFma) {
        const Word b = word(instruction.b, i);
        variable = instruction.type == DType::kF64
                       ? Word::of(std::fma(a.as<double>(), b.as<double>(), variable.as<double>()))
                       : Word::of(std::fma(a.as<float>(), b.as<float>(), variable.as<float>()));
        continue;
      }
      const Word left = instruction.c == 0 ? variable : a, right = instruction.c == 0 ? a : variable;
      if (function == nullptr) {
        variable = run_.compute(e, instruction.type, left, right);
      } else {
        function(left.bytes, right.bytes, variable.bytes);
      }
    }
  }

  Run& run_;
  std::unordered_map<const Stmt*, std::unique_ptr<LanePlan>> plans_;  // null: pass after pass
  std::vector<Lanes> slots_;
  std::size_t lanes_ = 0;
};

}  // namespace crucible::kernel
