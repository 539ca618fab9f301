#include "engines/card_memory/load_save_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tessera::engines {

namespace {

// A channel's fixed parts are those of the cores that may ask for it: without `forward` the group's own.
UnitSizes with_parts_of(UnitSizes sizes, int group) {
  if (sizes.bandwidth.dynamic || sizes.forward) return sizes;
  std::vector<std::int64_t>& weights = sizes.bandwidth.weights;
  for (std::size_t core = 0; core < weights.size(); ++core) {
    if (static_cast<int>(core) / sizes.cores_per_group != group) weights[core] = 0;
  }
  return sizes;
}

}  // namespace

LoadSaveUnit::LoadSaveUnit(const UnitSizes& sizes, const Wiring& wiring,
                           std::size_t outstanding_max)
    : sizes_(with_parts_of(sizes, wiring.group)),
      wiring_(wiring),
      wires_(static_cast<std::size_t>(sizes.cores_per_group)),
      members_(sizes.share_entries),
      groups_(outstanding_max, "group"),
      bandwidth_(sizes_.bandwidth, outstanding_max),
      waiters_(outstanding_max),
      jobs_(outstanding_max),
      outgoing_(outstanding_max) {
  TESSERA_CHECK(sizes.groups * sizes.cores_per_group <= kCoresMax && sizes.groups <= kGroupsMax,
                "{} groups of {} cores", sizes.groups, sizes.cores_per_group);
  static constexpr bool kNeverFull = false;
  for (const CorePort& each : wiring.ports) {
    TESSERA_CHECK(each.core >= 0 && each.core < sizes.cores_per_group, "a port of core {}",
                  each.core);
    each.port->channel_full = &kNeverFull;
    sides_.emplace_back(each, each.port->completions.capacity());
  }
}

void LoadSaveUnit::clear(Side& side) {
  side.port->requests.clear();
  side.port->completions.clear();
  side.port->wants_accept = false;
  side.port->in_service = side.port->accepted_now = 0;
  side.port->accepted_at = -1;
  side.port->share_cycles = 0;
  side.port->bytes_read = side.port->bytes_written = 0;
  side.head_at = kNever;
  side.refused = false;
  side.last_share = {};
  side.first = side.next = 0;
  side.last = 0;
}

void LoadSaveUnit::reset() {
  for (Side& side : sides_) clear(side);
  for (Wires& wires : wires_) wires = {};
  members_.reset();
  groups_.reset();
  bandwidth_.reset();
  waiters_.clear();
  jobs_.clear();
  outgoing_.clear();
  bus_free_ = memory_last_ = 0;
  stopped_ = 0;
  by_program_.clear();
  fills_.clear();
  exceptions_.clear();
  counters_ = {};
}

void LoadSaveUnit::place(const CardPlaces& places, std::int64_t weight,
                         std::size_t outstanding_max) {
  // Fixed parts are the cores' whoever runs on them (and a tenant has all cores then).
  BandwidthSizes bandwidth = sizes_.bandwidth;
  if (bandwidth.dynamic) std::ranges::fill(bandwidth.weights, 0);
  std::size_t here = 0;
  for (const std::uint8_t core : places.core) {
    if (bandwidth.dynamic) bandwidth.weights[core] = 1;
    if ((own_cores() >> core & 1) == 0) continue;
    ++here;
    for (Side& side : sides_) {
      if (core_of(side) == core) side.places = &places;
    }
  }
  bandwidth_.set(places.program, bandwidth, weight, outstanding_max);
  if (places.program < by_program_.size()) by_program_[places.program] = {};
  members_.set_entries(places.program, sizes_.share_entries * here /
                                           static_cast<std::size_t>(sizes_.cores_per_group));
}

void LoadSaveUnit::remove(const CardPlaces& places) {
  for (Side& side : sides_) {
    if (side.places == &places) side.places = nullptr;
  }
}

