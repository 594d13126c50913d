// An object of a vendor's library, given back to the library that made it.
#pragma once

#include <utility>

namespace crucible::sdk {

/// `give_back` is a member of Functions, the table of the library's functions, which outlives the object.
template <class Functions, class Handle, auto give_back>
class Owned {
 public:
  Owned() = default;
  Owned(const Functions& functions, Handle handle) : functions_(&functions), handle_(handle) {}
  Owned(Owned&& other) noexcept : functions_(other.functions_), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) (functions_->*give_back)(handle_);
  }
  Handle get() const { return handle_; }

 private:
  const Functions* functions_ = nullptr;
  Handle handle_ = nullptr;
};

}  // namespace crucible::sdk
