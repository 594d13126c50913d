// What the answers of a server mean: see remote.hpp.
#include "store/remote/remote.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "store/remote/http.hpp"

namespace crucible::store {
namespace {

using Clock = std::chrono::steady_clock;
using Method = Request::Method;

constexpr int kFailuresInARow = 3;
constexpr std::chrono::milliseconds kLongestPause{3'600'000};

/// Of everybody's empty body.
constexpr const char* kNothingsHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

class Remote : public Place {
 public:
  Remote(Address address, const RemoteOptions& options, HttpOptions http, std::string token)
      : address_(std::move(address)),
        may_write_(options.may_write),
        first_pause_(options.pause),
        pause_(options.pause),
        http_options_(std::move(http)),
        token_(std::move(token)) {}

  std::string name() const override { return address_.shown; }
  bool is_writable() const override {
    const std::lock_guard lock(mutex_);
    return may_write_ && !takes_nothing_;
  }
  void stop() override {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    if (http_) http_->stop();
  }

  Result<std::optional<std::string>> read(Room room, const ContentHash& name, std::uint64_t limit) override {
    if (is_paused()) return std::optional<std::string>();
    CRUCIBLE_TRY(auto found, read_all(room, std::span(&name, 1), limit));
    return std::move(found[0]);
  }

  Result<std::vector<std::optional<std::string>>> read_all(Room room, std::span<const ContentHash> names,
                                                           std::uint64_t limit) override {
    CRUCIBLE_TRY(std::vector<Answer> answers, ask(Method::kGet, room, names, limit));
    std::vector<std::optional<std::string>> found;
    for (Answer& answer : answers) {
      CRUCIBLE_TRY(const bool is_there, judge_read(answer));
      found.push_back(is_there ? std::optional(std::move(answer.body)) : std::nullopt);
    }
    return found;
  }

  Result<std::vector<bool>> has(Room room, std::span<const ContentHash> names) override {
    CRUCIBLE_TRY(const std::vector<Answer> answers, ask(Method::kHead, room, names, 0));
    std::vector<bool> found;
    for (const Answer& answer : answers) {
      CRUCIBLE_TRY(const bool is_there, judge_read(answer));
      found.push_back(is_there);
    }
    return found;
  }

  Result<void> write(Room room, std::span<const Piece> pieces) override {
    if (!may_write_) {
      return Error{ErrorCode::kUsage,
                   fmt::format("the remote {} is only read: store.remote_write = true lets it be written", name())};
    }
    {
      const std::lock_guard lock(mutex_);
      if (takes_nothing_) return Error{ErrorCode::kUnavailable, takes_nothing_words_};
    }
    std::vector<Request> requests;
    for (const Piece& piece : pieces) {
      const std::string hash = address_.is_s3() ? sha256(std::as_bytes(std::span(piece.bytes))).hex() : std::string();
      requests.push_back({Method::kPut, url(room, piece.name), headers(hash), piece.bytes, 0});
    }
    CRUCIBLE_TRY(const std::vector<Answer> answers, run(requests));
    for (const Answer& answer : answers) CRUCIBLE_TRY_VOID(judge_written(answer));
    return {};
  }

 private:
  std::string url(Room room, const ContentHash& name) const {
    return fmt::format("{}/{}/{}", address_.base, room == Room::kBlobs ? "cas" : "ac", name.hex());
  }
  std::vector<std::string> headers(const std::string& body_hash) const {
    if (http_options_.signing.empty()) return {};
    // The body's hash is said by us: libcurl 7.88 signs no other for a body of its own accord.
    std::vector<std::string> list = {"x-amz-content-sha256: " + body_hash};
    if (!token_.empty()) list.push_back("x-amz-security-token: " + token_);
    return list;
  }

  bool is_paused() const {
    const std::lock_guard lock(mutex_);
    return Clock::now() < paused_until_;
  }

  Result<std::vector<Answer>> ask(Method method, Room room, std::span<const ContentHash> names, std::uint64_t limit) {
    std::vector<Request> requests;
    requests.reserve(names.size());
    for (const ContentHash& each : names)
      requests.push_back({method, url(room, each), headers(kNothingsHash), {}, limit});
    return run(requests);
  }

