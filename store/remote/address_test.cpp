#include "store/remote/address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <random>

#include "store/testing/store_samples.hpp"

namespace crucible::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AddressTest : public ::testing::Test {
 protected:
  Environment environment() {
    return [this](const char* name) { return variables_[name]; };
  }
  std::string base(const std::string& url) {
    const auto address = parse_address(url, environment());
    return address ? address->base : "error";
  }
  std::map<std::string, std::string> variables_;
};

TEST_F(AddressTest, TakesWhatIsWritten) {
  EXPECT_EQ(base("http://cache"), "http://cache");
  EXPECT_EQ(base("https://cache.example.org:8443/our/store/"), "https://cache.example.org:8443/our/store");
  EXPECT_EQ(base("http://[::1]:80/a"), "http://[::1]:80/a");
  EXPECT_EQ(base("http://127.0.0.1:9"), "http://127.0.0.1:9");
}

TEST_F(AddressTest, RefusesWhatIsNoPlace) {
  for (const char* url : {"",
                          "cache",
                          "ftp://cache",
                          "file:///etc",
                          "http://",
                          "http:///a",
                          "http://a:",
                          "http://a:0",
                          "http://a:65536",
                          "http://a:1x",
                          "http://a b",
                          "http://a/../b",
                          "http://a/./b",
                          "http://a//b",
                          "http://a/b?c",
                          "http://a/#b",
                          "http://a/%2e",
                          "http://-a",
                          "http://[::1",
                          "http://[::1]x",
                          "http://[]",
                          "http://a\n",
                          "s3://",
                          "s3://ab",
                          "s3://bucket/../x",
                          "s3://bucket?a=b",
                          "s3://bucket?region=",
                          "s3://bucket?region=a/b",
                          "s3://bucket?endpoint=ftp://x",
                          "s3://buc ket",
                          "s3://bucket?region=x&endpoint=http://a/b?c",
                          "s3://.bucket"}) {
    // An empty region is Amazon's first.
    if (std::string(url) == "s3://bucket?region=") continue;
    const auto address = parse_address(url, environment());
    ASSERT_FALSE(address) << url;
    EXPECT_EQ(address.error().code, ErrorCode::kUsage);
    EXPECT_THAT(address.error().message, HasSubstr("write http://HOST")) << url;
  }
  EXPECT_FALSE(parse_address("http://" + std::string(3000, 'a'), environment()));
}

TEST_F(AddressTest, APasswordInAUrlIsNotRepeated) {
  for (const char* url :
       {"http://user:hunter2@cache/x", "s3://user:hunter2@bucket", "s3://bucket?endpoint=http://user:hunter2@host"}) {
    const auto address = parse_address(url, environment());
    ASSERT_FALSE(address);
    EXPECT_THAT(address.error().message, AllOf(HasSubstr("password in it"), Not(HasSubstr("hunter2"))));
  }
}

