// Statements of kernels as SPIR-V, with structured control flow: see emit_kernel.hpp.
#include "plugins/spirv/emit_kernel.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "plugins/spirv/kernel_writer.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible::spirv {

using sdk::Type;

namespace {

constexpr std::uint32_t kPlainLoop = 0, kUnroll = 1;  // loop control

std::uint32_t control(sdk::LoopMode mode) { return mode == sdk::LoopMode::kUnrolled ? kUnroll : kPlainLoop; }

}  // namespace

std::uint64_t scalar_bits(const Parameter& parameter, std::uint64_t given) {
  const auto as_argument = [&](auto value) -> std::uint64_t {
    if (parameter.type == Type::kF32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (parameter.type == Type::kF64) return std::bit_cast<std::uint64_t>(static_cast<double>(value));
    if (parameter.is_truth) return value != 0 ? 1 : 0;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  };
  return parameter.given == Type::kI64 ? as_argument(static_cast<std::int64_t>(given))
                                       : as_argument(std::bit_cast<double>(given));
}

std::vector<Parameter> KernelModule::add(const sdk::Kernel& kernel, std::string_view name, Form form) {
  return KernelWriter(module_, functions_, kernel, name, form).run();
}

KernelWriter::KernelWriter(SpirvModule& module, PreludeFunctions& functions, const sdk::Kernel& kernel,
                           std::string_view name, Form form)
    : module_(module),
      functions_(functions),
      kernel_(kernel),
      name_(name),
      form_(form),
      variables_(kernel.variables.size()),
      known_(kernel.exprs.size()),
      known_in_(kernel.exprs.size()) {}

std::vector<Parameter> KernelWriter::run() {
  add_parameters();
  writer_.emplace(module_, module_.void_type(), parameter_types_);
  take_parameters();
  for (const sdk::IrArray& array : kernel_.arrays) {
    const auto elements = static_cast<std::uint64_t>(std::max<std::int64_t>(array.size, 1));
    Id type = module_.array_type(memory_type(module_, array.type), elements);
    if (is_subgroup()) type = module_.array_type(type, form_.team->most);
    arrays_.push_back(is_team() ? module_.group_variable(type) : writer_->local(type));
  }
  if (is_team()) open_team();
  statement_ = 1;
  block(kernel_.body);
  writer_->effect(Op::kReturn, {});
  writer_->finish();
  Words built_ins;
  for (const BuiltIn which : used_) built_ins.push_back(module_.built_in(which));
  module_.add_entry_point(writer_->id(), name_, built_ins);
  if (form_.by_chunks) module_.set_group_size(writer_->id(), 1);
  if (is_team()) demand_sizes();
  return parameters_;
}

void KernelWriter::add_parameter(const Parameter& parameter, Id type) {
  if (std::find(parameters_.begin(), parameters_.end(), parameter) != parameters_.end()) return;
  parameters_.push_back(parameter);
  parameter_types_.push_back(type);
}

void KernelWriter::add_parameters() {
  const Id i64_type = module_.int_type(64);
  const auto bytes = [&] { return module_.pointer_type(Storage::kCrossWorkgroup, module_.int_type(8)); };
  const auto buffers = static_cast<std::uint32_t>(kernel_.buffers.size());
  switch (form_.buffers) {
    case Buffers::kArguments:
      for (std::uint32_t i = 0; i < buffers; ++i)
        add_parameter({.kind = ParameterKind::kBuffer, .index = i},
                      module_.pointer_type(Storage::kCrossWorkgroup, memory_type(module_, kernel_.buffers[i].type)));
      break;
    case Buffers::kOffsets:
      for (std::uint32_t i = 0; i < buffers; ++i) {
        add_parameter({.kind = ParameterKind::kBuffer, .index = i}, bytes());
        add_parameter({.kind = ParameterKind::kOffset, .index = i}, i64_type);
      }
      break;
    case Buffers::kMemoryTable:
      for (std::uint32_t i = 0; i < kTableMemories; ++i)
        add_parameter({.kind = ParameterKind::kMemory, .index = i}, bytes());
      [[fallthrough]];
    case Buffers::kTable:
      add_parameter({.kind = ParameterKind::kTable}, module_.pointer_type(Storage::kCrossWorkgroup, i64_type));
      break;
  }
  for (const sdk::Expr& e : kernel_.exprs) {
    if (e.operation != sdk::Op::kScalar) continue;
    const bool is_real = e.type == Type::kF32 || e.type == Type::kF64;
    const Type type = is_real ? e.type : Type::kI64;
    add_parameter({.kind = ParameterKind::kScalar,
                   .index = e.id,
                   .type = type,
                   .is_truth = e.type == Type::kBool,
                   .given = kernel_.scalars[e.id]},
                  value_type(module_, type));
  }
  for (const ParameterKind kind : {ParameterKind::kBegin, ParameterKind::kEnd}) add_parameter({.kind = kind}, i64_type);
  if (form_.by_chunks) add_parameter({.kind = ParameterKind::kChunk}, i64_type);
}

Id KernelWriter::parameter_of(ParameterKind kind, std::uint32_t index) const {
  const auto is_it = [&](const Parameter& parameter) { return parameter.kind == kind && parameter.index == index; };
  return writer_->parameter(
      static_cast<std::size_t>(std::find_if(parameters_.begin(), parameters_.end(), is_it) - parameters_.begin()));
}

Id KernelWriter::place(Id memory, Id offset, Id pointer) {
  const Id bytes = module_.pointer_type(Storage::kCrossWorkgroup, module_.int_type(8));
  const Id at = writer_->value(Op::kInBoundsPtrAccessChain, bytes, {memory, offset});
  return pointer == bytes ? at : writer_->value(Op::kBitcast, pointer, {at});
}

Id KernelWriter::from_table(std::size_t i) {
  const Id u64 = module_.int_type(64);
  const Id at = writer_->value(Op::kInBoundsPtrAccessChain, module_.pointer_type(Storage::kCrossWorkgroup, u64),
                               {parameter_of(ParameterKind::kTable), i64(static_cast<std::int64_t>(i))});
  return writer_->load(u64, at, 8);
}

void KernelWriter::take_parameters() {
  for (std::uint32_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Id pointer = module_.pointer_type(Storage::kCrossWorkgroup, memory_type(module_, kernel_.buffers[i].type));
    if (form_.buffers == Buffers::kTable) {
      buffers_.push_back(writer_->value(Op::kConvertUToPtr, pointer, {from_table(i)}));
      continue;
    }
    if (form_.buffers == Buffers::kMemoryTable) {
      const Id bytes = module_.pointer_type(Storage::kCrossWorkgroup, module_.int_type(8)),
               number = from_table(std::size_t{2} * i);
      Id memory = parameter_of(ParameterKind::kMemory, 0);
      for (std::uint32_t m = 1; m < kTableMemories; ++m) {
        const Id is_it = writer_->value(Op::kIEqual, module_.bool_type(), {number, i64(m)});
        memory = writer_->value(Op::kSelect, bytes, {is_it, parameter_of(ParameterKind::kMemory, m), memory});
      }
      buffers_.push_back(place(memory, from_table(std::size_t{2} * i + 1), pointer));
      continue;
    }
    const Id parameter = parameter_of(ParameterKind::kBuffer, i);
    if (!kernel_.buffers[i].may_alias) module_.decorate_parameter(parameter, ParameterAttribute::kNoAlias);
    if (!kernel_.buffers[i].written) module_.decorate_parameter(parameter, ParameterAttribute::kNoWrite);
    buffers_.push_back(form_.buffers == Buffers::kOffsets
                           ? place(parameter, parameter_of(ParameterKind::kOffset, i), pointer)
                           : parameter);
  }
}

void KernelWriter::block(const std::vector<sdk::Stmt>& body) {
  for (const sdk::Stmt& stmt : body) {
    ++statement_;
    statement(stmt);
  }
  ++statement_;
}

void KernelWriter::statement(const sdk::Stmt& stmt) {
  const bool is_shared = is_team() && !is_dealt_ && stmt.kind != sdk::StmtKind::kGrid;
  is_shared ? team_statement(stmt) : plain_statement(stmt);
}

void KernelWriter::plain_statement(const sdk::Stmt& stmt) {
  switch (stmt.kind) {
    case sdk::StmtKind::kLet:
      return let(stmt);
    case sdk::StmtKind::kSet:
      return store(kernel_.variables[stmt.id].type, variables_[stmt.id].pointer, expr(stmt.a));
    case sdk::StmtKind::kStore: {
      const Id value = expr(stmt.b);
      return store(kernel_.buffers[stmt.id].type, buffer_element(stmt.id, expr(stmt.a)), value);
    }
    case sdk::StmtKind::kElement: {
      const Id value = expr(stmt.b);
      return store(kernel_.arrays[stmt.id].type, array_element(stmt.id, expr(stmt.a)), value);
    }
    case sdk::StmtKind::kFor: {
      Words nothing;
      const Id begin = expr(stmt.a), end = expr(stmt.b);
      return loop(begin, end, i64(1), control(stmt.mode), 0, nothing, [&](Id v, Words&) {
        variables_[stmt.id].value = v;
        block(stmt.body);
      });
    }
    case sdk::StmtKind::kIf:
      return choice(stmt);
    case sdk::StmtKind::kGrid:
      return grid(stmt);
    case sdk::StmtKind::kTile:
      return tile(kernel_.tiles[stmt.id], expr(stmt.a));
    case sdk::StmtKind::kTranspose:
      return transpose(kernel_.transposes[stmt.id], expr(stmt.a));
    case sdk::StmtKind::kPrefetch:
      return;  // a hint to processors; devices that hide memory's latency with other work-items have no use for it
  }
}

void KernelWriter::let(const sdk::Stmt& stmt) {
  const sdk::Variable& info = kernel_.variables[stmt.id];
  Variable& variable = variables_[stmt.id];
  const Id value = expr(stmt.a);
  if (!info.is_mutable) {
    variable.value = value;
    return;
  }
  if (variable.pointer == 0) variable.pointer = writer_->local(memory_type(module_, info.type));
  store(info.type, variable.pointer, value);
}

void KernelWriter::choice(const sdk::Stmt& stmt) {
  when(expr(stmt.a), [&] { block(stmt.body); });
}

void KernelWriter::when(Id condition, const std::function<void()>& body) {
  const Id then = module_.new_id(), merge = module_.new_id();
  writer_->effect(Op::kSelectionMerge, {merge, 0});
  writer_->effect(Op::kBranchConditional, {condition, then, merge});
  writer_->open_block(then);
  body();
  writer_->branch(merge);
  writer_->open_block(merge);
}

void KernelWriter::grid(const sdk::Stmt& stmt) {
  const Id u64 = module_.int_type(64);
  const Id number = first_of(is_team() ? BuiltIn::kWorkgroupId : BuiltIn::kGlobalInvocationId);
  Id first = parameter_of(ParameterKind::kBegin), end = parameter_of(ParameterKind::kEnd), step = i64(1);
  if (form_.by_chunks) {
    const Id chunk = parameter_of(ParameterKind::kChunk);
    first = add(first, multiply(number, chunk));
    const Id behind = add(first, chunk), is_less = writer_->value(Op::kSLessThan, module_.bool_type(), {behind, end});
    end = writer_->value(Op::kSelect, u64, {is_less, behind, end});
  } else if (is_subgroup()) {
    const Id teams = first_of(BuiltIn::kNumSubgroups);
    first = add(first, add(multiply(number, teams), team_));
    step = multiply(first_of(BuiltIn::kNumWorkgroups), teams);
  } else {
    first = add(first, number);
    step = first_of(is_team() ? BuiltIn::kNumWorkgroups : BuiltIn::kGlobalSize);
  }
  Words nothing;
  loop(first, end, step, kPlainLoop, 0, nothing, [&](Id v, Words&) {
    variables_[stmt.id].value = v;
    block(stmt.body);
  });
}

void KernelWriter::loop(Id begin, Id end, Id step, std::uint32_t control, Id carried_type, Words& carried,
                        const std::function<void(Id, Words&)>& body) {
  const Id i64_type = module_.int_type(64), before = writer_->block();
  const Id header = module_.new_id(), inside = module_.new_id(), next = module_.new_id(), merge = module_.new_id();
  const Id v = module_.new_id(), v_next = module_.new_id();
  Words present, following;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    present.push_back(module_.new_id());
    following.push_back(module_.new_id());
  }
  writer_->branch(header);
  writer_->open_block(header);
  writer_->value_as(v, Op::kPhi, i64_type, {begin, before, v_next, next});
  for (std::size_t i = 0; i < carried.size(); ++i)
    writer_->value_as(present[i], Op::kPhi, carried_type, {carried[i], before, following[i], next});
  const Id goes_on = writer_->value(Op::kSLessThan, module_.bool_type(), {v, end});
  writer_->effect(Op::kLoopMerge, {merge, next, control});
  writer_->effect(Op::kBranchConditional, {goes_on, inside, merge});
  writer_->open_block(inside);
  Words values = present;
  body(v, values);
  const Id last = writer_->block();
  writer_->branch(next);
  writer_->open_block(next);
  // A phi needs a value with the name that it was promised: one that comes from the body's last block alone.
  for (std::size_t i = 0; i < carried.size(); ++i)
    writer_->value_as(following[i], Op::kPhi, carried_type, {values[i], last});
  writer_->value_as(v_next, Op::kIAdd, i64_type, {v, step});
  writer_->branch(header);
  writer_->open_block(merge);
  carried = present;
}

