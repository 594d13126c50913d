// What a place does that is only read, one at a time.
#include "store/place.hpp"

#include <fmt/format.h>

#include <utility>

namespace crucible::store {

Result<std::vector<std::optional<std::string>>> Place::read_all(Room room, std::span<const ContentHash> names,
                                                                std::uint64_t limit) {
  std::vector<std::optional<std::string>> found;
  for (const ContentHash& each : names) {
    CRUCIBLE_TRY(std::optional<std::string> bytes, read(room, each, limit));
    found.push_back(std::move(bytes));
  }
  return found;
}

Result<std::vector<bool>> Place::has(Room, std::span<const ContentHash>) {
  return Error{ErrorCode::kUnavailable, fmt::format("{} cannot say what it has", name())};
}

Result<void> Place::write(Room, std::span<const Piece>) {
  return Error{ErrorCode::kUsage, fmt::format("{} is only read", name())};
}

}  // namespace crucible::store
