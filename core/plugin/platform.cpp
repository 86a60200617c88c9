// SPDX-License-Identifier: Apache-2.0
//
// POSIX and ELF: what the steps of a load ask the operating system.
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

// Leads to what runs, even where the file that it was started from is gone.
constexpr const char* kProgramLink = "/proc/self/exe";

}  // namespace

Result<FileInfo> file_info(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return fail(BP_UNAVAILABLE, "{}: {}", path, std::generic_category().message(errno));
  }
  FileInfo info;
  info.identity = {static_cast<int64_t>(st.st_dev),
                   static_cast<int64_t>(st.st_ino),
                   st.st_size,
                   st.st_mtim.tv_sec,
                   st.st_mtim.tv_nsec,
                   st.st_ctim.tv_sec,
                   st.st_ctim.tv_nsec};
  info.size_bytes = static_cast<uint64_t>(st.st_size);
  info.owner = st.st_uid;
  info.group = st.st_gid;
  info.permissions = st.st_mode & 07777u;
  info.is_folder = S_ISDIR(st.st_mode);
  info.is_regular = S_ISREG(st.st_mode);
  return info;
}

Status check_library_complete(const std::string& path, uint64_t size_bytes) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32)) {
    return {};
  }
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    const bool read = !!file.read(reinterpret_cast<char*>(&segment), sizeof(segment));
    const bool inside =
        segment.p_offset <= size_bytes && segment.p_filesz <= size_bytes - segment.p_offset;
    if (read && (inside || segment.p_type != PT_LOAD)) continue;
    return fail(BP_UNAVAILABLE, "{} is cut off: its own headers name more than its {} bytes", path,
                size_bytes);
  }
  return {};
}

Result<std::vector<std::string>> needed_libraries(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> names;
  // A library may have a hundred megabytes: only what is looked at is read.
  const auto read = [&](uint64_t at, auto* out) {
    file.clear();
    file.seekg(static_cast<std::streamoff>(at));
    return !!file.read(reinterpret_cast<char*>(out), sizeof(*out));
  };
  ElfW(Ehdr) header{};
  if (!read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return names;
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!read(header.e_phoff + i * sizeof(ElfW(Phdr)), &segments[i])) return names;
  }
  uint64_t texts = 0;
  std::vector<uint64_t> offsets;
  for (const ElfW(Phdr) & segment : segments) {
    ElfW(Dyn) entry{};
    if (segment.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at < segment.p_filesz; at += sizeof(entry)) {
      if (!read(segment.p_offset + at, &entry) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) offsets.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) texts = entry.d_un.d_ptr;
    }
  }
  for (const ElfW(Phdr) & segment : segments) {
    const bool has_texts = segment.p_type == PT_LOAD && texts >= segment.p_vaddr &&
                           texts - segment.p_vaddr < segment.p_filesz;
    if (!has_texts) continue;
    const uint64_t begin = texts - segment.p_vaddr + segment.p_offset;
    for (const uint64_t offset : offsets) {
      constexpr std::streamsize kMostLetters = 256;
      char name[kMostLetters] = {};
      file.clear();
      file.seekg(static_cast<std::streamoff>(begin + offset));
      if (file.get(name, kMostLetters, '\0')) names.emplace_back(name);
    }
  }
  return names;
}

std::string core_binary(bool* out_is_library) {
  Dl_info info{};
  link_map* map = nullptr;
  // The main program has no name in its link map; dladdr would give the words it was started with.
  const int found = dladdr1(reinterpret_cast<const void*>(&core_binary), &info,
                            reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  *out_is_library = found != 0 && map != nullptr && map->l_name != nullptr && *map->l_name != 0;
  std::error_code error;
  if (*out_is_library) {
    const std::filesystem::path real = std::filesystem::canonical(map->l_name, error);
    return error ? std::filesystem::absolute(map->l_name, error) : real;
  }
  constexpr std::string_view kDeleted = " (deleted)";  // as after an update: it runs all the same
  std::string path = std::filesystem::read_symlink(kProgramLink, error);
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

Result<FileInfo> core_file_info() {
  bool is_library = false;
  const std::string path = core_binary(&is_library);
  return file_info(is_library ? path : kProgramLink);
}

uint32_t effective_user() { return ::geteuid(); }
uint32_t effective_group() { return ::getegid(); }
bool process_is_privileged() { return getauxval(AT_SECURE) != 0; }

}  // namespace bp
