// Which blocks live at some time within a span: time is cut into buckets about as long as an
// average life, and each bucket lists the blocks that live in it.
//
//   time ─►  |  0  |  1  |  2  |        bucket 0: a      a: ███████
//            a a a a a                  bucket 1: a b    b:      ██
//                  b                    bucket 2: (none)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::compile {

// Times [first, last].
struct Life {
  std::int64_t first = 0, last = 0;
  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
};

class LifeIndex {
 public:
  // For blocks numbered from 0 that live within about these spans; others are welcome, too.
  explicit LifeIndex(const std::vector<Life>& lives);

  void insert(std::size_t block, Life life);
  // The blocks inserted so far that live at some time within `life`, in no particular order.
  const std::vector<std::size_t>& find(Life life);

 private:
  std::size_t bucket_of(std::int64_t time) const;

  std::int64_t origin_ = 0, width_ = 1;
  std::vector<std::vector<std::size_t>> buckets_;
  std::vector<Life> lives_;           // of each block inserted
  std::vector<std::uint64_t> stamp_;  // the search that saw a block last
  std::uint64_t search_ = 0;
  std::vector<std::size_t> found_;
};

}  // namespace tessera::compile
