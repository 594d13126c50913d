// One kernel on its way to SPIR-V: types, addresses and conversions (kernel_values.cpp), expressions
// (kernel_expressions.cpp), statements (emit_kernel.cpp), and what a team's work-items do together
// (team_statements.cpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/spirv/emit_kernel.hpp"

namespace crucible::spirv {

/// Where a value of a type lies, or what it is while it is computed with: f16 and bf16 are their bits, and a bool in
/// memory is a byte.
Id value_type(SpirvModule& module, sdk::Type type);
Id memory_type(SpirvModule& module, sdk::Type type);

class KernelWriter {
 public:
  KernelWriter(SpirvModule& module, PreludeFunctions& functions, const sdk::Kernel& kernel, std::string_view name,
               Form form);

  /// Writes the whole function. Once.
  std::vector<Parameter> run();

 private:
  // ---- emit_kernel.cpp ----
  void add_parameters();
  void add_parameter(const Parameter& parameter, Id type);
  void take_parameters();
  Id parameter_of(ParameterKind kind, std::uint32_t index = 0) const;
  /// Where buffer `index` of type `pointer` is, `offset` bytes behind `memory`.
  Id place(Id memory, Id offset, Id pointer);
  Id from_table(std::size_t i);
  void block(const std::vector<sdk::Stmt>& body);
  void statement(const sdk::Stmt& stmt);
  /// As one work-item does it.
  void plain_statement(const sdk::Stmt& stmt);
  void let(const sdk::Stmt& stmt);
  void choice(const sdk::Stmt& stmt);
  void grid(const sdk::Stmt& stmt);
  void tile(const sdk::Tile& tile, Id steps);
  void transpose(const sdk::Transpose& copy, Id steps);
  /// for (i64 v = begin; v < end; v += step), with values that are handed from pass to pass: `carried` are the first
  /// ones, and those after the loop when it returns. `body` gets v and the present ones, and changes them to the next
  /// ones.
  void loop(Id begin, Id end, Id step, std::uint32_t control, Id carried_type, Words& carried,
            const std::function<void(Id, Words&)>& body);

  /// Runs `body` where the condition holds.
  void when(Id condition, const std::function<void()>& body);

  // ---- team_statements.cpp ----
  bool is_team() const { return form_.team != nullptr && form_.team->lanes > 1; }
  bool is_subgroup() const { return is_team() && form_.by_subgroups; }
  void open_team();
  void demand_sizes();
  void join_by_shuffles(const sdk::TeamReduction& reduction);
  /// As all work-items of a team execute it.
  void team_statement(const sdk::Stmt& stmt);
  void deal(const sdk::Stmt& loop, const std::vector<sdk::TeamReduction>& reductions);
  void join(const sdk::TeamReduction& reduction);
  Id combine(sdk::Op op, sdk::Type type, Id a, Id b);
  /// Where a group's work-items wait for each other and see what the others wrote. Two in a row are one.
  void meet();
  /// Whether this lane is below `width`.
  Id is_lane_below(std::uint32_t width);

  // ---- kernel_values.cpp ----
  /// The first component of a built-in vector, or a built-in number, as i64.
  Id first_of(BuiltIn which);
  Id i64(std::int64_t value) { return module_.int_constant(64, static_cast<std::uint64_t>(value)); }
  Id add(Id a, Id b) { return writer_->value(Op::kIAdd, module_.int_type(64), {a, b}); }
  Id multiply(Id a, Id b) { return writer_->value(Op::kIMul, module_.int_type(64), {a, b}); }
  Id number(sdk::Type type, double value);  // in the type, whatever it is
  Id buffer_element(std::uint32_t buffer, Id index);
  Id array_element(std::uint32_t array, Id index);
  /// As it is in memory: true when the byte is not 0.
  Id load(sdk::Type type, Id pointer);
  void store(sdk::Type type, Id pointer, Id value);
  Id call(std::string_view function, sdk::Type of, sdk::Type result, std::initializer_list<std::uint32_t> operands);
  Id convert(Id value, sdk::Type from, sdk::Type to);
  Id to_bool(Id value, sdk::Type from);
  Id from_bool(Id value, sdk::Type to);
  Id float_to_integer(Id value, sdk::Type from, sdk::Type to);
  Id integer_to_float(Id value, sdk::Type from, sdk::Type to);
  Id half_to_single(Id bits);
  Id to_half(Id value);  // of a float of any width
  Id half_pointer();

  // ---- kernel_expressions.cpp ----
  /// The expression's value where the writer stands; what a statement uses twice is computed once.
  Id expr(std::uint32_t id);
  Id compute(const sdk::Expr& e);
  Id scalar(const sdk::Expr& e);
  Id arithmetic(const sdk::Expr& e, sdk::Type type);
  Id comparison(const sdk::Expr& e, sdk::Type type);
  Id of_bools(const sdk::Expr& e);
  Id extremum(sdk::Op op, sdk::Type type, Id a, Id b);
  Id binary(Op op, const sdk::Expr& e);
  /// The prelude's function of all operands; its name ends in the first one's type.
  Id prelude_call(std::string_view function, const sdk::Expr& e);
  sdk::Type operand_type(const sdk::Expr& e) const { return kernel_.exprs[e.in[0]].type; }

  struct Variable {
    Id value = 0;    // of one that is set once
    Id pointer = 0;  // of one that is set again
  };

  SpirvModule& module_;
  PreludeFunctions& functions_;
  const sdk::Kernel& kernel_;
  std::string name_;
  Form form_;
  std::optional<FunctionWriter> writer_;
  std::vector<Parameter> parameters_;
  Words parameter_types_;
  Words buffers_;   // pointers
  Words arrays_;    // pointers to the whole array
  std::vector<Variable> variables_;
  Words known_;     // per expression: its value in the statement `statement_`
  std::vector<std::uint64_t> known_in_;
  std::uint64_t statement_ = 0;
  std::set<BuiltIn> used_;
  Id lane_ = 0;                         // of a team
  Id team_ = 0;                         // which one of its group's sub-groups it is
  std::map<sdk::Type, Id> exchanges_;   // arrays with an element per lane, shared by the group
  bool is_dealt_ = false;               // inside of a loop whose turns the lanes share
  std::size_t met_at_ = 0;              // the writer's size after the last meeting
  Id half_bits_ = 0;
};

}  // namespace crucible::spirv
