// A device that hands every call to another one: tests override the calls they want to see, hold up
// or falsify.
#pragma once

#include <memory>
#include <utility>

#include "device/device.h"

namespace tessera::device::testing {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner)
      : inner_(std::move(inner)), properties_(inner_->properties()) {}

  const Properties& properties() const override { return properties_; }
  Result<MemoryBlock> allocate(Bytes bytes) override { return inner_->allocate(bytes); }
  Status release(const MemoryBlock& block) override { return inner_->release(block); }
  void trim() override { inner_->trim(); }
  Result<MemoryBlock> adopt(std::span<std::byte> bytes, std::shared_ptr<void> owner) override {
    return inner_->adopt(bytes, std::move(owner));
  }
  Status write(Address address, std::span<const std::byte> bytes, const TransferTag& tag) override {
    return inner_->write(address, bytes, tag);
  }
  Status read(Address address, std::span<std::byte> bytes, const TransferTag& tag) override {
    return inner_->read(address, bytes, tag);
  }
  Result<std::span<std::byte>> host_view(Address address, Bytes bytes) override {
    return inner_->host_view(address, bytes);
  }
  Result<LoadedId> load(std::shared_ptr<const NetworkState> network) override {
    return inner_->load(std::move(network));
  }
  Result<std::vector<LoadedLayer>> load_layers(
      std::shared_ptr<const NetworkState> network) override {
    return inner_->load_layers(std::move(network));
  }
  Status unload(LoadedId loaded) override { return inner_->unload(loaded); }
  Result<SequenceNumber> submit(const Submission& submission, TimePoint deadline) override {
    return inner_->submit(submission, deadline);
  }
  Result<Completion> wait(SequenceNumber sequence, TimePoint deadline) override {
    return inner_->wait(sequence, deadline);
  }
  Withdrawn withdraw(SequenceNumber sequence, bool give_up) override {
    return inner_->withdraw(sequence, give_up);
  }
  int queued(int kernel) const override { return inner_->queued(kernel); }
  void look_at(int kernel, KernelWork& work) const override { inner_->look_at(kernel, work); }
  std::chrono::nanoseconds modelled_time(LoadedId loaded) const override {
    return inner_->modelled_time(loaded);
  }
  Health health() const override { return inner_->health(); }
  void fail(const std::string& reason) override { inner_->fail(reason); }
  Status reset(TimePoint deadline) override { return inner_->reset(deadline); }
  DeviceCounters counters() const override { return inner_->counters(); }
  void set_observer(ActivityObserver* observer) override { inner_->set_observer(observer); }

 protected:
  const std::unique_ptr<Device> inner_;
  Properties properties_;  // as the test wants them
};

}  // namespace tessera::device::testing