void LoadSaveUnit::stop(std::uint32_t program, Cycles now) {
  stopped_ |= CoreSet{1} << program;
  for (Side& side : sides_) {
    if (side.places == nullptr || side.places->program != program) continue;
    side.port->requests.clear();
    side.head_at = kNever;
  }
  for (const ShareDecoder::Entry& entry : members_.forget(program)) {
    for (CoreSet rest = entry.here; rest != 0; rest &= rest - 1) {
      deliver(entry.tickets[static_cast<std::size_t>(std::countr_zero(rest))], now);
    }
  }
  for (const ShareDecoder::Entry& entry : groups_.forget(program)) {
    HomeJob job;
    job.request = entry.request;
    job.groups = static_cast<GroupSet>(entry.here);
    job.cores = entry.request.share.members;
    for (GroupSet rest = job.groups; rest != 0; rest &= rest - 1) {
      const auto at = static_cast<std::size_t>(std::countr_zero(rest));
      job.tickets[at] = entry.tickets[at];
    }
    answer(job, now);
  }
}

std::size_t LoadSaveUnit::in_flight(std::uint32_t program) const {
  std::size_t requests = 0;
  for (const Side& side : sides_) {
    if (side.places == nullptr || side.places->program != program) continue;
    requests += side.next - side.first + side.port->requests.size();
  }
  return requests;
}

std::size_t LoadSaveUnit::waiting_for_members(std::uint32_t program, Cycles now) const {
  std::size_t requests = 0;
  for (const Side& side : sides_) {  // what was decided and has found no room
    if (side.places == nullptr || side.places->program != program || side.head_at > now) continue;
    requests += side.port->requests.size();
  }
  for (const ShareDecoder::Entry& entry : members_.entries()) {
    if (entry.request.program == program) requests += std::popcount(entry.here);
  }
  for (const ShareDecoder::Entry& entry : groups_.entries()) {
    if (entry.request.program != program) continue;
    const CoreSet members = entry.request.share.members;
    for (CoreSet rest = members; rest != 0; rest &= rest - 1) {
      const int group = std::countr_zero(rest) / sizes_.cores_per_group;
      requests += entry.here >> group & 1;
    }
  }
  return requests;
}

void LoadSaveUnit::fill(const CardPlaces& places, std::int64_t bytes, Cycles now) {
  Fill& fill = fills_[places.program];
  fill = {};
  fill.grid = {.address = places.base,
               .run_bytes = kFillBytes,
               .axes = 1,
               .extents = {ceil_div(bytes, kFillBytes)},
               .strides = {kFillBytes}};
  fill.runs = fill.grid.extents[0];
  // A fixed part of one core is no more than that: the parts of all cores here are used together.
  fill.cores = CoreSet{1} << places.core[0];
  if (!sizes_.bandwidth.dynamic) fill.cores = own_cores();
  for (int i = 0; i < kFillsOnTheirWay; ++i) fill_next(places.program, now);
}

bool LoadSaveUnit::fills(std::uint32_t program) const {
  const auto found = fills_.find(program);
  return found != fills_.end() && found->second.done < found->second.runs;
}

void LoadSaveUnit::fill_on(std::uint32_t program, Cycles now) {
  ++fills_.at(program).done;
  fill_next(program, now);
}

void LoadSaveUnit::fill_next(std::uint32_t program, Cycles now) {
  Fill& fill = fills_.at(program);
  if (fill.asked == fill.runs) return;
  HomeJob job;
  job.request.dram = {.grid = &fill.grid,
                      .first_run = fill.asked,
                      .runs = 1,
                      .bytes = fill.grid.run_bytes,
                      .write = true};
  job.request.home = wiring_.group;
  job.request.program = program;
  job.cores = fill.cores;
  job.fill = true;
  ++fill.asked;
  ask(job, now);
}

void LoadSaveUnit::settle(std::uint32_t program) {
  stopped_ &= ~(CoreSet{1} << program);
  for (Side& side : sides_) {
    if (side.places == nullptr || side.places->program != program) continue;
    TESSERA_CHECK(side.first == side.next, "core {} has requests on their way", core_of(side));
    clear(side);
  }
}

std::optional<ShareFault> LoadSaveUnit::fault() const {
  return members_.fault() ? members_.fault() : groups_.fault();
}

CoreSet LoadSaveUnit::own_cores() const {
  const CoreSet all = sizes_.cores_per_group == kCoresMax
                          ? ~CoreSet{0}
                          : (CoreSet{1} << sizes_.cores_per_group) - 1;
  return all << (wiring_.group * sizes_.cores_per_group);
}

CoreSet LoadSaveUnit::cores_of_own_card() const {
  const int cores = groups_of_card() * sizes_.cores_per_group;
  const CoreSet all = cores == kCoresMax ? ~CoreSet{0} : (CoreSet{1} << cores) - 1;
  return all << (first_group() * sizes_.cores_per_group);
}

