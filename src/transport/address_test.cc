#include "transport/address.h"

#include <gtest/gtest.h>

namespace tessera::transport {
namespace {

std::string again(const std::string& text) {
  const Result<Address> address = parse_address(text);
  return address.ok() ? address->to_string() : address.error().message;
}

TEST(Address, IsReadAndWrittenAlike) {
  for (const char* text : {"tcp:127.0.0.1:7000", "tcp:node-3.cluster:0", "tcp:[::1]:65535",
                           "shm:/run/tessera/node 1", "shm:a:b", "ucx:10.0.0.1:13337"}) {
    EXPECT_EQ(again(text), text);
  }
  EXPECT_EQ(parse_address("tcp:[::1]:7").value(), (Address{Medium::kTcp, "::1", 7}));
}

TEST(Address, WhatIsWrongIsSaid) {
  const std::string allowed = "; allowed are tcp:HOST:PORT, shm:PATH and ucx:HOST:PORT";
  EXPECT_EQ(again("http://x"), "address 'http://x': no medium" + allowed);
  EXPECT_EQ(again("tcp:host"), "address 'tcp:host': no port" + allowed);
  EXPECT_EQ(again("tcp::7"), "address 'tcp::7': no host" + allowed);
  EXPECT_EQ(again("tcp:a:65536"),
            "address 'tcp:a:65536': port '65536', allowed are 0 to 65535" + allowed);
  EXPECT_EQ(again("tcp:a:7x"), "address 'tcp:a:7x': port '7x', allowed are 0 to 65535" + allowed);
  EXPECT_EQ(again("tcp:::1:7"),
            "address 'tcp:::1:7': an address of IP version 6 stands in brackets" + allowed);
  EXPECT_EQ(again("shm:"), "address 'shm:': a path of 0 bytes, allowed are 1 to 100" + allowed);
  const std::string is_long(101, 'p');
  EXPECT_EQ(again("shm:" + is_long),
            "address 'shm:" + is_long + "': a path of 101 bytes, allowed are 1 to 100" + allowed);
}

}  // namespace
}  // namespace tessera::transport
