#include "engines/card_memory/group_ring.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tessera::engines {

Cycles RingSizes::link_cycles(std::int64_t bytes) const {
  return (frame.frames(bytes) - 1) *
             wire_cycles(frame.frame_bytes + frame.header_bytes, bytes_per_cycle) +
         wire_cycles(frame.last_wire_bytes(bytes), bytes_per_cycle);
}

Cycles RingSizes::quiet_cycles(std::int64_t bytes, int hops) const {
  return link_cycles(bytes) + hops * hop_cycles;
}

GroupRing::GroupRing(const RingSizes& sizes, std::size_t transfers_max, std::size_t first_group,
                     CardWakes& wakes)
    : sizes_(sizes), first_group_(first_group), wakes_(wakes), transfers_(transfers_max) {
  TESSERA_CHECK(sizes.groups >= 1 && sizes.groups <= kGroupsMax, "a ring of {} groups",
                sizes.groups);
  TESSERA_CHECK(sizes.hop_cycles >= 1, "a hop of {} cycles", sizes.hop_cycles);
  const auto groups = static_cast<std::size_t>(sizes.groups);
  // A frame holds a link for a cycle or more, so no more heads are on the way to the next.
  const auto heads = static_cast<std::size_t>(sizes.hop_cycles) + 1;
  const std::size_t ends = groups * static_cast<std::size_t>(sizes.lanes);
  parts_.assign(static_cast<std::size_t>(sizes.lanes), Ratio(1, 1));
  inject_.assign(groups, Fifo<CardMessage>(transfers_max));
  const std::size_t of_lane = sizes.lanes == 1 ? transfers_max : 0;
  deliveries_.assign(ends, Ring<Delivery>(of_lane));
  links_.assign(ends, Link(heads, of_lane));
  passages_.resize(transfers_max * groups);
  free_.reserve(transfers_max);
  reset();
}

void GroupRing::set_lane(std::uint32_t lane, const Ratio& part, std::size_t transfers_max) {
  parts_[lane] = part;
  for (int g = 0; g < sizes_.groups; ++g) {
    deliveries(g, lane) = Ring<Delivery>(transfers_max);
    link(g, lane).turns = Ring<std::uint32_t>(transfers_max);
  }
}

