// URLs, credentials and the other texts of a remote: see address.hpp. Everything is checked by what may be in it.
#include "store/remote/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "store/envelope.hpp"

namespace crucible::store {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", kDigits = "0123456789";
constexpr std::size_t kLongest = 2048, kCredentialsFile = 1 << 20;

bool is_of(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return kLetters.find(c) != std::string_view::npos || kDigits.find(c) != std::string_view::npos ||
           more.find(c) != std::string_view::npos;
  });
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

/// Parts between slashes, none of them "", "." or "..".
bool is_path(std::string_view path) {
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == ".." || !is_of(part, "-._~")) return false;
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return true;
}

std::string_view without_slashes(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

Error refuse(std::string_view shown, std::string_view why) {
  return {ErrorCode::kUsage,
          fmt::format("'{}' is no place of a remote store: {}; write http://HOST[:PORT][/PATH], https://..., or "
                      "s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME]",
                      shown.substr(0, 200), why)};
}

/// "" or what is wrong with HOST[:PORT].
std::string_view fault_of_host(std::string_view host) {
  std::string_view port;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos ||
        host.substr(1, end - 1).find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos || end < 3)
      return "its host is none";
    if (end + 1 < host.size() && host[end + 1] != ':') return "its host is none";
    port = end + 1 < host.size() ? host.substr(end + 2) : "80";
  } else {
    const std::size_t colon = host.find(':');
    const std::string_view name = host.substr(0, colon);
    if (name.empty() || name.starts_with('-') || name.starts_with('.') || !is_of(name, "-.")) return "its host is none";
    port = colon == std::string_view::npos ? "80" : host.substr(colon + 1);
  }
  const bool is_number = !port.empty() && port.size() <= 5 && port.find_first_not_of(kDigits) == std::string_view::npos;
  if (!is_number || std::stoi(std::string(port)) > 65535 || std::stoi(std::string(port)) == 0)
    return "its port is none";
  return "";
}

/// Of http and https. `shown`: what the person wrote.
Result<std::string> parse_http(std::string_view url, std::string_view shown) {
  const bool is_http = url.starts_with("http://");
  if (!is_http && !url.starts_with("https://")) return refuse(shown, "neither http, https nor s3");
  const std::string_view rest = without_slashes(url.substr(is_http ? 7 : 8));
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (const std::string_view fault = fault_of_host(host); !fault.empty()) return refuse(shown, fault);
  if (host.size() < rest.size() && !is_path(rest.substr(host.size() + 1))) {
    return refuse(shown, "its path has other things than letters, digits and - . _ ~ between single slashes");
  }
  return fmt::format("{}://{}", is_http ? "http" : "https", rest);
}

std::string first_of(const Environment& variable, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  return "";
}

bool is_region(std::string_view region) { return !region.empty() && region.size() <= 64 && is_of(region, "-"); }

bool is_bucket(std::string_view bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 && is_of(bucket, "-._") && !bucket.starts_with('.') &&
         bucket.find("..") == std::string_view::npos;
}

