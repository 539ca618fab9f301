// Every file is written here, so that a partial one never appears under its name.
//
//   create() ─► .tessera-<random>.partial ◄─ write()
//                      │ commit(): fsync, rename over the target, fsync of the folder
//                      ▼
//                    target
//
// The temporary lies in the target's folder, is made new (no link is followed, nothing that is
// there is used) and is removed where anything fails; the target is then what it was. Two writers
// of one name disturb each other nowhere: the last rename wins. What a killed process leaves behind
// is never read and may be deleted.
//
// A link at the target stays, and what it leads to is replaced. An existing file's mode is kept,
// and its owner where this process may; a new one's mode follows the umask. A pipe, a device, or a
// descriptor of this process (/dev/stdout) has no temporary: write() goes there at once. A write to
// a pipe without a reader is an error and raises no signal.
//
// Not for several threads at once.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_place.h"
#include "base/result.h"
#include "tessera/file.h"

namespace tessera {

struct OutputOptions {
  bool synchronised = true;  // false for scratch files, which need not survive a power cut
};

class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path, const OutputOptions& options = {});
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without commit() nothing has happened

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  // Under its name and on the disk when this returns, or not at all.
  Status commit();
  // For a file that is read while it grows: it takes its name now, in place of what was there, and
  // takes further writes. commit() puts the rest onto the disk.
  Status publish();
  const std::string& path() const { return path_; }

 private:
  friend class OutputFiles;
  OutputFile(std::string path, const OutputOptions& options)
      : path_(std::move(path)), options_(options) {}
  Status open_target(const FilePlace& place);
  Status make_temporary(const struct stat* replaced);
  Error failed(int error) const;
  static Status commit_all(std::span<OutputFile> files);
  Status finish();        // fsync and close
  Status put_in_place();  // rename
  Status synchronise_folder() const;
  void take_back();  // undoes put_in_place()
  void remove_temporary();

  std::string path_;  // as the caller calls it
  OutputOptions options_;
  std::shared_ptr<const Descriptor> folder_;  // shared by files that belong together
  Descriptor file_;
  std::string name_, temporary_;  // in the folder; no temporary: not made yet, or renamed
  ino_t inode_ = 0;
  bool direct_ = false;     // a device, a pipe or a descriptor: no temporary
  bool exchanged_ = false;  // the temporary is what was at the target
  bool made_ = false;       // there was nothing at the target
};

// Files that belong together: an error leaves all targets as they were.
class OutputFiles {
 public:
  Status add(const std::string& path, std::span<const std::byte> bytes);
  Status add(const std::string& path, std::string_view text);
  // Under their names when this returns, or none of them.
  Status commit() { return OutputFile::commit_all(files_); }

 private:
  std::vector<OutputFile> files_;  // written and closed; their folder is open once
};

}  // namespace tessera
