#include "backends/cpu/build.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "backends/cpu/device.hpp"
#include "backends/cpu/process.hpp"
#include "backends/cpu/processors.hpp"
#include "backends/cpu/sdk.hpp"
#include "plugins/sdk/mathematics.hpp"

namespace crucible_cpu {
namespace {

constexpr int kSignalled = 128;  // run_all's statuses above it are signals
constexpr int kKilled = kSignalled + 9;
constexpr std::uintmax_t kLittleSpace = 1 << 20;

constexpr std::string_view kWorkName = "crucible-build-";

std::filesystem::path temporary_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return error ? std::filesystem::path("/tmp") : folder;
}

/// Removes what compilations left that were killed more than a day ago.
void remove_leftovers() {
  const auto yesterday = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(temporary_folder(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kWorkName)) continue;
    struct stat status = {};
    std::error_code ignored;
    if (lstat(entry->path().c_str(), &status) != 0 || status.st_uid != geteuid() || !S_ISDIR(status.st_mode)) continue;
    if (entry->last_write_time(ignored) < yesterday && !ignored) std::filesystem::remove_all(entry->path(), ignored);
  }
}

/// Even shares of the text, longest kernels first, each to the file that has least so far.
std::vector<std::vector<const Text*>> split(std::vector<const Text*> texts) {
  constexpr std::size_t kFewestPerFile = 2;  // a process costs as much as some small kernels
  const std::size_t most = std::max<std::size_t>(1, texts.size() / kFewestPerFile);
  std::vector<std::vector<const Text*>> files(
      std::min<std::size_t>(static_cast<std::size_t>(usable_processors()), most));
  std::vector<std::size_t> load(files.size(), 0);
  std::stable_sort(texts.begin(), texts.end(),
                   [](auto* a, auto* b) { return a->key.content.size() > b->key.content.size(); });
  for (const Text* text : texts) {
    const auto lightest = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    files[lightest].push_back(text);
    load[lightest] += text->key.content.size() + 200;
  }
  return files;
}

std::string first_lines(const std::filesystem::path& file, int count) {
  std::ifstream stream(file);
  std::string text, line;
  while (count-- > 0 && std::getline(stream, line)) text += "\n  " + line;
  return text.empty() ? "\n  (it printed nothing)" : text;
}

Command command_for(const Compiler& compiler, const std::string& stem) {
  Command command{{compiler.path.string()}, stem + ".log"};
  command.arguments.insert(command.arguments.end(), compiler.flags.begin(), compiler.flags.end());
  for (const std::string& argument : {std::string("-o"), stem + ".so", stem + ".c"})
    command.arguments.push_back(argument);
  return command;
}

/// What became of one C file.
struct Outcome {
  std::string write_problem;  // the source could not be written
  int status = 0;             // the compiler's
  bool is_good = false;

  std::string in_words(const Compiler& compiler) const {
    if (!write_problem.empty()) return write_problem;
    if (status <= kSignalled) return compiler.path.string() + " ended with status " + std::to_string(status);
    const int signal = status - kSignalled;
    return compiler.path.string() + " was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
};

/// Writes one C file with what stands before everything, the mathematics and the kernels. "" or what went wrong.
std::string write_source(const std::filesystem::path& file, const std::string& before, const std::string& mathematics,
                         const std::vector<const Text*>& texts) {
  std::ofstream stream(file, std::ios::binary);
  stream << before << mathematics << "\n";
  for (const Text* text : texts) stream << text->key.content << "\n";
  return stream.flush() ? "" : "cannot write " + file.string() + ": " + std::strerror(errno);
}

/// Writes and compiles the objects' sources, all at the same time.
std::vector<Outcome> compile_objects(const Compiler& compiler, const std::string& mathematics,
                                     const std::vector<Object>& objects) {
  std::vector<Outcome> outcomes(objects.size());
  std::vector<Command> commands;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const std::string stem = objects[i].stem.string();
    outcomes[i].write_problem = write_source(stem + ".c", compiler.before, mathematics, objects[i].kernels);
    if (!outcomes[i].write_problem.empty()) continue;
    commands.push_back(command_for(compiler, stem));
    which.push_back(i);
  }
  const std::vector<int> statuses = run_all(commands);
  for (std::size_t i = 0; i < which.size(); ++i) {
    std::error_code error;
    Outcome& outcome = outcomes[which[i]];
    outcome.status = statuses[i];
    outcome.is_good = statuses[i] == 0 && std::filesystem::exists(objects[which[i]].stem.string() + ".so", error);
  }
  return outcomes;
}

