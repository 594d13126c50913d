// A window of requests over one multi handle of libcurl: see http.hpp.
#include "store/remote/http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace crucible::store {
namespace {

constexpr std::size_t kAtOnce = 32, kOtherBodyKept = 4096,
                      kHeadersLimit = 64 << 10;  // not every libcurl has a limit for all headers
constexpr long kStallBytesPerSecond = 1024, kRedirects = 4;
constexpr std::uint64_t kSmallBytes = 1 << 20, kSlowestBytesPerMs = 256;  // a large body has more time
constexpr int kPollMs = 50;                                               // until stop() is seen

/// No certificate and no password of the user's reaches these.
bool is_unreachable(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Http::Transfer {
  const CurlLibrary* curl = nullptr;
  CURL* handle = nullptr;
  const Request* request = nullptr;
  Answer* answer = nullptr;
  curl_slist* headers = nullptr;
  std::uint64_t header_bytes = 0;
  bool is_too_large = false;
  char words[CURL_ERROR_SIZE] = "";

  long status() const {
    long status = 0;
    curl->easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  static std::size_t take(char* bytes, std::size_t one, std::size_t count, void* user) {
    Transfer& self = *static_cast<Transfer*>(user);
    const std::size_t size = one * count;
    std::string& body = self.answer->body;
    const bool is_wanted = self.status() == 200;
    const std::uint64_t limit = is_wanted ? self.request->limit : kOtherBodyKept;
    if (body.size() + size <= limit) {
      body.append(bytes, size);
      return size;
    }
    if (!is_wanted) body.append(bytes, static_cast<std::size_t>(limit) - body.size());
    self.is_too_large = is_wanted;
    return 0;  // ends it
  }
  static std::size_t take_header(char*, std::size_t one, std::size_t count, void* user) {
    Transfer& self = *static_cast<Transfer*>(user);
    self.header_bytes += one * count;
    return self.header_bytes <= kHeadersLimit ? one * count : 0;
  }
};

struct Http::Wire {
  explicit Wire(const CurlLibrary& library) : curl(library), multi(library.multi_init()) {}
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() {
    for (CURL* const handle : idle) curl.easy_cleanup(handle);
    curl.multi_cleanup(multi);
  }
  const CurlLibrary& curl;
  CURLM* multi;
  std::vector<CURL*> idle;
};

Http::Http(HttpOptions options, const CurlLibrary& curl) : options_(std::move(options)), curl_(curl) {}

Http::~Http() = default;

Result<std::unique_ptr<Http>> Http::open(HttpOptions options) {
  const Result<CurlLibrary>& curl = curl_library();
  if (!curl) return curl.error();
  return std::unique_ptr<Http>(new Http(std::move(options), *curl));
}

std::unique_ptr<Http::Wire> Http::take_wire() {
  {
    const std::lock_guard lock(mutex_);
    if (!wires_.empty()) {
      std::unique_ptr<Wire> wire = std::move(wires_.back());
      wires_.pop_back();
      return wire;
    }
  }
  auto wire = std::make_unique<Wire>(curl_);
  curl_.multi_setopt(wire->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_.multi_setopt(wire->multi, CURLMOPT_MAXCONNECTS, static_cast<long>(kAtOnce));
  return wire;
}

void Http::give_back(std::unique_ptr<Wire> wire) {
  const std::lock_guard lock(mutex_);
  wires_.push_back(std::move(wire));
}

void Http::begin(Wire& wire, Transfer& transfer) {
  if (wire.idle.empty()) {
    transfer.handle = curl_.easy_init();
  } else {
    transfer.handle = wire.idle.back();
    wire.idle.pop_back();
    curl_.easy_reset(transfer.handle);
  }
  CURL* const handle = transfer.handle;
  const Request& request = *transfer.request;
  const auto set = [&](CURLoption option, auto value) { curl_.easy_setopt(handle, option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PRIVATE, static_cast<void*>(&transfer));
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(transfer.words));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // a name server that does not answer is not waited for
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, options_.is_http_taken ? "http,https" : "https");
  const bool is_put = request.method == Request::Method::kPut;
  set(CURLOPT_FOLLOWLOCATION, options_.follows && !is_put ? 1L : 0L);
  set(CURLOPT_MAXREDIRS, kRedirects);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  set(CURLOPT_PIPEWAIT, request.url.starts_with("https:") ? 1L : 0L);  // one connection for all, where it takes them
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  const std::uint64_t bytes = std::max(is_put ? request.body.size() : request.limit, kSmallBytes) - kSmallBytes;
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_limit.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(options_.limit.count() + static_cast<long>(bytes / kSlowestBytesPerMs)));
  set(CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_limit.count()));
  set(CURLOPT_WRITEFUNCTION, &Transfer::take);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_HEADERFUNCTION, &Transfer::take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(CURLOPT_USERAGENT, "crucible");
  if (!options_.signing.empty()) {
    set(CURLOPT_AWS_SIGV4, options_.signing.c_str());
    set(CURLOPT_USERPWD, options_.user_password.c_str());
  }
  const auto add_header = [&](const std::string& header) {
    transfer.headers = curl_.slist_append(transfer.headers, header.c_str());
  };
  for (const std::string& header : request.headers) add_header(header);
  if (!options_.authorization.empty()) add_header("Authorization: " + options_.authorization);
  if (request.method == Request::Method::kHead) set(CURLOPT_NOBODY, 1L);
  if (is_put) {
    add_header("Content-Type: application/octet-stream");
    // libcurl 7.88 counts a header without a value among those that it signs, and does not send it.
    if (options_.signing.empty()) add_header("Expect:");
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
    set(CURLOPT_CUSTOMREQUEST, "PUT");
  }
  set(CURLOPT_HTTPHEADER, transfer.headers);
  curl_.multi_add_handle(wire.multi, handle);
}

void Http::finish(Transfer& transfer, CURLcode code) {
  Answer& answer = *transfer.answer;
  answer.status = transfer.status();
  // What came with a status that says no is not needed to its end.
  const bool is_cut_by_us =
      code == CURLE_WRITE_ERROR && answer.status != 0 && answer.status != 200 && transfer.header_bytes <= kHeadersLimit;
  if (code == CURLE_OK || is_cut_by_us) return;
  answer.is_unreachable = is_unreachable(code);
  if (transfer.is_too_large) {
    answer.failure = fmt::format("it sends more than the {} bytes that there can be", transfer.request->limit);
  } else if (transfer.header_bytes > kHeadersLimit) {
    answer.failure = "it sends headers without an end";
  } else if (code == CURLE_OPERATION_TIMEDOUT) {
    answer.failure = "it does not answer in time";
  } else if (code == CURLE_PARTIAL_FILE) {
    answer.failure = "it ends before its answer does";
  } else if (code == CURLE_COULDNT_CONNECT || transfer.words[0] == '\0') {
    answer.failure =
        curl_.easy_strerror(code);  // libcurl's longer words have a time in them: they would not be said once
  } else {
    answer.failure = transfer.words;
  }
  answer.body.clear();
}

std::vector<Answer> Http::run(std::span<const Request> requests) {
  std::vector<Answer> answers(requests.size());
  std::vector<std::unique_ptr<Transfer>> active;
  std::unique_ptr<Wire> wire = take_wire();
  std::size_t next = 0;
  std::string broken;  // why no more are begun
  const auto end = [&](std::unique_ptr<Transfer>& transfer) {
    curl_.multi_remove_handle(wire->multi, transfer->handle);
    curl_.slist_free_all(transfer->headers);
    wire->idle.push_back(transfer->handle);
    std::swap(transfer, active.back());
    active.pop_back();
  };
  while (next < requests.size() || !active.empty()) {
    if (is_stopped_) broken = "it is not waited for any longer";
    while (broken.empty() && next < requests.size() && active.size() < kAtOnce) {
      auto transfer = std::make_unique<Transfer>();
      transfer->curl = &curl_;
      transfer->request = &requests[next];
      transfer->answer = &answers[next++];
      begin(*wire, *transfer);
      active.push_back(std::move(transfer));
    }
    if (is_stopped_) {
      for (const auto& transfer : active) *transfer->answer = {0, "", broken, true};
      while (!active.empty()) end(active.back());
    }
    if (active.empty()) break;
    int running = 0;
    curl_.multi_perform(wire->multi, &running);
    int left = 0;
    bool has_ended = false;
    while (const CURLMsg* const message = curl_.multi_info_read(wire->multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      const auto found = std::ranges::find(active, message->easy_handle, [](const auto& each) { return each->handle; });
      finish(**found, code);
      if ((*found)->answer->is_unreachable) broken = (*found)->answer->failure;
      end(*found);
      has_ended = true;
    }
    if (!has_ended) curl_.multi_poll(wire->multi, nullptr, 0, kPollMs, nullptr);
  }
  for (; next < requests.size(); ++next) answers[next] = {0, "", broken, true};
  give_back(std::move(wire));
  return answers;
}

}  // namespace crucible::store
