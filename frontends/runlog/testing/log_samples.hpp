// What the tests of run logs share: records and logs made by hand, a folder with keys.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "frontends/runlog/log.hpp"

namespace crucible::runlog::testing {

inline ContentHash hash_of_text(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

inline RunBegin sample_begin(std::uint64_t iterations = 2, const std::string& numerics = "strict") {
  RunBegin run;
  run.started = "2026-11-29T12:00:00Z";
  run.tool = "crucible test";
  run.source = {"step.crtrace", hash_of_text("content")};
  run.program = {hash_of_text("program"), hash_of_text("merkle"), 1};
  run.iterations = iterations;
  run.numerics = numerics;
  run.options = {{"fuse", "true"}, {"opaque", "missing"}};
  run.machine.backend = "cpu";
  run.machine.device = "cpu:0";
  run.machine.name = "a processor \x1b[31m";
  run.states = 2;
  run.state = hash_of_text("before");
  return run;
}

inline IterationRecord sample_iteration(std::uint64_t index, const std::string& salt = "") {
  const std::string name = std::to_string(index) + salt;
  return {.index = index,
          .variant = 0,
          .inputs = hash_of_text("inputs" + std::to_string(index)),
          .slots = hash_of_text("slots" + std::to_string(index)),
          .state = hash_of_text("state" + name),
          .outputs = hash_of_text("outputs" + name),
          .losses = {0.1 * static_cast<double>(index + 1), std::nullopt}};
}

inline RunEnd sample_end(std::uint64_t iterations, const std::string& salt = "") {
  RunEnd end;
  end.iterations = iterations;
  if (iterations > 0) end.state = sample_iteration(iterations - 1, salt).state;
  end.states = {{"layer.weight", "f32", 4, hash_of_text("w" + salt)}, {"layer.bias", "f32", 1, hash_of_text("b")}};
  return end;
}

/// The text of a log of these records, each naming the line before.
inline std::string chained(std::vector<Record> records, const std::optional<store::SecretKey>& key = {},
                           ContentHash previous = {}) {
  std::string text;
  for (Record& record : records) {
    record.previous = previous;
    const std::string line = sealed(record, key);
    previous = hash_of_line(std::string_view(line).substr(0, line.size() - 1));
    text += line;
  }
  return text;
}

/// A run of two iterations that ended well.
inline std::vector<Record> sample_run(const std::string& salt = "") {
  return {{{}, sample_begin()},
          {{}, sample_iteration(0, salt)},
          {{}, sample_iteration(1, salt)},
          {{}, sample_end(2, salt)}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1);
    lines.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  return lines;
}

/// A folder with ours.pem, ours.pem.pub, theirs.pem and theirs.pem.pub; it goes with the object.
class KeyFolder {
 public:
  KeyFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-runlog-XXXXXX").string();
    path_ = mkdtemp(name.data());
    for (const char* owner : {"ours", "theirs"}) {
      EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
      for (const bool is_secret : {true, false}) {
        const std::filesystem::path file = *this / (std::string(owner) + (is_secret ? ".pem" : ".pem.pub"));
        std::FILE* const out = std::fopen(file.c_str(), "w");
        if (is_secret) PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
        if (!is_secret) PEM_write_PUBKEY(out, key);
        std::fclose(out);
        chmod(file.c_str(), is_secret ? 0600 : 0644);
      }
      EVP_PKEY_free(key);
    }
  }
  KeyFolder(const KeyFolder&) = delete;
  ~KeyFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::optional<store::SecretKey> secret(const char* owner) const {
    return *store::SecretKey::read(*this / (std::string(owner) + ".pem"));
  }
  store::PublicKey open(const char* owner) const {
    return *store::PublicKey::read(*this / (std::string(owner) + ".pem.pub"));
  }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace crucible::runlog::testing