GroupSet LoadSaveUnit::groups_of(CoreSet cores) const {
  GroupSet groups = 0;
  for (; cores != 0; cores &= cores - 1) {
    groups |= GroupSet{1} << (std::countr_zero(cores) / sizes_.cores_per_group);
  }
  return groups;
}

// Answers before requests, the memory's before the ring's and the network's: that is the order on the wires of a core.
Cycles LoadSaveUnit::step(Cycles now) {
  take_memory(now);
  take_ring(now);
  take_network(now);
  take_ports(now);
  send(now);
  hand_over(now);
  return next_step(now);
}

void LoadSaveUnit::take_memory(Cycles now) {
  const Cycles pack = sizes_.frame.pack_cycles;
  while (const MemoryPort::Completion* done = wiring_.memory->completion()) {
    if (done->at + pack > now) break;
    const HomeJob job = jobs_.items[done->ticket];
    // What it took of the channel behind what was done before, but for the way back.
    const Cycles begun = std::max(memory_last_, job.handed + 1 + wiring_.memory->latency());
    const Cycles took = std::max<Cycles>(0, done->at - begun);
    if (wiring_.trace != nullptr && !job.fill) {
      wiring_.trace->add(WireUse::of(job.request, WireUse::Wire::kChannel, wiring_.group, begun,
                                     std::max(begun, done->at)));
    }
    if (wiring_.waits != nullptr && !job.fill) {
      wiring_.waits->add_wire(job.request, WireUse::Wire::kChannel, wiring_.group,
                              begun - (job.asked + 1 + wiring_.memory->latency()));
    }
    if (sizes_.bandwidth.dynamic)
      bandwidth_.correct(job.request.program, job.cores, job.request.can_wait, took - job.cost);
    if (job.request.dram.write) bandwidth_.written(job.request.program);
    memory_last_ = std::max(memory_last_, done->at);
    jobs_.free.push_back(done->ticket);
    wiring_.memory->take_completion();
    if (job.fill) {
      fill_on(job.request.program, now);
    } else {
      answer(job, now);
    }
  }
}

void LoadSaveUnit::answer(const HomeJob& job, Cycles now) {
  const bool write = job.request.dram.write;
  const GroupSet own = GroupSet{1} << wiring_.group;
  CardMessage message{.kind = write ? CardMessage::Kind::kDone : CardMessage::Kind::kData,
                      .from = wiring_.group,
                      .to = 0,
                      .bytes = write ? 0 : job.request.bytes(),
                      .program = job.request.program,
                      .request = job.request,
                      .cores = job.cores,
                      .tickets = job.tickets};
  const int own_card = card_of(wiring_.group);
  for (int card = 0; card < sizes_.cards; ++card) {
    message.to = job.groups & ~own & groups_of_card(card);
    if (message.to == 0) continue;
    card == own_card ? answer_ring(message, now) : answer_network(message, now);
  }
  if ((job.groups & own) == 0) return;
  deliver(job.tickets[static_cast<std::size_t>(wiring_.group)], now, &job.request);
}

// One transfer for all, or one each, the nearest first.
void LoadSaveUnit::answer_ring(CardMessage message, Cycles now) {
  if (sizes_.broadcast) return inject(message, now);
  const GroupSet all = message.to;
  const int groups = groups_of_card(), here = wiring_.group - first_group();
  for (int hops = 1; hops < groups; ++hops) {
    message.to = all & (GroupSet{1} << (first_group() + (here + hops) % groups));
    if (message.to != 0) inject(message, now);
  }
}

void LoadSaveUnit::answer_network(CardMessage message, Cycles now) {
  if (sizes_.broadcast) return inject(message, now);
  for (GroupSet rest = message.to; rest != 0; rest &= rest - 1) {
    message.to = rest & ~(rest - 1);
    inject(message, now);
  }
}

// On the ring groups have the numbers of their card.
void LoadSaveUnit::inject(CardMessage message, Cycles now) {
  if ((message.to & groups_of_card(card_of(wiring_.group))) == 0) {
    wiring_.wakes->wake(wiring_.network_box, wiring_.network->send(wiring_.group, message, now));
    return;
  }
  message.from -= first_group();
  message.to >>= first_group();
  wiring_.ring->inject(message.from).push(now, message);
  wiring_.wakes->wake(wiring_.ring_box, now + 1);
}

