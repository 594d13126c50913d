// Aliases resolved at the level of storages: which SSA value holds each storage's elements at this point of the
// iteration. Reading a tensor gives a view of that value; writing one makes a new value. No op's meaning is known here.
//
// A storage has bytes and no dtype: its value has the dtype of the first tensor that reads or writes it. Tensors of
// other dtypes read those bytes through a bitcast, and what they write is cast to the storage's dtype.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/aten/algebra/emitter.hpp"
#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {

struct Complex;  // complex.hpp

/// Ids of storages are those of iteration 0.
class StorageMap {
 public:
  StorageMap(const trace::Trace& trace, const Alignment& alignment, Emitter& emitter);

  /// The tensor as a term; a wrapped number becomes a number (a slot where iterations differ). A storage that no op has
  /// written yet gets a value that enters from outside. Failures go to the emitter.
  Term read(trace::TensorId tensor);
  /// A tensor of complex numbers as its components, with one more dimension of size 2 at the end (complex.hpp).
  Term read_pairs(trace::TensorId tensor);
  /// The same as two terms; of a lazy view as the framework reads it.
  Complex read_complex(trace::TensorId tensor);
  /// The tensor's storage holds `term` (converted, broadcast) in the tensor's place from now on; of a tensor of complex
  /// numbers the term is its components. Ops
  /// from `first_op` on were emitted for this term alone and may still be given the tensor's layout.
  void write(trace::TensorId tensor, const Term& term, graph::OpId first_op);
  /// Reads and writes from now on are those of the op at `position`: a view whose offset differs between iterations is
  /// read by take and written by put, with its offset as a slot. kNone: of no op.
  /// Memory that something other than an op changed before it is an input from there on.
  void at_op(std::uint32_t position);
  /// Both tensors share a storage that is known.
  bool same_storage(trace::TensorId a, trace::TensorId b) const;

  struct Entry {
    graph::ValueId value = graph::kNone;    // what it holds now
    graph::ValueId outside = graph::kNone;  // what it held when the iteration began, where an op read it
    DType dtype = DType::kF32;
    std::int64_t elements = 0;
    bool written = false;
    std::map<DType, graph::ValueId> casts;  // the bytes of `value` as other dtypes, where they were asked for
    std::int64_t elements_as(DType other) const { return elements * size_bytes(dtype) / size_bytes(other); }
  };
  /// The entry of a storage, or null when no op has touched it.
  const Entry* find(trace::StorageId storage) const;
  const std::map<trace::StorageId, Entry>& entries() const { return entries_; }
  /// For states that are written before anybody reads them: gives such a storage the value it had at the start.
  graph::ValueId outside_value(trace::StorageId storage);
  /// What a storage holds now, all of it, as elements of `dtype`; it must hold something.
  Term whole(trace::StorageId storage, DType dtype);

  /// The recorded bytes of storage `storage` (of iteration `i`) as it entered iteration `i`; kNone where none are.
  trace::BlobId external_blob(trace::StorageId storage, std::size_t i) const;
  const trace::External* external(trace::StorageId storage, std::size_t i) const;
  /// The last bytes of it that the recording has of iteration `i` or an earlier one, of whatever group; kNone where it
  /// has none.
  trace::BlobId known_blob(trace::StorageId storage, std::size_t i) const;
  /// Whether a storage of the group's first iteration was there before that began.
  bool is_from_outside(trace::StorageId storage) const {
    return external(storage, 0) != nullptr || alignment_.existed_before(storage);
  }

 private:
  void change_before(std::uint32_t position);
  Entry* open(const trace::Tensor& tensor);
  Term read_number(const trace::Tensor& tensor);
  /// Where numbers of optimizers are free: whether an optimizer's Python has made this tensor of a number in each
  /// iteration. Nobody has named it, and it holds nothing else.
  bool is_made_of_number(const trace::Tensor& tensor) const;
  Term read_view(trace::TensorId id, const trace::Tensor& tensor);
  bool view_of(const trace::Tensor& tensor, const Entry& entry, graph::View& view);
  Term whole_as(Entry& entry, DType dtype);
  /// The entry's new value, with `term`, of the tensor's dtype, in the place of `view`; that dtype is another one than
  /// the entry's.
  void write_cast(trace::TensorId id, const trace::Tensor& tensor, Entry& entry, const graph::View& view, Term term,
                  graph::OpId first_op);
  /// `term` where it is laid out as `view`, which covers a value; else such a copy.
  Term laid_out(Term term, const graph::View& view, std::int64_t elements, graph::OpId first_op);
  /// The offsets of a tensor that moves between iterations, of complex numbers in their components.
  std::optional<std::vector<std::int64_t>> offsets_of(trace::TensorId id) const;
  /// The places of a moving view in its storage, of its sizes.
  Term places(const graph::View& view, std::int64_t elements, const std::vector<std::int64_t>& offsets);
  /// All elements of the storage, in its dtype, before they are written in part.
  Term base_of(const trace::Tensor& tensor, Entry& entry);

  const trace::Trace& trace_;
  const Alignment& alignment_;
  Emitter& emitter_;
  std::uint32_t position_ = trace::kNone;
  std::map<trace::StorageId, Entry> entries_;
  std::map<std::pair<trace::StorageId, std::uint32_t>, const trace::External*> externals_;  // the number: an iteration
  std::set<trace::StorageId>
      half_bool_;  // of the first iteration: bools and something else, so that no byte may become 0 or 1
  std::set<trace::StorageId> changing_;  // of the first iteration: changed when all ops have read them
  std::set<std::uint32_t> changed_;  // ops of the first iteration before which memory was changed, and which were met
};

}  // namespace crucible::aten