/// The last word about an object that could not be made: whose fault it is, and what to do.
[[noreturn]] void give_up(const Compiler& compiler, const Object& object, const Outcome& outcome) {
  const std::string place = object.folder->path().string(), words = first_lines(object.stem.string() + ".log", 8);
  const std::string what = outcome.in_words(compiler);
  if (!outcome.write_problem.empty()) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, what + "; make room, or set TMPDIR to a folder with room");
  }
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(place, error);
  if (!error && space.available < kLittleSpace) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, what + ", and the disk of " + place +
                                              " is full: make room, or set TMPDIR to a folder with room" + words);
  }
  const Object trial{object.folder->next_stem(), {}, object.folder};
  if (!compile_objects(compiler, "int crucible_trial;", {trial})[0].is_good) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE,
                  "the compiler does not work: " + what + ", on a file of one line too:" + words +
                      "\ntry it by hand, see whether memory has run out, or name another compiler: "
                      "CRUCIBLE_CLANG, or --set backend.cpu.compiler=PATH");
  }
  object.folder->keep(object.stem);
  const std::string where = what + " on " + object.stem.string() + ".c (kept)";
  if (outcome.status == kKilled) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, where + ", twice: memory may have run out; free some and run again" + words);
  }
  throw Failure(CRUCIBLE_E_INTERNAL, where + ":" + words);
}

}  // namespace

WorkFolder::WorkFolder() {
  std::string name = (temporary_folder() / (std::string(kWorkName) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot create a folder like " + name + " for the compiler: " +
                                              std::strerror(errno) + "; set TMPDIR to a folder with room");
  }
  path_ = name;
}

WorkFolder::~WorkFolder() {
  std::error_code error;
  if (!kept_) std::filesystem::remove_all(path_, error);
}

void WorkFolder::keep(const std::filesystem::path& stem) {
  kept_ = true;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::filesystem::path& file = entry->path();
    if (file.stem() != stem.filename() || file.extension() == ".so") std::filesystem::remove(file, ignored);
  }
}

Build::Build(const Compiler& compiler, std::vector<const Text*> kernels) {
  remove_leftovers();
  const std::string mathematics = math_text(dialect_c());
  folders_.push_back(std::make_unique<WorkFolder>());
  WorkFolder* folder = folders_.back().get();
  std::vector<Object> tried;
  for (std::vector<const Text*>& file : split(std::move(kernels)))
    tried.push_back({folder->next_stem(), std::move(file), folder});
  const std::vector<Outcome> outcomes = compile_objects(compiler, mathematics, tried);
  std::string first_problem;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (!outcomes[i].is_good) {
      if (first_problem.empty()) {
        first_problem = outcomes[i].in_words(compiler);
        folders_.push_back(std::make_unique<WorkFolder>());
        folder = folders_.back().get();
      }
      tried[i] = {folder->next_stem(), std::move(tried[i].kernels), folder};
      const Outcome again = compile_objects(compiler, mathematics, {tried[i]})[0];
      if (!again.is_good) give_up(compiler, tried[i], again);
    }
    objects_.push_back(std::move(tried[i]));
  }
  if (!first_problem.empty()) {
    const std::string place = folder->path().parent_path().string();
    log(LogLevel::kWarning, "compile",
        first_problem + "; a second try, one file at a time in " + place + ", succeeded");
  }
}

}  // namespace crucible_cpu
