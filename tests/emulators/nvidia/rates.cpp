// The rates of one device for each generation: see rates.hpp.
//
// From the device's profile in hwprofiles/, which says of each figure whether NVIDIA published it or somebody guessed
// it: launches (guessed for all of them), the memory, the link to the host, which stands for the one to other devices
// too, and peaks. What a profile does not have is filled in so that no figure is better than the device:
//   f64 of the vector units  the CUDA C++ programming guide's throughput per clock and multiprocessor: of 7.5 one in 32
//   of f32, of 8.6, 8.9
//                            and 12.0 one in 64
//   f16, bf16 there          as f32: packed halves may be twice as fast
//   matrix units             where there are none for a format, the vector units'; tf32 of 10.0 as f16's a half
#include "tests/emulators/nvidia/rates.hpp"

#include <string>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulators::nvidia {
namespace {

constexpr double kTera = 1000;  // TFLOP/s in operations per nanosecond
constexpr double kLaunchNs = 2000;

constexpr emulator::Rates rates(double memory, double link, std::array<double, emulator::kUnits> teraflops) {
  for (double& peak : teraflops) peak *= kTera;
  return {kLaunchNs, memory, link, teraflops};
}

// Peaks: f64, f32, f16, bf16; matrix units f64, tf32, f16, bf16.
constexpr GenerationRates kAll[] = {
    {75, "t4", rates(320, 15.75, {8.1 / 32, 8.1, 8.1, 8.1, 8.1 / 32, 8.1, 65, 8.1})},
    {80, "a100-80g", rates(2039, 31.5, {9.7, 19.5, 78, 39, 19.5, 156, 312, 312})},
    {86, "rtx-3090", rates(936, 31.5, {35.6 / 64, 35.6, 35.6, 35.6, 35.6 / 64, 35.6, 71, 71})},
    {89, "l40s", rates(864, 31.5, {91.6 / 64, 91.6, 91.6, 91.6, 91.6 / 64, 183, 362, 362})},
    {90, "h100-80g", rates(3350, 63, {34, 67, 67, 67, 67, 494.5, 989.5, 989.5})},
    {100, "b200", rates(8000, 63, {37, 75, 75, 75, 37, 1125, 2250, 2250})},
    {120, "rtx-5090", rates(1792, 63, {104.8 / 64, 104.8, 104.8, 104.8, 104.8 / 64, 104.8, 209.5, 209.5})},
};

}  // namespace

std::span<const GenerationRates> all_rates() { return kAll; }

const emulator::Rates& rates_of(int capability) {
  for (const GenerationRates& rates : kAll) {
    if (rates.capability == capability) return rates.rates;
  }
  emulator::give_up("the model of times has no rates of sm_" + std::to_string(capability) + ": add them to rates.cpp");
}

}  // namespace crucible::emulators::nvidia