void LoadSaveUnit::take_ring(Cycles now) {
  if (wiring_.ring == nullptr) return;
  for (int lane = 0; lane < wiring_.ring->sizes().lanes; ++lane) {
    auto& deliveries =
        wiring_.ring->deliveries(wiring_.group - first_group(), static_cast<std::uint32_t>(lane));
    while (!deliveries.empty() && deliveries.front().at + sizes_.frame.unpack_cycles <= now) {
      const CardMessage message = deliveries.front().message;
      deliveries.pop();
      take_message(message, first_group() + message.from, now);
    }
  }
}

void LoadSaveUnit::take_network(Cycles now) {
  if (wiring_.network == nullptr) return;
  for (int lane = 0; lane < wiring_.network->lanes(); ++lane) {
    auto& deliveries = wiring_.network->deliveries(wiring_.group, static_cast<std::uint32_t>(lane));
    while (!deliveries.empty() && deliveries.front().at + sizes_.frame.unpack_cycles <= now) {
      const CardMessage message = deliveries.front().message;
      deliveries.pop();
      take_message(message, message.from, now);
    }
  }
}

void LoadSaveUnit::take_message(const CardMessage& message, int from, Cycles now) {
  if (message.kind == CardMessage::Kind::kRequest) {
    come_home(from, message.request, message.cores, message.tickets[static_cast<std::size_t>(from)],
              now);
  } else {
    deliver(message.tickets[static_cast<std::size_t>(wiring_.group)], now, &message.request);
  }
}

Cycles LoadSaveUnit::head_at(Side& side, Cycles now) {
  if (side.head_at != kNever || !side.port->requests.can_pop(now)) return side.head_at;
  Wires& wires = wires_[static_cast<std::size_t>(side.core)];
  const DramRequest& front = side.port->requests.front();
  side.refused = !refusal(side, front).empty();
  side.head =
      side.refused ? CardRequest{.dram = front, .home = wiring_.group} : on_card(side, front);
  const CardRequest& request = side.head;
  const std::int64_t bytes = sizes_.frame.wire_bytes(request.dram.write ? request.bytes() : 0);
  const Cycles cycles = wire_cycles(bytes, sizes_.port_bytes);
  wires.to_free = std::max(wires.to_free, side.port->requests.front_visible_at()) + cycles;
  wires.counters.to_unit.busy += cycles;
  wires.counters.to_unit.bytes += bytes;
  side.head_at = wires.to_free + sizes_.frame.unpack_cycles;
  return side.head_at;
}

std::string LoadSaveUnit::refusal(const Side& side, const DramRequest& request) const {
  const CardPlaces* places = side.places;
  if (places == nullptr) return {};
  const auto says = [&](const std::string& what) {
    return fmt::format("core {} {}", core_of(side), what);
  };
  const bool names = request.memory != DramRequest::kOwnMemory && sizes_.forward;
  if (names && request.memory >= places->group.size()) {
    return says(fmt::format("asks for memory {}; its program has {}", request.memory,
                            places->group.size()));
  }
  const auto cores = places->core.size();
  if (request.share != 0 && cores < kCoresMax && (request.share_cores >> cores) != 0) {
    return says(fmt::format("names cores {:#x} for share {}; its program has {}",
                            request.share_cores, request.share, cores));
  }
  const bool takes_part = (places->set_of(request.share_cores) >> core_of(side) & 1) != 0;
  if (request.share != 0 && (request.write || !takes_part)) {
    return says(fmt::format("{} with share {}{}", request.write ? "writes" : "reads", request.share,
                            takes_part ? "" : ", in which it takes no part"));
  }
  const StridedRuns& grid = *request.grid;
  std::int64_t first = grid.address, last = grid.address + grid.run_bytes;
  for (int axis = 0; axis < grid.axes; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t reach = (grid.extents[a] - 1) * grid.strides[a];
    (reach < 0 ? first : last) += reach;
  }
  if (first >= places->base && last <= places->limit) return {};
  return says(fmt::format("{} bytes {:#x} to {:#x}; its program has {:#x} to {:#x}",
                          request.write ? "writes" : "reads", first, last - 1, places->base,
                          places->limit - 1));
}

void LoadSaveUnit::except(std::uint32_t program, std::string reason) {
  exceptions_.push_back({program, std::move(reason)});
}

