#include "model/import_order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "base/check.h"

namespace tessera::model {
namespace {

// Every node that could not be placed needs another such node, so walking along the needs must
// come back to a node seen before.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& needs,
                                    const std::vector<bool>& placed) {
  const auto waiting = [&](std::size_t node) { return !placed[node]; };
  std::vector<std::size_t> walk;
  std::vector<std::size_t> position(needs.size(), needs.size());
  auto node = static_cast<std::size_t>(std::ranges::find(placed, false) - placed.begin());
  while (position[node] == needs.size()) {
    position[node] = walk.size();
    walk.push_back(node);
    const auto next = std::ranges::find_if(needs[node], waiting);
    TESSERA_CHECK(next != needs[node].end(), "node {} waits for nothing", node);
    node = *next;
  }
  walk.erase(walk.begin(), walk.begin() + static_cast<std::ptrdiff_t>(position[node]));
  return walk;
}

}  // namespace

NodeOrder order_nodes(const std::vector<std::vector<std::size_t>>& needs) {
  std::vector<std::size_t> missing(needs.size());
  std::vector<std::vector<std::size_t>> users(needs.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    missing[i] = needs[i].size();
    for (const std::size_t producer : needs[i]) users[producer].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  NodeOrder result;
  std::vector<bool> placed(needs.size(), false);
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    result.order.push_back(node);
    placed[node] = true;
    for (const std::size_t user : users[node]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  if (result.order.size() < needs.size()) result.cycle = find_cycle(needs, placed);
  return result;
}

}  // namespace tessera::model
