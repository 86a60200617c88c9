// SPDX-License-Identifier: Apache-2.0
//
// Linux behind platform.hpp.
#include "sdk/conform/platform.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fenv.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>

#include "sdk/conform/checks.hpp"

namespace bp::conform {
namespace {

size_t entry_count(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator begin(folder, error);
  return error ? 0 : static_cast<size_t>(std::distance(begin, {}));
}

/// What the handler of faults looks at: a signal handler may take no lock.
struct Wire {
  std::atomic<bool> taken = false;
  std::atomic<std::byte*> page = nullptr;
  std::atomic<std::byte*> touched = nullptr;
};
std::array<Wire, 64> wires;  // more than one call has arguments
struct sigaction handler_before = {};

void open_page(std::byte* page) { mprotect(page, page_bytes(), PROT_READ | PROT_WRITE); }

void on_fault(int number, siginfo_t* info, void*) {
  auto* const address = static_cast<std::byte*>(info->si_addr);
  for (Wire& wire : wires) {
    std::byte* const page = wire.page.load();
    if (page == nullptr || address < page || address >= page + page_bytes()) continue;
    std::byte* untouched = nullptr;
    wire.touched.compare_exchange_strong(untouched, address);
    return open_page(page);
  }
  // Not ours: the same access faults again, and ends the process as it would have.
  sigaction(number, &handler_before, nullptr);
}

void handle_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &handler_before);
}

}  // namespace

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

Tripwire::Tripwire(std::byte* page) {
  static std::once_flag handled;
  std::call_once(handled, handle_faults);
  const auto is_free = [](Wire& wire) { return !wire.taken.exchange(true); };
  const auto wire = std::find_if(wires.begin(), wires.end(), is_free);
  if (wire == wires.end()) throw std::bad_alloc();
  wire_ = static_cast<size_t>(wire - wires.begin());
  wire->touched = nullptr;
  wire->page = page;
  if (mprotect(page, page_bytes(), PROT_NONE) == 0) return;
  wire->page = nullptr;
  wire->taken = false;
  throw std::bad_alloc();
}

Tripwire::~Tripwire() {
  Wire& wire = wires[wire_];
  open_page(wire.page);
  wire.page = nullptr;
  wire.taken = false;
}

std::optional<size_t> Tripwire::touched_at() const {
  const Wire& wire = wires[wire_];
  const std::byte* const touched = wire.touched.load();
  if (touched == nullptr) return std::nullopt;
  return static_cast<size_t>(touched - wire.page.load());
}

GuardedMemory::GuardedMemory(size_t bytes) {
  const size_t page = page_bytes();
  const size_t usable = (bytes + page - 1) / page * page;
  mapping_bytes_ = usable + page;
  void* mapping =
      mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  if (mprotect(mapping_ + usable, page, PROT_NONE) != 0) throw std::bad_alloc();
  data_ = mapping_ + usable - bytes;
}

GuardedMemory::~GuardedMemory() { munmap(mapping_, mapping_bytes_); }

int64_t process_number() { return getpid(); }

Usage current_usage() { return {entry_count("/proc/self/task"), entry_count("/proc/self/fd")}; }

Usage settled_usage(const Usage& limit, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  Usage usage = current_usage();
  while (usage.exceeds(limit) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    usage = current_usage();
  }
  return usage;
}

namespace {

std::string signal_handlers() {
  std::ostringstream text;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    text << number << ':' << reinterpret_cast<const void*>(action.sa_handler) << '/'
         << action.sa_flags << ' ';
  }
  return text.str();
}

std::string signal_mask() {
  sigset_t mask;
  sigemptyset(&mask);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::string text;
  for (int number = 1; number < NSIG; ++number) text += sigismember(&mask, number) == 1 ? '1' : '0';
  return text;
}

std::string file_mode_mask() {
  const mode_t mask = umask(0);
  umask(mask);
  return words(mask);
}