void LoadSaveUnit::end_head(std::uint32_t port, Cycles now) {
  const bool write = sides_[port].head.dram.write;
  complete(pop(port, now), 0, write, now + 1);
}

CardRequest LoadSaveUnit::on_card(Side& side, const DramRequest& request) const {
  const CardPlaces* places = side.places;
  CardRequest result;
  result.dram = request;
  result.can_wait = sizes_.kernels_last && side.port->owner == Box::kKernel;
  result.home = wiring_.group;
  result.core = core_of(side);
  result.program = places != nullptr ? places->program : 0;
  if (request.memory != DramRequest::kOwnMemory && sizes_.forward) {
    result.home = places != nullptr ? places->group[request.memory] : request.memory;
    if (!sizes_.needed_bytes_only) result.home = first_group() + result.home % groups_of_card();
  }
  if (request.share == 0) return result;
  Share& last = side.last_share;
  if (last.number == request.share) {
    ++last.sequence;  // a share's requests follow each other at a port
  } else {
    last = {.number = request.share, .sequence = 0, .members = request.share_cores, .program = 0};
    if (places != nullptr) {
      last.program = places->program;
      last.members = places->set_of(request.share_cores);
    }
    if (!sizes_.needed_bytes_only) last.members &= cores_of_own_card();
    if (!sizes_.forward) last.members &= own_cores();
  }
  result.share = last;
  return result;
}

// Until nothing changes: one that is decided may make room in the decoder for another.
void LoadSaveUnit::take_ports(Cycles now) {
  bool again = true;
  while (again) {
    again = false;
    for (std::uint32_t port = 0; port < sides_.size(); ++port) {
      while (head_at(sides_[port], now) <= now && decide(port, now)) again = true;
    }
  }
}

LoadSaveUnit::Member LoadSaveUnit::pop(std::uint32_t port, Cycles now) {
  Side& side = sides_[port];
  side.port->requests.pop(now);
  side.head_at = kNever;
  ++side.port->in_service;
  side.port->accepted_now = side.port->accepted_at == now ? side.port->accepted_now + 1 : 1;
  side.port->accepted_at = now;
  if (side.port->wants_accept) side.port->wakes->wake(side.port->owner, now + 1);
  const Member member{port, side.next++};
  side.done[member.number % side.done.size()] = kNever;
  return member;
}

// Whether the head of the port is taken.
bool LoadSaveUnit::decide(std::uint32_t port, Cycles now) {
  Side& side = sides_[port];
  const CardRequest request = side.head;
  const int core = core_of(side);
  if (side.refused) except(side.places->program, refusal(side, request.dram));
  if (side.refused || is_stopped(request.program)) {
    end_head(port, now);
    return true;
  }
  const bool shared = sizes_.merge && request.share.number != 0;
  if (shared) {
    TESSERA_CHECK(!request.dram.write, "core {} writes with share {}", core, request.share.number);
    if (members_.faulty(request.program)) return false;
    const CoreSet expected = request.share.members & own_cores();
    const std::uint32_t ticket = waiters_.take();
    const auto came = members_.come(core, expected, request, ticket, now, side.head_at);
    if (came == ShareDecoder::Came::kNoRoom || came == ShareDecoder::Came::kFault) {
      waiters_.free.push_back(ticket);
      if (came == ShareDecoder::Came::kNoRoom) return decide_together(request, expected, now);
      except(request.program, members_.fault_of(request.program).message());
      return false;
    }
    waiters_.items[ticket].set(false, request.bytes(), pop(port, now));
    if (came == ShareDecoder::Came::kComplete) route_completed(now);
    return true;
  }
  const std::uint32_t ticket = waiters_.take();
  waiters_.items[ticket].set(request.dram.write, request.bytes(), pop(port, now));
  route(request, CoreSet{1} << core, ticket, now);
  return true;
}

std::optional<std::uint32_t> LoadSaveUnit::port_with(int core, const Share& share, Cycles now) {
  for (std::uint32_t port = 0; port < sides_.size(); ++port) {
    Side& side = sides_[port];
    if (core_of(side) == core && head_at(side, now) <= now && side.head.share.same_request(share)) {
      return port;
    }
  }
  return std::nullopt;
}

