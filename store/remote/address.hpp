// Where a remote is and who asks it: the URL that a person writes, and the secrets that never stand in one.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace crucible::store {

/// A variable of the environment; "": it is not set.
using Environment = std::function<std::string(const char* name)>;
/// This process's.
std::string process_variable(const char* name);

struct Address {
  std::string base;    // http(s)://HOST[:PORT][/PATH], without a slash at its end
  std::string shown;   // for people: what they wrote
  std::string region;  // of S3; "": it is none
  bool is_s3() const { return !region.empty(); }
};

/// `http://HOST[:PORT][/PATH]`, the same with https, or `s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME]`: where these
/// are not said, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION and AWS_DEFAULT_REGION say them, else it is Amazon's
/// us-east-1. Errors: kUsage; a password in a URL is refused and not repeated.
Result<Address> parse_address(std::string_view url, const Environment& variable);

/// Who asks an S3 bucket.
struct S3Credentials {
  std::string id, secret, token;  // token: "" or of a session
};

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else the profile AWS_PROFILE (`default`) of the file
/// AWS_SHARED_CREDENTIALS_FILE (`~/.aws/credentials`). Nothing: there are none, and a public bucket is read all the
/// same. Errors: kBadInput: half of them, or what cannot be in them.
Result<std::optional<S3Credentials>> s3_credentials(const Environment& variable);
/// A profile of such a file. Nothing: it is not there.
std::optional<S3Credentials> parse_credentials(std::string_view text, std::string_view profile);

/// The value of the header `Authorization` that `secret` means: `USER:PASSWORD`, or a whole one as `Bearer TOKEN`.
/// Errors: kBadInput, without repeating any of it.
Result<std::string> authorization_of(std::string_view secret, const std::string& where);

/// What `<Code>` says in the answer of an S3 server; "": nothing that is a word.
std::string s3_code(std::string_view body);

}  // namespace crucible::store