/// The sums are vectors of 64 bytes that stay in registers through the loop, as the dialects of C have them.
void KernelWriter::tile(const sdk::Tile& tile, Id steps) {
  const Type type = kernel_.arrays[tile.sums].type;
  const std::uint32_t lanes = type == Type::kF64 ? 8 : 16, parts = tile.columns / lanes;
  const Id scalar = value_type(module_, type), vector = module_.vector_type(scalar, lanes);
  const Id left = expr(tile.left.base), right = expr(tile.right.base),
           base = tile.base == sdk::kNoId ? i64(0) : expr(tile.base);
  const auto element = [&](const sdk::TileOperand& operand, Id index) {
    return operand.is_array ? array_element(operand.id, index) : buffer_element(operand.id, index);
  };
  const auto sum_at = [&](std::size_t i) {
    return array_element(tile.sums, add(base, i64(static_cast<std::int64_t>(i) * lanes)));
  };
  const auto load_vector = [&](Id pointer) {
    return writer_->cl_call(ClFunction::kVloadn, vector, {i64(0), pointer, lanes});
  };

  Words sums;  // row after row
  for (std::size_t i = 0; i < std::size_t{tile.rows} * parts; ++i)
    sums.push_back(tile.start == sdk::TileStart::kGoOn ? load_vector(sum_at(i)) : module_.null_constant(vector));
  loop(i64(0), steps, i64(1), kPlainLoop, vector, sums, [&](Id q, Words& present) {
    const Id right_at = add(right, multiply(q, i64(tile.right.step))),
             left_at = add(left, multiply(q, i64(tile.left.step)));
    Words columns;
    for (std::uint32_t p = 0; p < parts; ++p)
      columns.push_back(load_vector(element(tile.right, add(right_at, i64(std::int64_t{p} * lanes)))));
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      const Id x = load(type, element(tile.left, add(left_at, i64(std::int64_t{i} * tile.left.row_step))));
      const Id row = writer_->value(Op::kCompositeConstruct, vector, Words(lanes, x));
      for (std::uint32_t p = 0; p < parts; ++p) {
        Id& sum = present[std::size_t{i} * parts + p];
        sum = writer_->cl_call(ClFunction::kFma, vector, {row, columns[p], sum});
      }
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Id pointer = sum_at(i);
    Id sum = sums[i];
    if (tile.start == sdk::TileStart::kAdd) sum = writer_->value(Op::kFAdd, vector, {load_vector(pointer), sum});
    writer_->cl_call(ClFunction::kVstoren, module_.void_type(), {sum, i64(0), pointer});
  }
}

void KernelWriter::transpose(const sdk::Transpose& copy, Id steps) {
  const Type type = kernel_.arrays[copy.to].type;
  const Id to = expr(copy.to_base), from = expr(copy.from_base);
  Words nothing;
  loop(i64(0), steps, i64(1), kPlainLoop, 0, nothing, [&](Id q, Words&) {
    const Id row = add(to, multiply(q, i64(copy.to_step))), column = add(from, q);
    Words none;
    loop(i64(0), i64(copy.columns), i64(1), kPlainLoop, 0, none, [&](Id j, Words&) {
      const Id value = load(type, buffer_element(copy.from, add(column, multiply(j, i64(copy.from_step)))));
      store(type, array_element(copy.to, add(row, j)), value);
    });
  });
}

}  // namespace crucible::spirv
