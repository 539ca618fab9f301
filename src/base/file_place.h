// What a path leads to: links followed by hand, this process's own descriptors distinguished from
// files, and files identified whatever they are called.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

// Closes a descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  // 0, or the errno of close(): on some file systems the first word of a full disk.
  int close();

 private:
  int number_ = -1;
};

struct FilePlace {
  std::filesystem::path path;  // without a link at its end; it need not exist
  int descriptor = -1;         // of this process, where the path names one: /dev/stdout, /dev/fd/N
  int error = 0;               // errno: the links do not end, or cannot be read
};
FilePlace follow_links(const std::string& path);

// Equal for two paths where writing one changes what the other reads.
struct FileIdentity {
  dev_t device = 0;  // of the file, or of the folder it would be made in
  ino_t inode = 0;
  std::string name;  // of a file that is not there yet
  bool operator==(const FileIdentity&) const = default;
};
// Nothing for a character device: many may write to /dev/null.
std::optional<FileIdentity> file_identity(const std::string& path);
std::optional<FileIdentity> file_identity(int descriptor);

}  // namespace tessera