Result<Address> parse_s3(std::string_view url, const Environment& variable) {
  std::string endpoint = first_of(variable, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  std::string region = first_of(variable, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  const std::size_t question = url.find('?');
  std::string_view options = question == std::string_view::npos ? "" : url.substr(question + 1);
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find('&'));
    options.remove_prefix(std::min(option.size() + 1, options.size()));
    if (option.starts_with("endpoint=")) {
      endpoint = option.substr(9);
    } else if (option.starts_with("region=")) {
      region = option.substr(7);
    } else {
      return refuse(url, fmt::format("'{}' is neither endpoint=URL nor region=NAME", option.substr(0, 40)));
    }
  }
  const std::string_view place = without_slashes(url.substr(5, question - std::min<std::size_t>(5, question)));
  const std::string_view bucket = place.substr(0, place.find('/'));
  const std::string_view prefix = bucket.size() < place.size() ? place.substr(bucket.size() + 1) : "";
  if (!is_bucket(bucket)) return refuse(url, "its bucket is none");
  if (!is_path(prefix)) return refuse(url, "its prefix has other things than letters, digits and - . _ ~");
  if (region.empty()) region = "us-east-1";
  if (!is_region(region)) return refuse(url, fmt::format("'{}' is no region", region.substr(0, 80)));
  Address address{"", std::string(url), region};
  if (!endpoint.empty()) {
    if (endpoint.find('@') != std::string::npos) return refuse("s3://...", "its endpoint has a password in it");
    CRUCIBLE_TRY(const std::string base, parse_http(endpoint, endpoint));
    address.base = fmt::format("{}/{}", base, bucket);
  } else if (bucket.find_first_of("._") != std::string_view::npos) {  // no certificate is for such a host
    address.base = fmt::format("https://s3.{}.amazonaws.com/{}", region, bucket);
  } else {
    address.base = fmt::format("https://{}.s3.{}.amazonaws.com", bucket, region);
  }
  if (!prefix.empty()) address.base += fmt::format("/{}", prefix);
  return address;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string process_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<Address> parse_address(std::string_view url, const Environment& variable) {
  const std::string_view before = url.substr(0, url.find('?'));
  if (before.find('@') != std::string_view::npos) {
    return refuse(std::string(before.substr(0, before.find(':'))) + "://...",
                  "it has a user or a password in it, which lists and logs would show: use store.remote_auth_file or "
                  "CRUCIBLE_STORE_REMOTE_AUTH");
  }
  if (url.size() > kLongest || !is_printable(url)) return refuse("...", "it is too long or has odd characters");
  if (url.starts_with("s3://")) return parse_s3(url, variable);
  CRUCIBLE_TRY(std::string base, parse_http(url, url));
  return Address{base, base, ""};
}

std::optional<S3Credentials> parse_credentials(std::string_view text, std::string_view profile) {
  S3Credentials found;
  bool is_here = false, is_there = false;
  while (!text.empty()) {
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      is_here = trimmed(line.substr(1, line.size() - 2)) == profile;
      is_there = is_there || is_here;
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!is_here || equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string value(trimmed(line.substr(equals + 1)));
    if (name == "aws_access_key_id") found.id = value;
    if (name == "aws_secret_access_key") found.secret = value;
    if (name == "aws_session_token") found.token = value;
  }
  return is_there ? std::optional(found) : std::nullopt;
}

Result<std::optional<S3Credentials>> s3_credentials(const Environment& variable) {
  S3Credentials found{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN")};
  std::string where = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  if (found.id.empty() && found.secret.empty()) {
    const std::string profile = first_of(variable, {"AWS_PROFILE"});
    where = variable("AWS_SHARED_CREDENTIALS_FILE");
    if (where.empty() && !variable("HOME").empty()) where = variable("HOME") + "/.aws/credentials";
    std::error_code error;
    const bool is_file = std::filesystem::is_regular_file(where, error);
    if (!is_file && profile.empty()) return std::optional<S3Credentials>();
    std::ifstream file(where, std::ios::binary);
    std::string text(kCredentialsFile, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(is_file ? static_cast<std::size_t>(file.gcount()) : 0);
    const auto parsed = parse_credentials(text, profile.empty() ? "default" : profile);
    if (!parsed && profile.empty()) return std::optional<S3Credentials>();
    if (!parsed) {
      return Error{ErrorCode::kBadInput, fmt::format("the profile '{}' of AWS_PROFILE is not in {}: unset it, or "
                                                     "write it there",
                                                     profile, where.empty() ? "any file" : where)};
    }
    found = *parsed;
  }
  const bool is_sound = !found.id.empty() && !found.secret.empty() && is_printable(found.id) &&
                        found.id.find(':') == std::string::npos && is_printable(found.secret) &&
                        is_printable(found.token);
  if (!is_sound) {
    return Error{ErrorCode::kBadInput, fmt::format("the credentials of {} are not whole: both an id and a secret are "
                                                   "needed, without spaces",
                                                   where)};
  }
  return std::optional(found);
}

Result<std::string> authorization_of(std::string_view secret, const std::string& where) {
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.remove_suffix(1);
  const bool has_controls = std::ranges::any_of(secret, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  const std::string_view first = secret.substr(0, secret.find(' '));
  if (!has_controls && (first == "Bearer" || first == "Basic") && secret.size() > first.size() + 1) {
    return std::string(secret);
  }
  if (has_controls || secret.find(':') == std::string_view::npos || secret.starts_with(':')) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} holds no authorization: one line, USER:PASSWORD or 'Bearer TOKEN'", where)};
  }
  return "Basic " + to_base64(secret);
}

std::string s3_code(std::string_view body) {
  const std::size_t begin = body.find("<Code>"), end = body.find("</Code>");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin + 6) return "";
  const std::string_view code = body.substr(begin + 6, end - begin - 6);
  return code.size() <= 64 && is_of(code, "") ? std::string(code) : "";
}

}  // namespace crucible::store