bool LoadSaveUnit::decide_together(const CardRequest& request, CoreSet expected, Cycles now) {
  for (CoreSet rest = expected; rest != 0; rest &= rest - 1) {
    if (!port_with(std::countr_zero(rest), request.share, now)) return false;
  }
  members_.begin_together(request, expected);
  std::vector<std::uint32_t> came_before;
  for (CoreSet rest = expected; rest != 0; rest &= rest - 1) {
    const int core = std::countr_zero(rest);
    const std::uint32_t port = *port_with(core, request.share, now);
    const CardRequest own = sides_[port].head;
    const std::uint32_t ticket = waiters_.take();
    const auto came = members_.come_together(core, own, ticket, sides_[port].head_at);
    if (came == ShareDecoder::Came::kFault) {
      waiters_.free.push_back(ticket);
      except(request.program, members_.fault_of(request.program).message());
      for (const std::uint32_t other : came_before) deliver(other, now);
      return false;
    }
    waiters_.items[ticket].set(false, own.bytes(), pop(port, now));
    came_before.push_back(ticket);
  }
  route_completed(now);
  return true;
}

// Of a request that is complete.
void LoadSaveUnit::note_waits(const ShareDecoder::Entry& entry, bool of_groups) {
  if (wiring_.waits == nullptr) return;
  const Cycles last = entry.came[static_cast<std::size_t>(entry.last)];
  const Share& share = entry.request.share;
  for (std::uint64_t rest = entry.here; rest != 0; rest &= rest - 1) {
    const int member = std::countr_zero(rest);
    wiring_.waits->add(
        share.program,
        {.what = of_groups ? CardWait::For::kShareOfGroups : CardWait::For::kShareOfCores,
         .who = member,
         .other = entry.last,
         .share = share.number,
         .cycles = last - entry.came[static_cast<std::size_t>(member)]});
  }
}

// The members' waiters become one, in the order of cores.
void LoadSaveUnit::route_completed(Cycles now) {
  const ShareDecoder::Entry& entry = members_.completed();
  const Cycles last = entry.came[static_cast<std::size_t>(entry.last)];
  const auto ticket_of = [&entry](int core) {
    return entry.tickets[static_cast<std::size_t>(core)];
  };
  for (CoreSet rest = entry.here; rest != 0; rest &= rest - 1) {
    const int core = std::countr_zero(rest);
    const Member& member = waiters_.items[ticket_of(core)].member[0];
    sides_[member.port].port->share_cycles += last - entry.came[static_cast<std::size_t>(core)];
  }
  note_waits(entry, false);
  const std::uint32_t first = ticket_of(std::countr_zero(entry.here));
  Waiter& all = waiters_.items[first];
  for (CoreSet rest = entry.here & (entry.here - 1); rest != 0; rest &= rest - 1) {
    const std::uint32_t other = ticket_of(std::countr_zero(rest));
    all.member[static_cast<std::size_t>(all.members++)] = waiters_.items[other].member[0];
    waiters_.free.push_back(other);
    ++counters_.merged;
  }
  route(entry.request, entry.here, first, now);
}

void LoadSaveUnit::route(const CardRequest& request, CoreSet cores, std::uint32_t waiter,
                         Cycles now) {
  if (request.home == wiring_.group) {
    come_home(wiring_.group, request, cores, waiter, now);
    return;
  }
  ++counters_.forwarded;
  Outgoing& outgoing = outgoing_.push();
  outgoing.at = now + sizes_.frame.pack_cycles;
  outgoing.message = {.kind = CardMessage::Kind::kRequest,
                      .from = wiring_.group,
                      .to = GroupSet{1} << request.home,
                      .bytes = request.dram.write ? request.bytes() : 0,
                      .program = request.program,
                      .request = request,
                      .cores = cores,
                      .tickets = {}};
  outgoing.message.tickets[static_cast<std::size_t>(wiring_.group)] = waiter;
}

void LoadSaveUnit::send(Cycles now) {
  while (!outgoing_.empty() && outgoing_.front().at <= now) {
    inject(outgoing_.front().message, now);
    outgoing_.pop();
  }
}

