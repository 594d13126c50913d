// A stand-in for the Python interpreter in tests: `warm_python SCRIPT ARGUMENT...` and `warm_python -c TEXT
// ARGUMENT...` run in a process forked from one that has imported torch (warm_server.py), which takes a fifth of a
// fresh start. This process hands over its arguments, environment, working folder, limits and open files, passes
// signals on and ends as that one ends. Where no server listens, or one that started under other settings, it becomes
// the interpreter itself.
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern char** environ;

namespace {

volatile sig_atomic_t process_there = 0;

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr int kLimits[] = {RLIMIT_CPU,  RLIMIT_FSIZE,  RLIMIT_DATA, RLIMIT_STACK,
                           RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_AS,   RLIMIT_NPROC};
constexpr std::size_t kMostFiles = 64;

void pass_on(int signal) {
  if (process_there > 0) kill(static_cast<pid_t>(process_there), signal);
}

/// The socket beside this program, of the server that warm.py started, or -1.
int connect_to_server(const std::string& folder) {
  const int place = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (place < 0) return -1;
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // By its folder's number: the path of a socket has 107 characters at most.
  const std::string path = "/proc/self/fd/" + std::to_string(place) + "/socket";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool connected =
      connection >= 0 && connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(place);
  if (connected) return connection;
  if (connection >= 0) close(connection);
  return -1;
}

std::vector<int> open_files(int except) {
  std::vector<int> files;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return files;
  while (const dirent* entry = readdir(folder)) {
    const int file = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && file != except && file != dirfd(folder)) files.push_back(file);
  }
  closedir(folder);
  return files;
}

void add_number(std::string& text, std::uint64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void add_words(std::string& text, char** words) {
  std::uint64_t count = 0;
  while (words[count] != nullptr) ++count;
  add_number(text, count);
  for (std::uint64_t i = 0; i < count; ++i) text.append(words[i], std::strlen(words[i]) + 1);
}

/// What the other process is to have of this one: warm_server.py reads it in this order.
std::string request_of(char** arguments, const std::vector<int>& files) {
  std::string text;
  const mode_t mask = umask(0);
  umask(mask);
  add_number(text, mask);
  for (const int limit : kLimits) {
    rlimit values{};
    getrlimit(static_cast<__rlimit_resource>(limit), &values);
    add_number(text, values.rlim_cur);
    add_number(text, values.rlim_max);
  }
  add_number(text, files.size());
  for (const int file : files) add_number(text, static_cast<std::uint64_t>(file));
  add_words(text, arguments);
  add_words(text, environ);
  return text;
}

bool send_all(int connection, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t now = send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

/// The length of what follows, with the files: the working folder first.
bool send_head(int connection, std::uint64_t length, const std::vector<int>& files) {
  std::vector<int> handed = files;
  handed.insert(handed.begin(), open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (handed[0] < 0) return false;
  std::vector<char> control(CMSG_SPACE(handed.size() * sizeof(int)));
  iovec part{&length, sizeof length};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(handed.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), handed.data(), handed.size() * sizeof(int));
  const bool sent = sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof length);
  close(handed[0]);
  return sent;
}

/// A number from the server; 0 at its end.
std::int64_t receive_number(int connection) {
  std::int64_t number = 0;
  std::size_t got = 0;
  while (got < sizeof number) {
    const ssize_t now = recv(connection, reinterpret_cast<char*>(&number) + got, sizeof number - got, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return 0;
    got += static_cast<std::size_t>(now);
  }
  return number;
}

/// Ends as a process with this status of waitpid() ended.
[[noreturn]] void end_as(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
  kill(getpid(), WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

/// Ends this process, or returns: there is no server for it.
void run_there(char** arguments, const std::string& folder) {
  const bool is_text = arguments[1] != nullptr && std::strcmp(arguments[1], "-c") == 0 && arguments[2] != nullptr;
  if (arguments[1] == nullptr || (arguments[1][0] == '-' && !is_text)) return;
  const int connection = connect_to_server(folder);
  if (connection < 0) return;
  const std::vector<int> files = open_files(connection);
  const std::string request = request_of(arguments, files);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);  // until it is known whom to pass signals to
  std::int64_t process = 0;
  if (files.size() < kMostFiles && send_head(connection, request.size(), files) && send_all(connection, request))
    process = receive_number(connection);
  if (process <= 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(connection);
    return;
  }
  process_there = static_cast<sig_atomic_t>(process);
  for (const int number : kSignals) signal(number, pass_on);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  // What it reads, writes and locks is its own now: pipes end when it ends.
  for (const int file : files) close(file);
  const std::int64_t answer = receive_number(connection);
  process_there = 0;
  if (answer == 0) _exit(127);  // the server was ended
  end_as(static_cast<int>(answer) - 1);
}

}  // namespace

int main(int count, char** arguments) {
  (void)count;
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return 127;
  std::string folder(self, static_cast<std::size_t>(length));
  folder.resize(folder.rfind('/'));
  run_there(arguments, folder);
  arguments[0] = const_cast<char*>(CRUCIBLE_TEST_PYTHON);
  execv(CRUCIBLE_TEST_PYTHON, arguments);
  return 127;
}
