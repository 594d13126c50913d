// The printer of kernels, for its three sources alone: expressions (print_expr.cpp), statements (print_kernel.cpp),
// what several threads do together and one does at once (print_team.cpp). See c_dialect.hpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/kernel_ir/data_numbers.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/kernel_index.hpp"

namespace crucible::sdk {

inline std::string text(std::uint64_t number) { return std::to_string(number); }

/// Spells expressions.
class ExprPrinter {
 public:
  ExprPrinter(const Kernel& kernel, const Dialect& dialect, const Team& team)
      : kernel_(kernel), dialect_(dialect), team_(team), numbers_(kernel), indices_(kernel) {}

 protected:
  bool is_team() const { return team_.lanes > 1; }

  std::string type_name(Type type) const;
  /// A bool lies in memory as one byte that may hold any non-zero value.
  std::string memory_type(Type type) const { return type == Type::kBool ? "uint8_t" : type_name(type); }
  /// Of a variable that is never set again: 32 bits are faster where they are enough.
  std::string variable_type(std::uint32_t id) const;

  std::string expr(std::uint32_t id) const;
  std::string integer(std::int64_t value) const;
  std::string real(double value, Type type) const;
  /// a OP b, for what threads join.
  std::string combined(Op op, Type type, const std::string& a, const std::string& b) const;
  /// An element of a buffer.
  std::string at(std::uint32_t buffer, std::uint32_t index) const;
  /// An element of an array at an index; of one in registers at the turn's own, or by asking another lane.
  std::string element(std::uint32_t array, std::uint32_t index) const;
  std::string asked_of(std::uint32_t array, std::int64_t element) const;

  bool counts_in_32_bits() const { return !dialect_.meet.empty(); }
  bool is_narrow(std::uint32_t id) const;

  const Kernel& kernel_;
  const Dialect& dialect_;
  const Team& team_;
  const kernel::DataNumbers numbers_;
  const Indices indices_;
  std::map<std::uint32_t, std::string> given_;  // loads and elements that lie in variables by now
  std::set<std::uint32_t> written_out_;         // variables that are not there yet: what they are made of is written
  std::string slot_;  // of the turn's own element, in arrays that are registers; "" outside of dealt loops

 private:
  Type operand_type(const Expr& e) const { return kernel_.exprs[e.in[0]].type; }
  std::string call(std::string_view function, const Expr& e) const;
  std::string infix(std::string_view sign, Type type, const std::string& a, const std::string& b) const;
  std::string infix(std::string_view sign, std::uint32_t id) const;
  std::string compared(std::string_view sign, const Expr& e) const;
  std::string quotient(std::uint32_t id) const;
  std::string arithmetic(std::string_view sign, Type type, const std::string& a, const std::string& b) const;
  std::string arithmetic(std::string_view sign, std::uint32_t id) const;
  std::string convert(const Expr& e) const;
  std::string extremum(Op op, Type type, const std::string& a, const std::string& b) const;
  void add_terms(std::uint32_t id, std::vector<std::uint32_t>& terms) const;
};

class Printer : private ExprPrinter {
 public:
  using ExprPrinter::ExprPrinter;
  std::string run(std::string_view name);
  std::vector<SharedArray> shared_arrays() const;

 private:
  void line(int indent, std::string_view what) {
    out_.append(static_cast<std::size_t>(indent) * 2, ' ');
    out_ += what;
    out_ += '\n';
  }
  /// Of an array that has none (a product without steps), one: the languages know no empty arrays.
  std::string elements(std::size_t i) const;
  std::string pointee(std::size_t i) const;
  std::string pointer(std::size_t i) const;
  std::string parameters() const;
  void print_arrays(int indent);
  void print_block(const std::vector<Stmt>& body, int indent) {
    for (const Stmt& stmt : body) print_stmt(stmt, indent);
  }
  void print_stmt(const Stmt& stmt, int indent);
  void print_plain(const Stmt& stmt, int indent);
  void print_grid(const Stmt& stmt, int indent);
  void print_loop(const Stmt& stmt, const std::string& begin, const std::string& end, std::string_view step,
                  int indent);
  void print_transpose(const Transpose& copy, const std::string& steps, int indent);
  void print_tile(const Tile& tile, const std::string& steps, int indent);
  bool is_loop(const Stmt& stmt) const;
  bool has_loop(const std::vector<Stmt>& body) const;
  bool is_long(const std::vector<Stmt>& body) const;
  bool updates_float(const std::vector<Stmt>& body) const;
  bool mixes_widths(const std::vector<Stmt>& body) const;

  // print_team.cpp
  void print_team(int indent);
  bool declares_shared() const { return dialect_.local.empty(); }
  std::string of_team(std::string_view threads) const;
  static std::string exchange(Type type) { return "warps_" + std::string(name(type)); }
  void meet(int indent);
  void print_dealt(const Stmt& stmt, const std::vector<TeamReduction>& reductions, int indent);
  void print_turns(const Stmt& stmt, std::int64_t turns, int indent);
  void print_join(const TeamReduction& reduction, int indent);
  bool has_registers(const std::vector<Stmt>& body) const;
  int print_asked(const std::vector<Stmt>& body, int indent, int count = 0);
  void print_groups(const Stmt& stmt, const WideLoop& plan, std::int64_t turns, int indent);
  void print_wide_grid(const Stmt& stmt, const WideLoop& plan, int indent);
  void print_group(const Stmt& stmt, const WideLoop& plan, const std::string& slot, int indent);
  int open_steps(const Stmt& stmt, const WideLoop& plan, int indent);
  void close_to(int indent, int inner);

  bool is_dealt_ = false;                      // inside of a loop whose turns the lanes share
  std::map<const Stmt*, std::string> stores_;  // into variables, for the time being
  std::string out_;
};

}  // namespace crucible::sdk