  Result<std::vector<Answer>> run(std::span<const Request> requests) {
    {
      const std::lock_guard lock(mutex_);
      if (Clock::now() < paused_until_) return Error{ErrorCode::kUnavailable, paused_words_};
      if (!http_) {
        CRUCIBLE_TRY(http_, Http::open(http_options_));
        if (is_stopped_) http_->stop();
      }
    }
    std::vector<Answer> answers = http_->run(requests);
    const auto lost = std::ranges::find_if(answers, &Answer::is_unreachable);
    if (lost != answers.end()) return pause(fmt::format("cannot be reached: {}", lost->failure));
    return answers;
  }

  /// Not asked for a while.
  Error pause(const std::string& why) {
    const std::lock_guard lock(mutex_);
    paused_until_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    failures_ = 0;
    paused_words_ = fmt::format("the remote {} {}; it is left alone for a while, work goes on without it", name(), why);
    return {ErrorCode::kUnavailable, paused_words_};
  }

  Error failed(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (++failures_ < kFailuresInARow) {
        return {ErrorCode::kUnavailable, fmt::format("the remote {} failed: {}", name(), why)};
      }
    }
    return pause(fmt::format("failed {} times in a row: {}", kFailuresInARow, why));
  }

  void succeeded() {
    const std::lock_guard lock(mutex_);
    failures_ = 0;
    pause_ = first_pause_;
  }

  static std::string words_of(const Answer& answer) {
    const std::string code = s3_code(answer.body);
    return fmt::format("HTTP {}{}{}", answer.status, code.empty() ? "" : " ", code);
  }

  Result<bool> judge_read(const Answer& answer) {
    if (!answer.failure.empty()) return failed(answer.failure);
    switch (answer.status) {
      case 200:
      case 404:
      case 410:
        succeeded();
        return answer.status == 200;
      case 401:
      case 403:
      case 407: {
        const std::string code = s3_code(answer.body);
        // Without the right to list, a bucket denies what it does not have; of HEAD it says no more than the number.
        if (address_.is_s3() && answer.status == 403 && (code == "AccessDenied" || answer.body.empty())) {
          succeeded();
          return false;
        }
        return pause(fmt::format("lets nobody read who asks as we do ({}): see to the credentials", words_of(answer)));
      }
      case 301:
      case 302:
      case 303:
      case 307:
      case 308:
        return failed(
            fmt::format("it redirects ({}): write where it is in the end, of S3 the right region", words_of(answer)));
      default:
        return failed(words_of(answer));
    }
  }

  Result<void> judge_written(const Answer& answer) {
    if (!answer.failure.empty()) return failed(answer.failure);
    switch (answer.status) {
      case 200:
      case 201:
      case 202:
      case 204:
        succeeded();
        return {};
      case 401:
      case 403:
      case 405:
      case 407:
      case 501: {
        const std::lock_guard lock(mutex_);
        takes_nothing_ = true;
        takes_nothing_words_ = fmt::format("the remote {} takes nothing from us ({}): it is only read from now on",
                                           name(), words_of(answer));
        return Error{ErrorCode::kUnavailable, takes_nothing_words_};
      }
      case 413:
        return Error{ErrorCode::kUnavailable,
                     fmt::format("the remote {} takes nothing as large (HTTP 413): raise its limit (nginx: "
                                 "client_max_body_size)",
                                 name())};
      default:
        return failed(fmt::format("it did not keep what was written ({})", words_of(answer)));
    }
  }

