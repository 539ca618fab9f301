#include "compile/life_index.h"

#include <algorithm>

namespace tessera::compile {

LifeIndex::LifeIndex(const std::vector<Life>& lives)
    : lives_(lives.size()), stamp_(lives.size(), 0) {
  std::int64_t end = 0;
  std::int64_t total = 0;
  if (!lives.empty()) origin_ = lives.front().first;
  for (const Life& life : lives) {
    origin_ = std::min(origin_, life.first);
    end = std::max(end, life.last + 1);
    total += life.last - life.first + 1;
  }
  if (lives.empty()) end = origin_ + 1;
  width_ = std::max<std::int64_t>(1, total / std::max<std::int64_t>(1, std::ssize(lives)));
  buckets_.resize(static_cast<std::size_t>((end - origin_ - 1) / width_ + 1));
}

std::size_t LifeIndex::bucket_of(std::int64_t time) const {
  const std::int64_t bucket = std::max<std::int64_t>(0, time - origin_) / width_;
  return static_cast<std::size_t>(std::min<std::int64_t>(bucket, std::ssize(buckets_) - 1));
}

void LifeIndex::insert(std::size_t block, Life life) {
  lives_[block] = life;
  for (std::size_t b = bucket_of(life.first); b <= bucket_of(life.last); ++b) {
    buckets_[b].push_back(block);
  }
}

const std::vector<std::size_t>& LifeIndex::find(Life life) {
  found_.clear();
  ++search_;
  for (std::size_t b = bucket_of(life.first); b <= bucket_of(life.last); ++b) {
    for (const std::size_t block : buckets_[b]) {
      if (stamp_[block] == search_) continue;
      stamp_[block] = search_;
      if (lives_[block].overlaps(life)) found_.push_back(block);
    }
  }
  return found_;
}

}  // namespace tessera::compile
