// Both kinds of output behind one buffer.
#include "frontends/cli/text_sink.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/words.hpp"

namespace crucible::cli {

namespace {

constexpr std::size_t kBufferBytes = 1 << 18;

}  // namespace

Result<TextSink> TextSink::open(const std::filesystem::path& path, trace::Readers readers) {
  TextSink sink;
  if (!path.empty()) {
    CRUCIBLE_TRY(trace::OutputFile file, trace::OutputFile::create(path, readers));
    sink.file_.emplace(std::move(file));
  }
  return sink;
}

void TextSink::append(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush();
}

void TextSink::flush() {
  if (!error_ && file_) {
    const auto written = file_->append(std::as_bytes(std::span(buffer_)));
    if (!written) error_ = written.error();
  } else if (!error_) {
    // JSON has nothing left that would be changed here: json_without_commands.
    const std::string clean = without_commands(buffer_);
    const bool is_written = std::fwrite(clean.data(), 1, clean.size(), stdout) == clean.size();
    if (!is_written || std::fflush(stdout) != 0) {
      if (errno == EPIPE)
        throw std::system_error(EPIPE, std::generic_category());  // who read it has gone away: nobody is told
      error_ = Error{ErrorCode::kBadInput, fmt::format("cannot write to standard output: {}; write to a file with -o",
                                                       std::strerror(errno))};
      std::clearerr(stdout);  // it is told once
    }
  }
  buffer_.clear();
}

Result<void> TextSink::finish() {
  flush();
  if (error_) return *error_;
  return file_ ? file_->commit() : Result<void>();
}

}  // namespace crucible::cli
