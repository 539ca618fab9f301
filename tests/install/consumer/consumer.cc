// What a first program with the library looks like: load a model, run it on the host device.
#include <tessera/tessera.h>

#include <cstdio>
#include <iostream>

namespace {

int fail(const tessera::Error& error) {
  std::cerr << error.to_string() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto network = tessera::Network::load(argv[1]);
  if (!network) return fail(network.error());

  auto session = tessera::Session::open(*network, {.device = tessera::DeviceKind::kHost});
  if (!session) return fail(session.error());

  // -1, 0, 1, 2, ... in the shape that the model asks for.
  const tessera::TensorDescription& description = network->inputs().front();
  tessera::Tensor input = tessera::Tensor::zeros(description.format, description.dims);
  float next = -1.0f;
  for (float& value : input.as<float>()) value = next++;

  const auto result = session->run({input});
  if (!result) return fail(result.error());

  const auto values = result.value().outputs.front().as<float>();
  std::cout << values.size() << " elements: " << values[0] << " " << values[1] << " " << values[2]
            << " " << values[3] << "\n";
  return 0;
}
