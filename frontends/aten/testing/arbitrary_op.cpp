// Recordings that nobody made: see arbitrary_op.hpp.
#include "frontends/aten/testing/arbitrary_op.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using Sizes = std::vector<std::int64_t>;
using trace::Arg;
using B = TraceBuilder;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max(),
                       kSmallest = std::numeric_limits<std::int64_t>::min();

class OpMaker {
 public:
  OpMaker(TraceBuilder& builder, const Signature& signature, Choices& choices, const ResultSizes& results)
      : b_(builder), signature_(signature), choices_(choices), known_(results) {
    may_be_sparse_ = find_entry(signature.text.substr(0, signature.text.find('(')), Operands::kSparse) != nullptr;
    // Most calls have one thing wrong at most; some have everything wrong.
    style_ = choices_.below(4);
    strange_argument_ = choices_.below(std::max<std::size_t>(1, signature.arguments.size()));
    for (std::size_t rank = choices_.of(std::vector<std::size_t>{2, 1, 3, 4, 4, 0, 5}); rank > 0; --rank) {
      base_.push_back(choices_.of(std::vector<std::int64_t>{2, 3, 1, 4, 2, 4}));
    }
    dtype_ = choices_.of(std::vector<DType>{DType::kF32, DType::kF32, DType::kI64, DType::kBF16, DType::kF64,
                                            DType::kBool, DType::kC64});
  }

  void record() {
    std::vector<Arg> args;
    for (std::size_t i = 0; i < signature_.arguments.size(); ++i) {
      strange_ = style_ == 3 || (style_ == 2 && i == strange_argument_);
      args.push_back(argument(signature_.arguments[i]));
    }
    strange_ = style_ == 3;
    if (strange_ && choices_.one_in(6)) args.resize(choices_.below(args.size() + 1));
    std::vector<Arg> outputs;
    for (const Parameter& result : signature_.results) outputs.push_back(make_result(result));
    if (strange_ && choices_.one_in(8)) outputs.resize(choices_.below(outputs.size() + 1));
    const int iterations = choices_.one_in(3) ? 2 : 1;
    for (int i = 0; i < iterations; ++i) {
      for (const auto& [storage, bytes] : contents_) b_.external_bytes(storage, bytes, trace::Role::kUnknown, "");
      if (i > 0) change_a_number(args);
      b_.op(signature_.text, args, outputs);
      b_.end_iteration();
    }
  }

 private:
  std::int64_t strange_integer() {
    return choices_.of(std::vector<std::int64_t>{-1, 0, 5, -7, 1000000, std::int64_t{1} << 31, -(std::int64_t{1} << 31),
                                                 std::int64_t{1} << 40, std::int64_t{1} << 62, kLargest, kSmallest,
                                                 kLargest / 2});
  }

  Sizes sizes() {
    Sizes sizes = base_;
    if (strange_) {
      switch (choices_.below(4)) {
        case 0:
          sizes.resize(choices_.below(7), 2);
          break;
        case 1:
          if (!sizes.empty()) sizes[choices_.below(sizes.size())] = 0;
          break;
        case 2:
          if (!sizes.empty()) {
            sizes[choices_.below(sizes.size())] =
                choices_.of(std::vector<std::int64_t>{7, std::int64_t{1} << 20, std::int64_t{1} << 40,
                                                      std::int64_t{1} << 61, std::int64_t{1} << 62, kLargest});
          }
          break;
        default:
          sizes.clear();
      }
    } else if (choices_.one_in(3)) {  // another plausible shape: a row, a matrix, a permutation, one side more or less
      switch (choices_.below(5)) {
        case 0:
          if (!sizes.empty()) sizes = {sizes[choices_.below(sizes.size())]};
          break;
        case 1:
          if (!sizes.empty()) sizes.erase(sizes.begin());
          break;
        case 2:
          sizes.push_back(choices_.of(Sizes{1, 2, 3}));
          break;
        case 3:
          std::ranges::reverse(sizes);
          break;
        default:
          sizes = {};
      }
    }
    return sizes;
  }

  DType dtype(const Parameter& parameter) {
    if (strange_ && choices_.one_in(2))
      return static_cast<DType>(choices_.of(std::vector<int>{0, 1, 5, 6, 7, 10, 11, 255}));
    const std::string& name = parameter.name;
    const bool is_index = name.find("ind") != std::string::npos || name.find("target") != std::string::npos ||
                          name.find("offset") != std::string::npos;
    if (is_index && !choices_.one_in(4)) return DType::kI64;
    if (name.find("mask") != std::string::npos || name == "condition") return DType::kBool;
    return choices_.one_in(10) ? DType::kI64 : dtype_;
  }

