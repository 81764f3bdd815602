// fuzz/support/corpus_main.cpp -- runs a fuzz target without libFuzzer: over each file of a folder,
// over every length it may be cut to, and over seeded damage. Usage: PROGRAM FOLDER [rounds of
// damage for each file, 200].
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {
using Bytes = std::vector<std::uint8_t>;

// A vector of exactly the size, so that AddressSanitizer sees a read one byte past the end.
void run(const Bytes& bytes) {
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void run_cut(const Bytes& bytes) {
  const std::size_t step = std::max<std::size_t>(1, bytes.size() / 256);
  for (std::size_t size = 0; size < bytes.size(); size += step)
    run(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
}

// Damage where formats are fragile: single bits, bytes at their extremes, eight-byte sizes near
// overflow, spliced runs.
void run_damaged(const Bytes& bytes, std::mt19937_64& random, int rounds) {
  if (bytes.empty()) return;
  for (int round = 0; round < rounds; ++round) {
    Bytes damaged = bytes;
    for (std::uint64_t hits = 1 + random() % 4; hits > 0; --hits) {
      const std::size_t at = static_cast<std::size_t>(random() % damaged.size());
      switch (random() % 4) {
      case 0: damaged[at] ^= static_cast<std::uint8_t>(1u << (random() % 8)); break;
      case 1: damaged[at] = random() % 2 == 0 ? 0xFF : 0x00; break;
      case 2: {
        const std::size_t count = std::min<std::size_t>(8, damaged.size() - at);
        std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(at), count,
                    random() % 2 == 0 ? 0xFF : 0x7F);
        break;
      }
      default: {
        const std::size_t from = static_cast<std::size_t>(random() % damaged.size());
        const std::size_t count = std::min<std::size_t>(static_cast<std::size_t>(random() % 64),
                                                        damaged.size() - std::max(at, from));
        std::copy_n(Bytes(damaged).begin() + static_cast<std::ptrdiff_t>(from), count,
                    damaged.begin() + static_cast<std::ptrdiff_t>(at));
      }
      }
    }
    run(damaged);
  }
}
} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [rounds]\n", argv[0]);
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1], error))
    if (entry.is_regular_file()) files.push_back(entry.path());
  if (error || files.empty()) {
    std::fprintf(stderr, "%s: no corpus there\n", argv[1]);
    return 2;
  }
  std::sort(files.begin(), files.end());
  std::mt19937_64 random(20);
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const Bytes bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    run(bytes);
    run_cut(bytes);
    run_damaged(bytes, random, rounds);
  }
  std::printf("%zu files, each cut and damaged %d times (seed 20)\n", files.size(), rounds);
  return 0;
}
