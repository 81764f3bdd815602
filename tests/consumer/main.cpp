// tests/consumer/main.cpp -- the smallest user of the installed library.
#include <cstdio>
#include <luminal/error.h>

int main() {
  try {
    throw luminal::Error("matmul", "inner sizes differ: [4, 3] x [5, 2]");
  } catch (const luminal::Error& error) {
    std::puts(error.what());
  }
}