void LoadSaveUnit::come_home(int group, const CardRequest& request, CoreSet cores,
                             std::uint32_t ticket, Cycles now) {
  HomeJob job;
  job.request = request;
  const bool shared = sizes_.merge && request.share.number != 0;
  if (!shared || is_stopped(request.program)) {
    job.cores = cores;
    job.groups = GroupSet{1} << group;
    job.tickets[static_cast<std::size_t>(group)] = ticket;
    is_stopped(request.program) ? answer(job, now) : ask(job, now);
    return;
  }
  // The table has room for all requests that can be on their way.
  const auto came = groups_.come(group, groups_of(request.share.members), request, ticket, now);
  if (came == ShareDecoder::Came::kFault) {
    except(request.program, groups_.fault_of(request.program).message());
    job.cores = cores;
    job.groups = GroupSet{1} << group;
    job.tickets[static_cast<std::size_t>(group)] = ticket;
    return answer(job, now);
  }
  if (came != ShareDecoder::Came::kComplete) return;
  const ShareDecoder::Entry& entry = groups_.completed();
  note_waits(entry, true);
  // As of all the first.
  job.request.core = entry.request.core;
  job.request.dram.task = entry.request.dram.task;
  job.cores = request.share.members;
  job.groups = static_cast<GroupSet>(entry.here);
  for (GroupSet rest = job.groups; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(rest));
    job.tickets[at] = entry.tickets[at];
  }
  counters_.merged += std::popcount(job.groups) - 1;
  ask(job, now);
}

void LoadSaveUnit::ask(const HomeJob& job, Cycles now) {
  const std::uint32_t ticket = jobs_.take();
  jobs_.items[ticket] = job;
  jobs_.items[ticket].asked = now;
  jobs_.items[ticket].cost = wiring_.memory->cost(job.request.dram);
  bandwidth_.add(job.request.program,
                 {.cores = job.cores,
                  .cost = jobs_.items[ticket].cost,
                  .write = job.request.dram.write,
                  .can_wait = job.request.can_wait,
                  .ticket = ticket},
                 now);
}

void LoadSaveUnit::count(const CardRequest& request) {
  if (request.program >= by_program_.size()) by_program_.resize(request.program + 1);
  ProgramCounters& counters = by_program_[request.program];
  ++counters.requests;
  (request.dram.write ? counters.bytes_written : counters.bytes_read) += request.bytes();
}

LoadSaveUnit::ProgramCounters LoadSaveUnit::counters_of(std::uint32_t program) const {
  ProgramCounters counters;
  if (program < by_program_.size()) counters = by_program_[program];
  counters.charged = bandwidth_.charged(program);
  return counters;
}

void LoadSaveUnit::hand_over(Cycles now) {
  while (bandwidth_.waiting() > 0) {
    const auto asked = bandwidth_.take(
        now, {.read = wiring_.memory->room(false, now), .write = wiring_.memory->room(true, now)});
    if (!asked) return;
    HomeJob& job = jobs_.items[asked->ticket];
    job.handed = now;
    ++counters_.requests;
    count(job.request);
    const Cycles when = wiring_.memory->push(now, job.request.dram, asked->ticket);
    if (when != kNever) wiring_.wakes->wake(wiring_.memory_box, when);
  }
}

// When the last byte is there of frames that come from `from` on and are all here at `now`.
Cycles LoadSaveUnit::over_wires(Wires& wires, std::int64_t bytes, Cycles from, Cycles now) const {
  const std::int64_t wire_bytes = sizes_.frame.wire_bytes(bytes);
  const Cycles cycles = wire_cycles(wire_bytes, sizes_.port_bytes);
  const Cycles last = wire_cycles(sizes_.frame.last_wire_bytes(bytes), sizes_.port_bytes);
  wires.from_free = std::max(std::max(wires.from_free, from) + cycles, now + last);
  wires.counters.from_unit.busy += cycles;
  wires.counters.from_unit.bytes += wire_bytes;
  return wires.from_free;
}