void GroupRing::reset() {
  for (auto& fifo : inject_) fifo.clear();
  for (auto& ring : deliveries_) ring.clear();
  for (Link& link : links_) {
    link.coming.clear();
    link.turns.clear();
    link.free_at = 0;
  }
  counters_.assign(groups(), {});
  free_.clear();
  for (std::size_t i = transfers_.size(); i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
}

void GroupRing::begin_transfer(int group, const CardMessage& message, Cycles now) {
  TESSERA_CHECK(!free_.empty(), "more than {} transfers on the ring", transfers_.size());
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Transfer& transfer = transfers_[number];
  transfer.message = message;
  transfer.frames = sizes_.frame.frames(message.bytes);
  const Ratio& part = parts_[message.program];
  const auto lane_cycles = [&](std::int64_t wire_bytes) {
    return wire_cycles(wire_bytes * part.denominator(), sizes_.bytes_per_cycle * part.numerator());
  };
  transfer.whole_cycles = lane_cycles(sizes_.frame.frame_bytes + sizes_.frame.header_bytes);
  transfer.last_cycles = lane_cycles(sizes_.frame.last_wire_bytes(message.bytes));
  transfer.quiet_end = now + (transfer.frames - 1) * transfer.whole_cycles + transfer.last_cycles;
  transfer.hops = 0;
  for (int to = 0; to < sizes_.groups; ++to) {
    if ((message.to >> to & 1) != 0)
      transfer.hops = std::max(transfer.hops, sizes_.hops(group, to));
  }
  TESSERA_CHECK(transfer.hops > 0 && (message.to >> group & 1) == 0,
                "group {} sends to groups {:#x}", group, message.to);
  for (int hop = 0; hop < transfer.hops; ++hop) passage(number, hop) = {};
  come(group, number, transfer.frames);
}

void GroupRing::come(int link_number, std::uint32_t number, std::int64_t frames) {
  const int hop = sizes_.hops(transfers_[number].message.from, link_number);
  Passage& at = passage(number, hop);
  // One with frames here has its turn coming already.
  if (at.here == at.sent) {
    link(link_number, transfers_[number].message.program).turns.push(number);
  }
  at.here += frames;
}

void GroupRing::count_frame(int link, bool last, const Transfer& transfer) {
  LinkCounters& counters = counters_[static_cast<std::size_t>(link)];
  const std::int64_t bytes = last ? sizes_.frame.last_wire_bytes(transfer.message.bytes)
                                  : sizes_.frame.frame_bytes + sizes_.frame.header_bytes;
  counters.busy += wire_cycles(bytes, sizes_.bytes_per_cycle);
  ++counters.frames;
  counters.bytes += bytes;
}

void GroupRing::send_frame(int link_number, std::uint32_t lane, Cycles now) {
  Link& link = this->link(link_number, lane);
  const std::uint32_t number = link.turns.front();
  link.turns.pop();
  Transfer& transfer = transfers_[number];
  const int hop = sizes_.hops(transfer.message.from, link_number);
  Passage& at = passage(number, hop);
  if (at.sent == 0) ++counters_[static_cast<std::size_t>(link_number)].transfers;
  const bool last = ++at.sent == transfer.frames;
  const Cycles cycles = last ? transfer.last_cycles : transfer.whole_cycles;
  if (at.sent < at.here) link.turns.push(number);
  link.free_at = now + cycles;
  count_frame(link_number, last, transfer);
  if (trace_ != nullptr) {
    WireUse use = WireUse::of(transfer.message.request, WireUse::Wire::kLink,
                              static_cast<int>(first_group_) + link_number, now, link.free_at);
    use.bytes = std::min(sizes_.frame.frame_bytes,
                         transfer.message.bytes - (at.sent - 1) * sizes_.frame.frame_bytes);
    trace_->add(use);
  }

  const int next = link_number + 1 == sizes_.groups ? 0 : link_number + 1;
  if (hop + 1 < transfer.hops)
    this->link(next, lane).coming.push({now + sizes_.hop_cycles, number});
  if (!last) return;
  if (waits_ != nullptr) {
    waits_->add_wire(transfer.message.request, WireUse::Wire::kLink,
                     static_cast<int>(first_group_) + link_number,
                     link.free_at - transfer.quiet_end);
  }
  transfer.quiet_end = link.free_at + sizes_.hop_cycles;
  if ((transfer.message.to >> next & 1) != 0) {
    const Cycles there = link.free_at + sizes_.hop_cycles;
    Delivery& delivery = deliveries(next, lane).push();
    delivery.at = there;
    delivery.message = transfer.message;
    wakes_.wake(first_group_ + static_cast<std::size_t>(next), there);
  }
  if (hop + 1 == transfer.hops) free_.push_back(number);
}

// What comes in a cycle queues before anything is sent in it: first what passes, then what is injected.
Cycles GroupRing::step(Cycles now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Ring<Head>& coming = links_[i].coming;
    while (!coming.empty() && coming.front().at <= now) {
      TESSERA_CHECK(coming.front().at == now, "the ring is stepped at {}, a frame came at {}", now,
                    coming.front().at);
      come(static_cast<int>(i % groups()), coming.front().transfer, 1);
      coming.pop();
    }
  }
  Cycles next = kNever;
  for (int g = 0; g < sizes_.groups; ++g) {
    while (inject(g).can_pop(now)) begin_transfer(g, inject(g).pop(now), now);
    if (!inject(g).empty()) next = now + 1;
  }
  for (std::uint32_t lane = 0; lane < parts_.size(); ++lane) {
    next = std::min(next, step_lane(lane, now));
  }
  return next;
}

Cycles GroupRing::step_lane(std::uint32_t lane, Cycles now) {
  Cycles next = kNever;
  for (int g = 0; g < sizes_.groups; ++g) {
    if (!link(g, lane).turns.empty() && link(g, lane).free_at <= now) send_frame(g, lane, now);
  }
  for (int g = 0; g < sizes_.groups; ++g) {
    const Link& of = link(g, lane);
    if (!of.turns.empty()) next = std::min(next, of.free_at);
    if (!of.coming.empty()) next = std::min(next, of.coming.front().at);
  }
  return next;
}

std::string GroupRing::describe() const {
  std::string text = fmt::format("ring: {} transfers", transfers_.size() - free_.size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].turns.empty()) continue;
    text += fmt::format(", {} at link {}", links_[i].turns.size(), i % groups());
  }
  return text;
}

}  // namespace tessera::engines
