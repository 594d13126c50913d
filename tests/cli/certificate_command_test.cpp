// A certificate from the kit to the loader: made, put beside the plugin, read at load, refused when anything was
// changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class CertificateCommand : public testing::Test {
 protected:
  CertificateCommand() {
    std::string pattern = (fs::temp_directory_path() / "crucible-certificate-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
    fs::copy_file(CRUCIBLE_CPU_PLUGIN, plugin());
    fs::permissions(plugin(), fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove);
  }
  ~CertificateCommand() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  fs::path plugin() const { return folder_ / "libcrucible_cpu.so"; }
  fs::path certificate() const { return plugin().string() + ".certificate.json"; }
  void certify() {
    const std::string key = (folder_ / "key.pem").string();
    ASSERT_EQ(run_command("plugin check --make-key " + key).code, 0);
    const CommandOutcome checked = run_command("plugin check " + plugin().string() + " --tier static --certificate " +
                                               certificate().string() + " --key " + key);
    ASSERT_EQ(checked.code, 0) << checked.out << checked.err;
  }
  CommandOutcome explain(const std::string& trust) const {
    return run_command("plugin explain cpu", "CRUCIBLE_PLUGIN_PATH=" + folder_.string() + " CRUCIBLE_TRUST=" + trust);
  }
  fs::path folder_;
};

TEST_F(CertificateCommand, IsReadAtLoad) {
  EXPECT_THAT(explain("enforce").out, Not(HasSubstr("certified")));
  certify();
  const CommandOutcome outcome = explain("enforce");
  EXPECT_THAT(outcome.out, HasSubstr("certified on "));
  EXPECT_THAT(outcome.out, HasSubstr("conforms (static"));
}

TEST_F(CertificateCommand, AChangedOneIsToldOrRefused) {
  certify();
  std::ifstream in(certificate());
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::size_t at = text.find("\"static\"");
  ASSERT_NE(at, std::string::npos);
  text[at + 1] = 'S';
  std::ofstream(certificate(), std::ios::trunc) << text;
  EXPECT_THAT(explain("warn").out, HasSubstr("certificate.json"));
  const CommandOutcome refused = explain("enforce");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, HasSubstr("certificate.json"));
}

TEST_F(CertificateCommand, ThatOfAnotherFileIsToldOrRefused) {
  certify();
  std::ofstream(plugin(), std::ios::app) << "one more byte";
  EXPECT_THAT(explain("warn").out, HasSubstr("is the certificate of another file"));
  EXPECT_NE(explain("enforce").code, 0);
}

}  // namespace
}  // namespace crucible