  const Address address_;
  const bool may_write_;
  const std::chrono::milliseconds first_pause_;
  mutable std::mutex mutex_;  // of what follows but the last two
  std::chrono::milliseconds pause_;
  Clock::time_point paused_until_{};
  int failures_ = 0;
  bool takes_nothing_ = false, is_stopped_ = false;
  std::string paused_words_, takes_nothing_words_;
  std::unique_ptr<Http> http_;  // since the first request
  const HttpOptions http_options_;
  const std::string token_;  // of an S3 session
};

Result<std::string> authorization(const RemoteOptions& options, const Address& address) {
  if (address.is_s3()) return std::string();
  if (!options.authorization.empty()) return authorization_of(options.authorization, "CRUCIBLE_STORE_REMOTE_AUTH");
  if (options.authorization_file.empty()) return std::string();
  CRUCIBLE_TRY(const std::string text, secret_text(options.authorization_file));
  return authorization_of(text, options.authorization_file.string());
}

bool is_on_this_machine(std::string_view base) {
  return base.starts_with("http://127.") || base.starts_with("http://localhost") || base.starts_with("http://[::1]");
}

}  // namespace

Result<std::unique_ptr<Place>> open_remote(const RemoteOptions& options) {
  CRUCIBLE_TRY(const Address address, parse_address(options.url, options.variable));
  HttpOptions http;
  http.connect_limit = options.connect_limit;
  http.limit = options.limit;
  http.stall_limit = options.stall_limit;
  http.is_http_taken = address.base.starts_with("http://");
  CRUCIBLE_TRY(http.authorization, authorization(options, address));
  std::string token;
  if (address.is_s3()) {
    CRUCIBLE_TRY(const std::optional<S3Credentials> credentials, s3_credentials(options.variable));
    http.follows = false;  // a signature is for one place
    if (credentials) {
      http.signing = fmt::format("aws:amz:{}:s3", address.region);
      http.user_password = fmt::format("{}:{}", credentials->id, credentials->secret);
      token = credentials->token;
    }
  }
  if (!http.authorization.empty() && http.is_http_taken && !is_on_this_machine(address.base) && options.tell) {
    options.tell(
        fmt::format("the password of the remote {} goes over the network unencrypted: use https", address.shown));
  }
  if (!options.ca_file.empty()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(options.ca_file, error)) {
      return Error{ErrorCode::kBadInput, fmt::format("the certificates of store.ca_file are not there: {} is no file",
                                                     options.ca_file.string())};
    }
    http.ca_file = std::filesystem::absolute(options.ca_file);
  }
  return std::unique_ptr<Place>(std::make_unique<Remote>(address, options, std::move(http), token));
}

Result<void> add_remotes(const RemoteSettings& settings, StoreOptions& options) {
  if (settings.urls.empty()) return {};
  Trust trust;
  trust.policy = settings.trust == "off" ? Policy::kOff : settings.trust == "warn" ? Policy::kWarn : Policy::kEnforce;
  for (const std::filesystem::path& file : settings.keys) {
    CRUCIBLE_TRY(PublicKey key, PublicKey::read(file));
    trust.keys.push_back(std::move(key));
  }
  if (!settings.sign.empty()) {
    CRUCIBLE_TRY(SecretKey key, SecretKey::read(settings.sign));
    trust.keys.push_back(key.public_key());  // who signs believes himself
    options.signer = std::move(key);
  }
  if (trust.policy != Policy::kOff && trust.keys.empty()) {
    return Error{ErrorCode::kUsage,
                 "a remote store is believed by its signatures: name the public keys that may write (store.keys, "
                 "--key FILE), or set store.remote_trust = off"};
  }
  if (settings.may_write && trust.policy == Policy::kEnforce && !options.signer) {
    return Error{ErrorCode::kUsage,
                 "what is written to a remote store is signed, else nobody would believe it: name the secret key "
                 "(store.sign, --sign FILE)"};
  }
  for (const std::string& url : settings.urls) {
    RemoteOptions remote;
    remote.url = url;
    remote.may_write = settings.may_write;
    remote.authorization = process_variable("CRUCIBLE_STORE_REMOTE_AUTH");
    remote.authorization_file = settings.authorization_file;
    remote.ca_file = settings.ca_file;
    remote.limit = std::chrono::milliseconds(settings.timeout_ms);
    remote.connect_limit = std::min(remote.connect_limit, remote.limit);
    remote.tell = options.tell;
    CRUCIBLE_TRY(std::unique_ptr<Place> place, open_remote(remote));
    options.places.push_back({std::move(place), trust, settings.may_write});
  }
  return {};
}

}  // namespace crucible::store