std::string environment() {
  std::string text;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    text += std::string(*entry) + "\n";
  }
  return text;
}

std::string resource_limits() {
  std::ostringstream text;
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    rlimit limit{};
    getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
    text << resource << ':' << limit.rlim_cur << '/' << limit.rlim_max << ' ';
  }
  return text.str();
}

/// Rounding, traps and how small numbers fare. The product is what users would see; the register
/// tells modes that one product doesn't.
std::string floating_point() {
  volatile float tiny = 1e-40F;
  volatile float product = tiny * 1.0F;
  uint32_t control = 0;
#if defined(__SSE__)
  constexpr uint32_t kStickyFlags = 0x3f;
  control = _mm_getcsr() & ~kStickyFlags;
#endif
  return words("rounding ", fegetround(), ", traps ", fegetexcept(), ", denormals ",
               product == tiny ? "kept" : "flushed", ", control ", control);
}

}  // namespace

std::map<std::string, std::string> surroundings() {
  std::error_code ignored;
  return {{"signal handlers", signal_handlers()},
          {"signal mask", signal_mask()},
          {"locale", setlocale(LC_ALL, nullptr)},
          {"umask", file_mode_mask()},
          {"working directory", std::filesystem::current_path(ignored).string()},
          {"environment", environment()},
          {"resource limits", resource_limits()},
          {"floating point", floating_point()}};
}

namespace {

/// The file's bytes, read with bounds: it comes from elsewhere.
class ElfFile {
 public:
  explicit ElfFile(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  bool read(uint64_t offset, T* out) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return false;
    std::memcpy(out, bytes_.data() + offset, sizeof(T));
    return true;
  }
  std::string text(uint64_t offset) const {
    return offset < bytes_.size() ? std::string(bytes_.c_str() + offset) : std::string();
  }

 private:
  std::string bytes_;
};

void read_symbols(const ElfFile& file, const ElfW(Shdr) & section, const ElfW(Shdr) & names,
                  DynamicSection* out) {
  for (uint64_t at = 0; at + sizeof(ElfW(Sym)) <= section.sh_size; at += sizeof(ElfW(Sym))) {
    ElfW(Sym) symbol{};
    if (!file.read(section.sh_offset + at, &symbol) || symbol.st_name == 0) continue;
    const std::string name = file.text(names.sh_offset + symbol.st_name);
    const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
    if (symbol.st_shndx == SHN_UNDEF) {
      out->imported.push_back(name);
    } else if (!local && symbol.st_shndx != SHN_ABS) {  // SHN_ABS: names of symbol versions
      out->exported.push_back(name);
    }
  }
}

void read_search_paths(const ElfFile& file, const ElfW(Shdr) & section, const ElfW(Shdr) & names,
                       DynamicSection* out) {
  for (uint64_t at = 0; at + sizeof(ElfW(Dyn)) <= section.sh_size; at += sizeof(ElfW(Dyn))) {
    ElfW(Dyn) entry{};
    if (!file.read(section.sh_offset + at, &entry)) return;
    if (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) continue;
    std::istringstream paths(file.text(names.sh_offset + entry.d_un.d_val));
    for (std::string path; std::getline(paths, path, ':');) out->search_paths.push_back(path);
  }
}

}  // namespace

Result<DynamicSection> read_dynamic_section(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const ElfFile file(std::string(std::istreambuf_iterator<char>(stream), {}));
  ElfW(Ehdr) header{};
  if (!file.read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return Status(BP_INVALID_ARGUMENT, path + " is no ELF file");
  }
  DynamicSection result;
  bool found = false;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section{};
    ElfW(Shdr) names{};
    if (!file.read(header.e_shoff + uint64_t{i} * header.e_shentsize, &section)) break;
    if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_DYNAMIC) continue;
    if (!file.read(header.e_shoff + uint64_t{section.sh_link} * header.e_shentsize, &names)) break;
    found = true;
    if (section.sh_type == SHT_DYNSYM) read_symbols(file, section, names, &result);
    if (section.sh_type == SHT_DYNAMIC) read_search_paths(file, section, names, &result);
  }
  if (!found) return Status(BP_INVALID_ARGUMENT, path + " has no dynamic section");
  return result;
}