Cycles LoadSaveUnit::over_bus(const Waiter& waiter, Cycles now, const CardRequest* request) {
  const std::int64_t wire_bytes = sizes_.frame.wire_bytes(waiter.bytes);
  const Cycles cycles = wire_cycles(wire_bytes, sizes_.broadcast_bytes);
  Cycles free = bus_free_;
  const auto wires_of = [&](int i) -> Wires& {
    const Member& member = waiter.member[static_cast<std::size_t>(i)];
    return wires_[static_cast<std::size_t>(sides_[member.port].core)];
  };
  for (int i = 0; i < waiter.members; ++i) free = std::max(free, wires_of(i).from_free);
  const Cycles last =
      wire_cycles(sizes_.frame.last_wire_bytes(waiter.bytes), sizes_.broadcast_bytes);
  if (wiring_.waits != nullptr && request != nullptr) {
    CardRequest own = *request;
    own.core = core_of(sides_[waiter.member[0].port]);
    wiring_.waits->add_wire(own, WireUse::Wire::kBus, wiring_.group,
                            bus_free_ + cycles - (now + last));
  }
  bus_free_ = std::max(free + cycles, now + last);
  counters_.bus.busy += cycles;
  counters_.bus.bytes += wire_bytes;
  if (wiring_.trace != nullptr && request != nullptr) {
    WireUse use =
        WireUse::of(*request, WireUse::Wire::kBus, wiring_.group, bus_free_ - cycles, bus_free_);
    use.bytes = waiter.bytes;
    wiring_.trace->add(use);
  }
  for (int i = 0; i < waiter.members; ++i) {
    Wires& wires = wires_of(i);
    wires.from_free = bus_free_;
    wires.counters.from_unit.busy += cycles;
    wires.counters.from_unit.bytes += wire_bytes;
  }
  return bus_free_;
}

void LoadSaveUnit::deliver(std::uint32_t ticket, Cycles now, const CardRequest* request) {
  const Waiter& waiter = waiters_.items[ticket];
  const std::int64_t bytes = waiter.write ? 0 : waiter.bytes;
  const bool bus = sizes_.broadcast && waiter.members > 1;
  Cycles at = bus ? over_bus(waiter, now, request) : 0;
  for (int i = 0; i < waiter.members; ++i) {
    const Member& member = waiter.member[static_cast<std::size_t>(i)];
    if (!bus) {
      Wires& wires = wires_[static_cast<std::size_t>(sides_[member.port].core)];
      at = over_wires(wires, bytes, at, now);
    }
    complete(member, waiter.bytes, waiter.write, at);
  }
  waiters_.free.push_back(ticket);
}

// Completions are in the order of the port's requests: one that has overtaken another is held back.
void LoadSaveUnit::complete(const Member& member, std::int64_t bytes, bool write, Cycles at) {
  Side& side = sides_[member.port];
  (write ? side.port->bytes_written : side.port->bytes_read) += bytes;
  side.done[member.number % side.done.size()] = at;
  while (side.first != side.next && side.done[side.first % side.done.size()] != kNever) {
    side.last = std::max(side.last, side.done[side.first % side.done.size()]);
    side.port->completions.push(side.last);
    --side.port->in_service;
    side.port->wakes->wake(side.port->owner, side.last);
    ++side.first;
  }
}

Cycles LoadSaveUnit::next_step(Cycles now) const {
  Cycles next = bandwidth_.next(now);
  if (const MemoryPort::Completion* done = wiring_.memory->completion()) {
    next = std::min(next, done->at + sizes_.frame.pack_cycles);
  }
  const auto arrives = [&](const auto& deliveries) {
    if (deliveries.empty()) return;
    next = std::min(next, deliveries.front().at + sizes_.frame.unpack_cycles);
  };
  for (int lane = 0; wiring_.ring != nullptr && lane < wiring_.ring->sizes().lanes; ++lane) {
    arrives(
        wiring_.ring->deliveries(wiring_.group - first_group(), static_cast<std::uint32_t>(lane)));
  }
  for (int lane = 0; wiring_.network != nullptr && lane < wiring_.network->lanes(); ++lane) {
    arrives(wiring_.network->deliveries(wiring_.group, static_cast<std::uint32_t>(lane)));
  }
  if (!outgoing_.empty()) next = std::min(next, outgoing_.front().at);
  for (const Side& side : sides_) {
    if (side.head_at != kNever) {
      if (side.head_at > now) next = std::min(next, side.head_at);
    } else if (!side.port->requests.empty()) {
      next = std::min(next, now + 1);
    }
  }
  return next;
}

std::string LoadSaveUnit::describe() const {
  std::string text = fmt::format(
      "load/save unit {}: {} requests wait for the channel, {} shares for members", wiring_.group,
      bandwidth_.waiting(), members_.entries().size() + groups_.entries().size());
  for (const Side& side : sides_) {
    if (side.next == side.first && side.port->requests.empty()) continue;
    text += fmt::format(", core {} has {} in service and {} at its port", core_of(side),
                        side.next - side.first, side.port->requests.size());
  }
  return text;
}

}  // namespace tessera::engines
