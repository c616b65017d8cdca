// Runs packages of AOTInductor in a process without Python: `packaged FOLDER NAME…`.

#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

int check(const std::string &path) {
  std::ifstream text(path + ".txt");
  std::string line;
  std::getline(text, line);
  std::istringstream extents(line);
  const std::vector<int64_t> shape{std::istream_iterator<int64_t>(extents), {}};
  const std::vector<float> expected{std::istream_iterator<float>(text), {}};
  const int64_t size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const at::Tensor input = at::arange(size, at::kFloat).mul(0.37).sin().reshape(shape);
  torch::inductor::AOTIModelPackageLoader loader(path + ".pt2");
  int wrong = 0;
  const auto run = [&] {
    for (int turn = 0; turn < 10; ++turn) {
      const at::Tensor output = loader.run({input})[0].flatten().contiguous();
      wrong += output.numel() != static_cast<int64_t>(expected.size());
      for (size_t at = 0; at < expected.size(); ++at)
        wrong += !(std::fabs(output.data_ptr<float>()[at] - expected[at]) < 1e-4f);
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) threads.emplace_back(run);
  for (auto &thread : threads) thread.join();
  return wrong;
}

int main(int count, char **arguments) {
  for (int number = 2; number < count; ++number)
    std::cout << arguments[number] << " " << check(std::string(arguments[1]) + "/" + arguments[number]) << "\n";
  std::ifstream maps("/proc/self/maps");
  const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
  std::cout << (mapped.find("libpython") == std::string::npos && mapped.find("libtorch_python") == std::string::npos);
}
