// ptx2c FILE: the C text of a PTX text on standard output, a line for each kernel on standard error; 1 with what is
// wrong.
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/emulators/ptx/ptx.hpp"

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: ptx2c FILE.ptx > FILE.c\n";
    return 2;
  }
  std::ifstream stream(words[1]);
  const std::string ptx(std::istreambuf_iterator<char>(stream), {});
  if (!stream.is_open()) {
    std::cerr << words[1] << " cannot be read\n";
    return 2;
  }
  try {
    const auto translation = crucible::emulators::ptx::translate(ptx);
    std::cout << translation.text;
    for (const auto& kernel : translation.kernels) {
      std::cerr << kernel.name << ": " << kernel.registers << " registers, " << kernel.meetings << " meetings, "
                << kernel.save_words << " words saved, " << kernel.shared_bytes << " bytes shared, "
                << kernel.local_bytes << " local, " << kernel.parameter_bytes << " of parameters\n";
    }
  } catch (const crucible::emulators::ptx::Error& error) {
    std::cerr << words[1] << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
