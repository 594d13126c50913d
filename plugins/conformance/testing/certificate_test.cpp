// Certificates: any changed field is refused, a key that is not trusted is refused, damaged text is refused.
#include "plugins/conformance/certificate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plugins/loader/verify_certificate.hpp"

namespace crucible::conformance {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class CertificateTest : public testing::Test {
 protected:
  CertificateTest() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-certificate-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
    if (!make_key(key())) ADD_FAILURE() << "no key";
    report_.identity = {"acme",   "Acme",     "1.2",         "abc",           0,    2, std::string(64, 'a'),
                        "acme:0", "Acme One", "accelerator", "acme-driver 7", false};
    report_.cases = {{"static.a", Tier::kStatic, "", Outcome::kPassed, "", "", "", "", 1},
                     {"ops.add", Tier::kOps, "", Outcome::kUnsupported, "", "", "", "", 1}};
  }
  ~CertificateTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path key() const { return folder_ / "key.pem"; }
  std::string certificate() {
    const auto text = make_certificate(report_, key());
    if (!text) return ADD_FAILURE() << text.error().message, "";
    return *text;
  }
  std::filesystem::path folder_;
  Report report_;
};

TEST_F(CertificateTest, SaysWhatTheReportSays) {
  const auto c = verify_certificate(certificate());
  ASSERT_TRUE(static_cast<bool>(c)) << c.error().message;
  EXPECT_EQ(c->plugin_name, "acme");
  EXPECT_EQ(c->plugin_abi, "0.2");
  EXPECT_EQ(c->driver, "acme-driver 7");
  EXPECT_FALSE(c->emulated);
  EXPECT_TRUE(c->conforms);
  ASSERT_EQ(c->tiers.size(), 2u);
  EXPECT_EQ(c->tiers[1].name, "ops");
  EXPECT_EQ(c->tiers[1].unsupported, 1u);
  report_.cases[0].outcome = Outcome::kFailed;
  report_.identity.emulated = true;
  const auto failed = verify_certificate(certificate());
  ASSERT_TRUE(static_cast<bool>(failed));
  EXPECT_FALSE(failed->conforms);
  EXPECT_TRUE(failed->emulated);
}

/// Every value in the document, changed one by one.
void change_each(const Json& whole, Json& part, int& changed, const std::string& path) {
  if (part.is_structured()) {
    for (auto it = part.begin(); it != part.end(); ++it) {
      change_each(whole, *it, changed, path + "/" + (part.is_object() ? it.key() : "item"));
    }
    return;
  }
  const Json before = part;
  if (part.is_boolean()) {
    part = !part.get<bool>();
  } else if (part.is_number()) {
    part = part.get<int>() + 1;
  } else {
    std::string text = part;
    if (text.empty()) {
      text = "x";
    } else {
      text[0] = text[0] == 'b' ? 'c' : 'b';
    }
    part = text;
  }
  const auto verified = verify_certificate(whole.dump());
  EXPECT_FALSE(verified) << path << " could be changed";
  part = before;
  ++changed;
}

TEST_F(CertificateTest, EveryChangedFieldIsRefused) {
  Json document = Json::parse(certificate());
  ASSERT_TRUE(static_cast<bool>(verify_certificate(document.dump())));
  int changed = 0;
  change_each(document, document, changed, "");
  EXPECT_GE(changed, 28);  // 17 fields and 7 per tier
}

TEST_F(CertificateTest, AnAddedOrRemovedFieldIsRefused) {
  const Json good = Json::parse(certificate());
  for (const auto& [field, value] : good.items()) {
    Json cut = good;
    cut.erase(field);
    EXPECT_FALSE(verify_certificate(cut.dump())) << field << " could be left out";
  }
  Json more = good;
  more["approved"] = true;
  EXPECT_FALSE(verify_certificate(more.dump()));
  more = good;
  more["tiers"].push_back(more["tiers"][0]);
  EXPECT_FALSE(verify_certificate(more.dump()));
}

TEST_F(CertificateTest, AKeyThatIsThereTwiceIsRefused) {
  std::string text = certificate();
  text.insert(text.find('{') + 1, "\"quick\": false, ");
  const auto verified = verify_certificate(text);
  ASSERT_FALSE(verified);
  EXPECT_THAT(verified.error().message, HasSubstr("a key twice"));
}

TEST_F(CertificateTest, LayoutAndOrderDoNotMatter) {
  const std::string text = certificate();
  EXPECT_TRUE(static_cast<bool>(verify_certificate(Json::parse(text).dump())));
  EXPECT_TRUE(static_cast<bool>(verify_certificate(nlohmann::ordered_json::parse(text).dump(7))));
}

TEST_F(CertificateTest, AnotherKeysSignatureIsRefusedWhereOneIsTrusted) {
  const std::string text = certificate();
  const std::string own = Json::parse(text)["public_key"];
  EXPECT_TRUE(static_cast<bool>(verify_certificate(text, own)));
  const auto other = verify_certificate(text, std::string(64, '0'));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kCheckFailed);
  EXPECT_THAT(other.error().message, HasSubstr("is signed by " + own));
}

TEST_F(CertificateTest, ForgedWithAnotherKeyIsRefused) {
  const std::filesystem::path other = folder_ / "other.pem";
  ASSERT_TRUE(static_cast<bool>(make_key(other)));
  Json mine = Json::parse(certificate());
  const Json forged = Json::parse(*make_certificate(report_, other));
  mine["signature"] = forged["signature"];
  EXPECT_EQ(verify_certificate(mine.dump()).error().code, ErrorCode::kCheckFailed);
}

TEST_F(CertificateTest, WhatIsNoCertificateIsRefused) {
  for (const std::string text :
       {"", "{", "[]", "{}", "null", "{\"format\": 7}", "{\"format\": \"crucible-certificate-2\"}"}) {
    const auto verified = verify_certificate(text);
    ASSERT_FALSE(verified) << text;
    EXPECT_EQ(verified.error().code, ErrorCode::kBadInput);
  }
}

TEST_F(CertificateTest, KeysAreKeptAndCheckedCarefully) {
  struct stat status = {};
  ASSERT_EQ(stat(key().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(make_key(key()).error().code, ErrorCode::kBadInput);  // an existing file is not replaced
  std::ofstream(folder_ / "junk.pem") << "not a key";
  EXPECT_THAT(make_certificate(report_, folder_ / "junk.pem").error().message, HasSubstr("no Ed25519 private key"));
  EXPECT_EQ(make_certificate(report_, folder_ / "absent.pem").error().code, ErrorCode::kBadInput);
}

}  // namespace
}  // namespace crucible::conformance
