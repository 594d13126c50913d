// Locks of the open file (F_OFD_SETLK), not of the process: compilers that are started meanwhile do not inherit them.
// Within the process the map decides, for two locks of one open file never exclude each other.
#include "store/claims.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace crucible::store {
namespace {

/// Two keys at one place would wait for each other, no more.
long place_of(const ContentHash& key) {
  long place = 0;
  std::memcpy(&place, key.bytes.data(), sizeof place);
  return place & 0x0fffffffffffffff;
}

struct flock range(short type, off_t start, off_t length) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  return range;
}

}  // namespace

Claims::~Claims() {
  if (file_ < 0) return;
  struct flock all = range(F_UNLCK, 0, 0);  // a fork of the host may have the file open for longer
  fcntl(file_, F_OFD_SETLK, &all);
  close(file_);
}

bool Claims::claim(const ContentHash& key) {
  const std::lock_guard lock(mutex_);
  const long place = place_of(key);
  if (held_.contains(place)) return false;
  struct flock one = range(F_WRLCK, place, 1);
  if (file_ >= 0 && fcntl(file_, F_OFD_SETLK, &one) != 0 && (errno == EAGAIN || errno == EACCES)) return false;
  held_.emplace(place, key);
  return true;
}

void Claims::release(const ContentHash& key) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(place_of(key));
  if (found == held_.end() || found->second != key) return;
  struct flock one = range(F_UNLCK, found->first, 1);
  if (file_ >= 0) fcntl(file_, F_OFD_SETLK, &one);
  held_.erase(found);
}

}  // namespace crucible::store
