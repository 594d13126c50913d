// One case per type that a schema can have; what has no case is kept as opaque with its type's name.
#include "frontends/torch/boxed_values.hpp"

#include <ATen/core/jit_type.h>

#include <vector>

#include "frontends/torch/objects.hpp"
#include "frontends/torch/typed_kernel.hpp"

namespace crucible::recorder {

namespace {

void encode_value(Encoder& e, const c10::IValue& value, const c10::Type& type, Access access);

void encode_elements(Encoder& e, const c10::IValue& value, const c10::Type& element, Access access) {
  if (value.isIntList()) {
    const auto integers = value.toIntVector();
    return e.integers(integers);
  }
  if (value.isTensorList()) {
    const auto tensors = value.toTensorList();
    e.list(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) e.tensor(tensors.get(i), access);
    return;
  }
  const auto values = value.toListRef();
  const bool all_integers = !values.empty() && element.kind() == c10::TypeKind::SymIntType;
  if (all_integers ||
      (values.empty() && (element.kind() == c10::TypeKind::SymIntType || element.kind() == c10::TypeKind::IntType))) {
    std::vector<c10::SymInt> integers;
    for (const c10::IValue& item : values) integers.push_back(item.toSymInt());
    return e.symbolic_list(integers);
  }
  e.list(values.size());
  for (const c10::IValue& item : values) encode_value(e, item, element, access);
}

/// Where the schema says Any, the value itself says what it is.
void encode_by_tag(Encoder& e, const c10::IValue& value, Access access) {
  if (value.isNone()) return e.none();
  if (value.isTensor()) return e.tensor(value.toTensor(), access);
  if (value.isBool()) return e.boolean(value.toBool());
  if (value.isInt() || value.isSymInt()) return e.symbolic(value.toSymInt());
  if (value.isDouble()) return e.real(value.toDouble());
  if (value.isScalar()) return e.scalar(value.toScalar());
  if (value.isString()) return e.string(value.toStringRef());
  if (value.isDevice()) return e.device(value.toDevice());
  if (value.isGenerator()) return e.generator(value.toGenerator());
  if (value.isTuple() || value.isList()) {
    const std::vector<c10::IValue> items =
        value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
    e.list(items.size());
    for (const c10::IValue& item : items) encode_by_tag(e, item, access);
    return;
  }
  if (value.isObject()) return encode_object(e, value);
  e.opaque(value.tagKind());
}

void encode_value(Encoder& e, const c10::IValue& value, const c10::Type& type, Access access) {
  if (value.isNone()) return e.none();
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return encode_value(e, value, *type.castRaw<c10::OptionalType>()->getElementType(), access);
    case c10::TypeKind::ListType:
      if (value.isList()) return encode_elements(e, value, *type.castRaw<c10::ListType>()->getElementType(), access);
      break;
    case c10::TypeKind::TensorType:
      if (value.isTensor()) return e.tensor(value.toTensor(), access);
      break;
    case c10::TypeKind::TupleType: {
      const auto elements = value.toTupleRef().elements().vec();
      e.list(elements.size());
      for (std::size_t i = 0; i < elements.size(); ++i) encode_value(e, elements[i], *type.containedTypes()[i], access);
      return;
    }
    case c10::TypeKind::DictType: {  // a list of (key, value), in the order of the dictionary
      const auto& dictionary = *type.castRaw<c10::DictType>();
      const auto entries = value.toGenericDict();
      e.list(entries.size());
      for (const auto& entry : entries) {
        e.list(2);
        encode_value(e, entry.key(), *dictionary.getKeyType(), access);
        encode_value(e, entry.value(), *dictionary.getValueType(), access);
      }
      return;
    }
    case c10::TypeKind::BoolType: return e.boolean(value.toBool());
    case c10::TypeKind::FloatType: return value.isDouble() ? e.real(value.toDouble()) : e.scalar(value.toScalar());
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return e.symbolic(value.toSymInt());
    case c10::TypeKind::NumberType: return e.scalar(value.toScalar());
    case c10::TypeKind::ScalarTypeType: return e.dtype(value.toScalarType());
    case c10::TypeKind::LayoutType: return encode(e, value.toLayout(), access);
    case c10::TypeKind::MemoryFormatType: return encode(e, value.toMemoryFormat(), access);
    case c10::TypeKind::DeviceObjType: return e.device(value.toDevice());
    case c10::TypeKind::GeneratorType: return e.generator(value.toGenerator());
    case c10::TypeKind::StringType: return e.string(value.toStringRef());
    case c10::TypeKind::StorageType: return e.storage(value.toStorage(), access);
    case c10::TypeKind::AnyType: return encode_by_tag(e, value, access);
    default: break;
  }
  if (value.isObject()) return encode_object(e, value);
  e.opaque(value.tagKind());
}

}  // namespace

void encode_arguments(OpScope& scope, const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values) {
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < values.size(); ++i) {
    encode_value(scope.encoder(), values[i], *arguments[i].real_type(), scope.access(i));
  }
}

void encode_results(OpScope& scope, const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> values) {
  const auto& returns = schema.returns();
  for (std::size_t i = 0; i < returns.size() && i < values.size(); ++i) {
    encode_value(scope.encoder(), values[i], *returns[i].real_type(), Access::kResult);
    if (values[i].isTensor()) scope.drawn(static_cast<std::uint32_t>(i), values[i].toTensor());
  }
}

}  // namespace crucible::recorder