TEST_F(AddressTest, BucketsAreFoundByTheUrlThenByTheEnvironment) {
  EXPECT_EQ(base("s3://bucket"), "https://bucket.s3.us-east-1.amazonaws.com");
  EXPECT_EQ(base("s3://our.bucket/a/"), "https://s3.us-east-1.amazonaws.com/our.bucket/a");
  variables_["AWS_DEFAULT_REGION"] = "eu-west-1";
  EXPECT_EQ(base("s3://bucket/p"), "https://bucket.s3.eu-west-1.amazonaws.com/p");
  variables_["AWS_REGION"] = "eu-west-2";
  variables_["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9000/";
  EXPECT_EQ(base("s3://bucket/p"), "http://127.0.0.1:9000/bucket/p");
  EXPECT_EQ(parse_address("s3://bucket", environment())->region, "eu-west-2");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://minio:9000";
  EXPECT_EQ(base("s3://bucket/p"), "http://minio:9000/bucket/p");
  EXPECT_EQ(base("s3://bucket/p?endpoint=https://other&region=mars-1"), "https://other/bucket/p");
  EXPECT_EQ(parse_address("s3://bucket?region=mars-1", environment())->region, "mars-1");
}

TEST_F(AddressTest, CredentialsOfTheEnvironmentThenOfTheFile) {
  const testing::Place place;
  variables_["HOME"] = place.path().string();
  auto found = s3_credentials(environment());
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = (place.path() / "credentials").string();
  testing::write_file(place.path() / "credentials",
                      "# ours\n[default]\naws_access_key_id = ID1\r\naws_secret_access_key=S1=\n\n"
                      "[work]\naws_access_key_id=ID2\naws_secret_access_key=S2\naws_session_token=T2");
  EXPECT_EQ((*s3_credentials(environment()))->id, "ID1");
  EXPECT_EQ((*s3_credentials(environment()))->secret, "S1=");
  variables_["AWS_PROFILE"] = "work";
  EXPECT_EQ((*s3_credentials(environment()))->token, "T2");
  variables_["AWS_PROFILE"] = "none";
  EXPECT_THAT(s3_credentials(environment()).error().message, HasSubstr("the profile 'none' of AWS_PROFILE is not in"));
  variables_["AWS_ACCESS_KEY_ID"] = "ID3";
  EXPECT_THAT(s3_credentials(environment()).error().message, HasSubstr("are not whole"));
  variables_["AWS_SECRET_ACCESS_KEY"] = "S3";
  EXPECT_EQ((*s3_credentials(environment()))->id, "ID3");
  variables_["AWS_SESSION_TOKEN"] = "a\r\nX-Evil: 1";
  EXPECT_FALSE(s3_credentials(environment()));
}

TEST_F(AddressTest, AuthorizationsAreOneLine) {
  EXPECT_EQ(*authorization_of("user:pass word\n", "F"), "Basic dXNlcjpwYXNzIHdvcmQ=");
  EXPECT_EQ(*authorization_of("Bearer abc.def", "F"), "Bearer abc.def");
  for (const char* bad : {"", "user", ":x", "Bearer", "Bearer ", "a:b\nX-Evil: 1", "a:b\r\nX: 1\n"}) {
    const auto value = authorization_of(bad, "the file F");
    ASSERT_FALSE(value) << bad;
    EXPECT_THAT(value.error().message, AllOf(HasSubstr("the file F holds no authorization"), Not(HasSubstr("Evil"))));
  }
}

TEST_F(AddressTest, CodesAreWords) {
  EXPECT_EQ(s3_code("<Error><Code>AccessDenied</Code></Error>"), "AccessDenied");
  for (const char* none : {"", "<Code>", "</Code><Code>", "<Code>a b</Code>", "<Code>\x1b[31m</Code>", "<Code></Code>"})
    EXPECT_EQ(s3_code(none), "") << none;
}

// Whatever is written, what is taken has nothing in it that would be another header, another host or another path.
TEST_F(AddressTest, ChangedTextsAreOthersOrRefused) {
  std::mt19937 random(5);
  const std::vector<std::string> urls = {"http://cache.example.org:8080/our/store", "https://[fe80::1]:44/a.b/c~d",
                                         "s3://bucket/prefix/of?endpoint=http://127.0.0.1:9000&region=eu-west-1"};
  std::size_t taken = 0;
  for (int trial = 0; trial < 30'000; ++trial) {
    const auto address = parse_address(testing::mutated(urls[random() % urls.size()], random), environment());
    if (!address) continue;
    ++taken;
    EXPECT_TRUE(address->base.starts_with("http://") || address->base.starts_with("https://"));
    EXPECT_EQ(address->base.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]"),
              std::string::npos)
        << address->base;
    EXPECT_EQ(address->base.find("/../"), std::string::npos);
  }
  EXPECT_GT(taken, 1000u);
  EXPECT_LT(taken, 25'000u);
  const std::string file =
      "[default]\naws_access_key_id = ID1\naws_secret_access_key=S1\n[work]\naws_session_token=T\n";
  const std::string body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
  for (int trial = 0; trial < 30'000; ++trial) {
    const auto credentials = parse_credentials(testing::mutated(file, random), "default");
    if (credentials) {
      EXPECT_EQ(credentials->id.find('\n'), std::string::npos);
    }
    const std::string code = s3_code(testing::mutated(body, random));
    EXPECT_EQ(code.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace crucible::store
