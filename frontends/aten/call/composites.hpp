// Which recorded ops are composites of the program (core/graph/composite.hpp), and what their operands, results and
// attributes are called there: one table, by the name of the entry that lowers the op.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/outline.hpp"
#include "frontends/aten/algebra/term.hpp"

namespace crucible::aten {

/// What the schema calls it, and what the composite does.
struct Renamed {
  std::string_view schema, composite;
};

struct CompositeRow {
  std::string_view entry;      // "aten::_softmax"
  std::string_view composite;  // "softmax"
  /// Arguments that are attributes. A dimension that is called "dims" is counted from the front; a text is 1 where it
  /// is its name.
  std::vector<Renamed> attributes;
  std::vector<std::string_view> results;  // in the order of the schema
  std::vector<Renamed> roles = {};        // tensor arguments with another name
};

/// Null for an op that is none.
const CompositeRow* find_composite(std::string_view entry);

/// What an op's lowering has asked for and made, while it is being lowered.
struct CompositeLog {
  struct Named {
    std::string name;
    std::size_t element;  // of a list of tensors; 0 for what is in none
    bool is_list;
    Term term;
  };
  struct Part {
    graph::OpId first;
    std::size_t element;  // of the lists: of each its own
  };
  const CompositeRow* row = nullptr;
  std::string name;           // another one than the row's
  bool is_refused = false;    // the lowering says that this form is none
  std::vector<Named> inputs;  // in the order in which they were asked for
  std::vector<Named>
      written;  // in the order of OpCall's writes; `element` is the result's number where there is no name
  std::vector<graph::CompositeAttribute> attributes;
  std::vector<Part> parts;
  std::vector<std::string_view>
      turned;  // results that an implementation sees with the middle two of four dimensions in turn

  void add_input(std::string_view name, const Term& term, std::size_t element = 0, bool is_list = false);
  /// Takes the place of what was asked for under the name.
  void set_input(std::string_view name, const Term& term);
  void set_attribute(std::string_view name, double number, bool is_integer);
};

}  // namespace crucible::aten