Result<Library> Library::open(const std::string& path) {
  Library library;
  library.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library.handle_ == nullptr) {
    const char* reason = dlerror();
    return Status(BP_UNAVAILABLE, reason != nullptr ? reason : path);
  }
  Dl_info info{};
  const void* entry = library.symbol("bp_plugin_entry");
  if (entry != nullptr && dladdr(entry, &info) != 0) library.base_path_ = info.dli_fname;
  return library;
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

bool Library::contains(const void* address) const {
  Dl_info info{};
  return dladdr(address, &info) != 0 && base_path_ == info.dli_fname;
}

namespace {

/// Runs in the child, and doesn't come back.
[[noreturn]] void run_child(const std::function<int(int)>& body, int results, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the group is not the terminal's, whose signals pass it by
  const rlimit no_core_file{0, 0};
  setrlimit(RLIMIT_CORE, &no_core_file);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  std::exit(body(results));
}

Status system_failure(const char* what) {
  return Status(BP_UNAVAILABLE, words(what, ": ", std::strerror(errno)));
}

Result<Child> fork_child(Step* step, const std::function<int(int results)>& body) {
  int results[2];
  int output[2];
  if (pipe2(results, O_CLOEXEC) != 0) return system_failure("pipe");
  if (pipe2(output, O_CLOEXEC) != 0) {
    const Status status = system_failure("pipe");
    close(results[0]);
    close(results[1]);
    return status;
  }
  std::fflush(nullptr);  // else both would print what is buffered
  const pid_t process = fork();
  if (process == 0) {
    close(results[0]);
    close(output[0]);
    set_current_step(step);
    run_child(body, results[1], output[1]);
  }
  close(results[1]);
  close(output[1]);
  if (process < 0) {
    const Status status = system_failure("fork");
    close(results[0]);
    close(output[0]);
    return status;
  }
  setpgid(process, process);  // here too: whichever comes first
  fcntl(results[0], F_SETFL, O_NONBLOCK);
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  return Child{process, results[0], output[0], step};
}

}  // namespace

Result<Child> start_child(const std::function<int(int results)>& body) {
  void* const shared =
      mmap(nullptr, sizeof(Step), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return system_failure("mmap");
  auto child = fork_child(new (shared) Step, body);
  if (!child.ok()) munmap(shared, sizeof(Step));
  return child;
}

bool has_terminal() { return isatty(STDERR_FILENO) == 1; }

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;  // no process listens any more
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

void wait_readable(std::span<const int> files, std::chrono::milliseconds timeout) {
  std::vector<pollfd> polled;
  for (const int file : files) polled.push_back({.fd = file, .events = POLLIN, .revents = 0});
  poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));
}

bool read_available(int file, std::string* out) {
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count == 0) return false;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    out->append(buffer, static_cast<size_t>(count));
  }
}

void kill_child(const Child& child) { kill(-static_cast<pid_t>(child.process), SIGKILL); }

bool has_ended(const Child& child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child.process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

Ending reap_child(Child* child) {
  int status = 0;
  while (waitpid(static_cast<pid_t>(child->process), &status, 0) < 0 && errno == EINTR) {
  }
  Ending ending;
  ending.left_a_process = kill(-static_cast<pid_t>(child->process), SIGKILL) == 0;
  close(child->results);
  close(child->output);
  ending.step = child->step->words();
  munmap(child->step, sizeof(Step));
  *child = {};
  if (WIFSIGNALED(status)) {
    ending.words = words("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  } else if (const int code = WEXITSTATUS(status); code != 0) {
    ending.words = words("exit code ", code);
  }
  return ending;
}

}  // namespace bp::conform