  Arg new_tensor(const Sizes& sizes, DType dtype) {
    std::vector<std::int64_t> strides(sizes.size(), 0);
    std::int64_t elements = 1;
    bool fits = true;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      strides[d] = elements;
      fits = fits && sizes[d] >= 0 && !__builtin_mul_overflow(elements, sizes[d], &elements);
      if (!fits) elements = 1;
    }
    std::int64_t offset = 0;
    if (strange_ && choices_.one_in(4) && !strides.empty()) {
      strides[choices_.below(strides.size())] = choices_.of(Sizes{0, 1, 7, -1, std::int64_t{1} << 61, kLargest});
    }
    if (strange_ && choices_.one_in(8)) offset = strange_integer();
    // A storage as large as its tensor says, whatever that is; it is only a number.
    const trace::StorageId storage = b_.storage(fits ? elements : kLargest / 16, dtype);
    const trace::TensorId id = b_.view(storage, sizes, strides, offset, dtype);
    if (fits && elements <= 512) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size_bytes(dtype));
      for (std::size_t k = 0; k < bytes.size(); k += size_bytes(dtype))
        bytes[k] = static_cast<std::byte>(k / size_bytes(dtype) % 2);
      contents_.emplace_back(storage, std::move(bytes));
    } else {
      contents_.emplace_back(storage, std::vector<std::byte>(8));
    }
    return B::tensor(id);
  }

  /// As many places as may be, of which some lie outside.
  Arg new_sparse(const Sizes& sizes, DType dtype) {
    auto dims = choices_.below(sizes.size() + 1);
    const auto count = choices_.of(Sizes{3, 1, 0, 5});
    Sizes wanted(sizes.begin() + static_cast<std::ptrdiff_t>(dims), sizes.end());
    wanted.insert(wanted.begin(), count);
    if (strange_ && choices_.one_in(4)) dims += 1;
    const Arg indices =
        new_tensor({static_cast<std::int64_t>(dims), count}, strange_ && choices_.one_in(4) ? dtype : DType::kI64);
    return B::tensor(b_.sparse(sizes, indices.tensor, new_tensor(wanted, dtype).tensor,
                               strange_ && choices_.one_in(4) ? strange_integer() : static_cast<std::int64_t>(dims)));
  }

  Arg tensor(const Sizes& sizes, DType dtype) {
    return may_be_sparse_ && choices_.one_in(2) ? new_sparse(sizes, dtype) : new_tensor(sizes, dtype);
  }

  Arg one(const Parameter& parameter) {
    if (strange_ && choices_.one_in(5)) {  // another kind altogether
      switch (choices_.below(6)) {
        case 0:
          return B::none();
        case 1:
          return B::integer(strange_integer());
        case 2:
          return B::list({});
        case 3:
          return B::list({B::list({B::none()}), B::number(1)});
        case 4: {
          Arg arg;
          arg.kind = Arg::Kind::kUndefinedTensor;
          return arg;
        }
        default:
          return new_tensor({2}, DType::kF32);
      }
    }
    const std::string& type = parameter.type;
    if (type == "Tensor") return tensor(sizes(), dtype(parameter));
    if (type == "int") return B::integer(integer(parameter));
    if (type == "float") return B::number(real());
    if (type == "bool") return B::boolean(choices_.one_in(2));
    if (type == "Scalar") {
      switch (choices_.below(3)) {
        case 0:
          return B::number(real());
        case 1:
          return B::integer(strange_ ? strange_integer() : static_cast<std::int64_t>(choices_.below(4)));
        default:
          return B::boolean(choices_.one_in(2));
      }
    }
    Arg arg;
    if (type == "str") {
      arg.kind = Arg::Kind::kString;
      arg.text = choices_.of(
          std::vector<std::string>{"mean", "sum", "none", "tanh", "trunc", "floor", "amax", "prod", "ij", "", "?"});
    } else if (type == "ScalarType") {
      arg.kind = Arg::Kind::kDType;
      arg.integer = choices_.of(Sizes{8, 5, 0, 7, 9, 10, 255});
    } else if (type == "Layout" || type == "MemoryFormat") {
      arg.kind = type == "Layout" ? Arg::Kind::kLayout : Arg::Kind::kMemoryFormat;
      arg.integer = static_cast<std::int64_t>(choices_.below(4));
    } else if (type == "Device") {
      arg.kind = Arg::Kind::kDevice;
      arg.text = "cpu";
    } else if (type == "Generator") {
      arg.kind = Arg::Kind::kGenerator;
      arg.text = "default cpu";
    } else {
      arg.kind = Arg::Kind::kOpaque;
      arg.text = type;
    }
    return arg;
  }

  std::int64_t integer(const Parameter& parameter) {
    if (strange_) return strange_integer();
    if (parameter.name.find("dim") != std::string::npos) {
      const auto rank = static_cast<std::int64_t>(std::max<std::size_t>(1, base_.size()));
      return static_cast<std::int64_t>(choices_.below(static_cast<std::size_t>(2 * rank))) - rank;
    }
    return choices_.of(Sizes{1, 2, 0, 3, 1, 4, -1});
  }

  double real() {
    if (!strange_) return choices_.of(std::vector<double>{0.5, 1, 0, 2, -1, 0.1});
    return choices_.of(std::vector<double>{std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::infinity(), -0.0, 1e300, -1e300, 1e-300});
  }

  /// The default where it is a number, a list of them, a truth or None.
  std::optional<Arg> fallback(const Parameter& parameter) {
    const std::string& text = parameter.fallback;
    if (text == "None") return B::none();
    if (text == "True" || text == "False") return B::boolean(text == "True");
    if (text.starts_with('[')) {
      std::vector<Arg> items;
      std::int64_t number = 0;
      for (const char* at = text.data() + 1; at < text.data() + text.size();) {
        const auto [end, error] = std::from_chars(at, text.data() + text.size(), number);
        if (error == std::errc()) items.push_back(B::integer(number));
        at = end == at ? at + 1 : end;
      }
      return B::list(std::move(items));
    }
    std::int64_t number = 0;
    if (parameter.type == "int" && std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc()) {
      return parameter.is_list ? B::integers(Sizes(static_cast<std::size_t>(std::max(parameter.length, 1)), number))
                               : B::integer(number);
    }
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return B::number(value);
    return std::nullopt;
  }

  Arg argument(const Parameter& parameter) {
    if (!strange_ && !parameter.fallback.empty() && !choices_.one_in(2)) {
      if (auto arg = fallback(parameter)) return *arg;
    }
    if (parameter.is_optional && choices_.one_in(3)) return B::none();
    Arg arg;
    if (!parameter.is_list || (strange_ && choices_.one_in(6))) {
      arg = one(parameter);
    } else {
      const auto usual = parameter.length > 0 ? static_cast<std::size_t>(parameter.length)
                                              : choices_.of(std::vector<std::size_t>{2, 1, 3, base_.size()});
      const std::size_t count = strange_ ? choices_.below(8) : usual;
      std::vector<Arg> items;
      for (std::size_t i = 0; i < count; ++i) {
        items.push_back(parameter.has_optional_items && choices_.one_in(3) ? B::none() : one(parameter));
      }
      arg = B::list(std::move(items));
    }
    if (!parameter.alias.empty()) aliased_.emplace(parameter.alias.substr(0, 1), arg);
    return arg;
  }

  Arg make_result(const Parameter& parameter) {
    const auto found = aliased_.find(parameter.alias.substr(0, 1));
    const bool written = parameter.alias.ends_with('!');
    if (!parameter.alias.empty() && found != aliased_.end() && (written || choices_.one_in(4))) {
      ++next_result_;
      return found->second;
    }
    if (parameter.type != "Tensor") return one(parameter);
    if (!parameter.is_list) return result_tensor();
    std::vector<Arg> items;
    for (std::size_t n = choices_.of(std::vector<std::size_t>{2, 1, 3, 4, 0}); n > 0; --n)
      items.push_back(result_tensor());
    return B::list(std::move(items));
  }

  Arg result_tensor() {
    const std::size_t k = next_result_++;
    const bool was_strange = std::exchange(strange_, false);
    const auto known = known_.find(k);
    const Sizes guessed = sizes();
    const std::size_t before = contents_.size();
    const Arg arg = tensor(known == known_.end() ? guessed : known->second, choices_.one_in(5) ? DType::kI64 : dtype_);
    contents_.resize(before);  // the op makes it
    strange_ = was_strange;
    return arg;
  }

  /// Numbers may differ between iterations.
  void change_a_number(std::vector<Arg>& args) {
    for (Arg& arg : args) {
      if (arg.kind == Arg::Kind::kInt && choices_.one_in(3)) arg.integer = integer({});
      if (arg.kind == Arg::Kind::kDouble && choices_.one_in(2)) arg.real = real();
    }
  }

  TraceBuilder& b_;
  const Signature& signature_;
  Choices& choices_;
  const ResultSizes& known_;
  std::size_t style_ = 0, strange_argument_ = 0, next_result_ = 0;
  bool strange_ = false, may_be_sparse_ = false;
  Sizes base_;
  DType dtype_ = DType::kF32;
  std::vector<std::pair<trace::StorageId, std::vector<std::byte>>> contents_;
  std::map<std::string, Arg> aliased_;  // arguments by the letter of their memory
};

}  // namespace

std::size_t Choices::below(std::size_t count) {
  if (count < 2) return 0;
  if (!from_bytes_) return static_cast<std::size_t>(random_() % count);
  if (bytes_.empty()) return 0;
  const std::size_t choice = bytes_.front() % count;
  bytes_ = bytes_.subspan(1);
  return choice;
}

void record_arbitrary(TraceBuilder& builder, const Signature& signature, Choices choices, const ResultSizes& results) {
  OpMaker(builder, signature, choices, results).record();
}

bool read_wanted_sizes(const std::string& error, std::size_t& result, std::vector<std::int64_t>& sizes) {
  const auto at = error.find("result "), makes = error.find("its lowering makes [");
  if (at == std::string::npos || makes == std::string::npos) return false;
  const char* end = error.data() + error.size();
  if (std::from_chars(error.data() + at + 7, end, result).ec != std::errc()) return false;
  sizes.clear();
  const char* next = error.data() + makes + 20;
  std::int64_t size = 0;
  while (next < end && *next != ']') {
    const auto [after, failed] = std::from_chars(next, end, size);
    if (failed == std::errc()) sizes.push_back(size);
    next = after == next ? next + 1 : after;
  }
  return true;
}

}  // namespace crucible::aten
