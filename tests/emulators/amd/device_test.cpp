// What the emulated devices say of themselves, several of them, and the memory that they have.
#include <gmock/gmock.h>

#include "tests/emulators/amd/test_kernels.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

using ::testing::HasSubstr;

class EmulatedHipDevice : public HipTest {};

TEST_F(EmulatedHipDevice, TellsWhatItIs) {
  char name[100], bus[32];
  hipUUID uuid;
  int version = 0, driver = 0, wave = 0, major = 0, minor = 0;
  std::size_t bytes = 0;
  EXPECT_HIP(hip().hipInit(0));
  EXPECT_HIP(hip().hipDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "Crucible emulated gfx90a (emulated, not a GPU)");
  EXPECT_HIP(hip().hipDeviceGetUuid(&uuid, 0));
  EXPECT_EQ(std::string(uuid.bytes, 15), "crucible-amd-00");
  EXPECT_HIP(hip().hipDeviceGetPCIBusId(bus, sizeof bus, 0));
  EXPECT_STREQ(bus, "0000:01:00.0");
  EXPECT_HIP(hip().hipRuntimeGetVersion(&version));
  EXPECT_HIP(hip().hipDriverGetVersion(&driver));
  EXPECT_EQ(version / 10'000'000, 6);
  EXPECT_EQ(driver, version);
  EXPECT_HIP(hip().hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, 0));
  EXPECT_EQ(wave, 64);
  EXPECT_HIP(hip().hipDeviceComputeCapability(&major, &minor, 0));
  EXPECT_EQ(major * 10 + minor, 90);
  EXPECT_HIP(hip().hipDeviceTotalMem(&bytes, 0));
  EXPECT_EQ(bytes, std::size_t{4096} << 20);
}

TEST_F(EmulatedHipDevice, PropertiesAgreeWithAttributes) {
  set("CRUCIBLE_EMU_ARCH", "gfx1100");
  hipDeviceProp_tR0600 properties;
  EXPECT_HIP(hip().hipGetDevicePropertiesR0600(&properties, 0));
  EXPECT_STREQ(properties.gcnArchName, "gfx1100");
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.major, 11);
  const std::pair<hipDeviceAttribute_t, long> wanted[] = {
      {hipDeviceAttributeMaxThreadsPerBlock, properties.maxThreadsPerBlock},
      {hipDeviceAttributeMaxSharedMemoryPerBlock, static_cast<long>(properties.sharedMemPerBlock)},
      {hipDeviceAttributeMultiprocessorCount, properties.multiProcessorCount},
      {hipDeviceAttributeMaxGridDimX, properties.maxGridSize[0]},
      {hipDeviceAttributeMaxGridDimY, properties.maxGridSize[1]},
      {hipDeviceAttributePciBusId, properties.pciBusID},
      {hipDeviceAttributeL2CacheSize, properties.l2CacheSize}};
  for (const auto& [attribute, value] : wanted) {
    int got = -1;
    EXPECT_HIP(hip().hipDeviceGetAttribute(&got, attribute, 0));
    EXPECT_EQ(got, value) << attribute;
    EXPECT_GT(got, 0) << attribute;
  }
}

TEST_F(EmulatedHipDevice, SeveralOfSeveralGenerations) {
  set("CRUCIBLE_EMU_ARCH", "gfx90a,gfx1100");
  set("CRUCIBLE_EMU_DEVICES", "3");
  int count = 0, waves[3] = {};
  EXPECT_HIP(hip().hipGetDeviceCount(&count));
  ASSERT_EQ(count, 3);
  for (int i = 0; i < 3; ++i) EXPECT_HIP(hip().hipDeviceGetAttribute(&waves[i], hipDeviceAttributeWarpSize, i));
  EXPECT_THAT(waves, ::testing::ElementsAre(64, 32, 32));
  int can = 0;
  EXPECT_HIP(hip().hipDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);

  // A copy from one to the other, and a kernel on the second, whose code must be its own.
  const std::vector<float> values = {1, 2, 3};
  float* const first = upload(values);
  const std::string code90 = compile(kElementwise, {"--offload-arch=gfx90a"});
  EXPECT_HIP(hip().hipSetDevice(1));
  float* const second = allocate<float>(3);
  EXPECT_HIP(hip().hipMemcpyDtoDAsync(second, first, 12, nullptr));
  hipModule_t module = nullptr;
  EXPECT_HIP_ERROR(hip().hipModuleLoadData(&module, code90.c_str()), hipErrorNoBinaryForGpu);
  const hipFunction_t scale = kernel(kElementwise, "scale", {"--offload-arch=gfx1100"});
  ASSERT_HIP_OK(launch(scale, {.block_x = 32}, second, second, 10.0f, std::int64_t{3}));
  EXPECT_THAT(download(second, 3), ::testing::ElementsAre(11, 21, 31));
  hipPointerAttribute_t attributes;
  EXPECT_HIP(hip().hipPointerGetAttributes(&attributes, second));
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(attributes.type, hipMemoryTypeDevice);
  EXPECT_HIP_ERROR(hip().hipSetDevice(3), hipErrorInvalidDevice);
}

TEST_F(EmulatedHipDevice, KernelsUseAnotherDevicesMemoryOnlyWithLeave) {
  set("CRUCIBLE_EMU_DEVICES", "2");
  EXPECT_HIP(hip().hipSetDevice(1));
  float* const there = upload(std::vector<float>{1, 2, 3});
  EXPECT_HIP(hip().hipSetDevice(0));
  float* const here = allocate<float>(3);
  const hipFunction_t scale = kernel(kElementwise, "scale");
  EXPECT_HIP_ERROR(hip().hipDeviceDisablePeerAccess(1), hipErrorPeerAccessNotEnabled);
  EXPECT_HIP_ERROR(hip().hipDeviceEnablePeerAccess(0, 0), hipErrorInvalidDevice);
  EXPECT_HIP_ERROR(hip().hipDeviceEnablePeerAccess(1, 1), hipErrorInvalidValue);
  EXPECT_HIP(hip().hipDeviceEnablePeerAccess(1, 0));
  EXPECT_HIP_ERROR(hip().hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
  ASSERT_HIP_OK(launch(scale, {.block_x = 32}, here, there, 10.0f, std::int64_t{3}));
  EXPECT_THAT(download(here, 3), ::testing::ElementsAre(11, 21, 31));
  EXPECT_HIP(hip().hipDeviceDisablePeerAccess(1));
  ASSERT_HIP_OK(launch(scale, {.block_x = 32}, here, there, 10.0f, std::int64_t{3}));
  EXPECT_HIP_ERROR(hip().hipDeviceSynchronize(), hipErrorIllegalAddress);
  EXPECT_HIP(hip().hipDeviceReset());
}

TEST_F(EmulatedHipDevice, CopiesBetweenDevicesNeedNoLeave) {
  set("CRUCIBLE_EMU_DEVICES", "2");
  int* const here = upload(std::vector<int>{1, 2, 3});
  EXPECT_HIP(hip().hipSetDevice(1));
  int* const there = allocate<int>(3);
  EXPECT_HIP(hip().hipMemcpyPeer(there, 1, here, 0, 12));
  EXPECT_THAT(download(there, 3), ::testing::ElementsAre(1, 2, 3));
  EXPECT_HIP(hip().hipMemset(there, 0, 12));
  EXPECT_HIP(hip().hipMemcpyPeerAsync(there, 1, here, 0, 8, nullptr));
  EXPECT_THAT(download(there, 3), ::testing::ElementsAre(1, 2, 0));
  EXPECT_HIP_ERROR(hip().hipMemcpyPeer(there, 0, here, 0, 12), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(hip().hipMemcpyPeer(there, 2, here, 0, 12), hipErrorInvalidDevice);
  EXPECT_HIP_ERROR(hip().hipMemcpyPeer(there, 1, here, 0, 13), hipErrorInvalidValue);
}

TEST_F(EmulatedHipDevice, VisibleDevicesAreHonoured) {
  set("CRUCIBLE_EMU_DEVICES", "3");
  set("HIP_VISIBLE_DEVICES", "2,0");
  int count = 0, bus = 0;
  EXPECT_HIP(hip().hipGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  EXPECT_HIP(hip().hipDeviceGetAttribute(&bus, hipDeviceAttributePciBusId, 0));
  EXPECT_EQ(bus, 3);
  set("HIP_VISIBLE_DEVICES", "");
  EXPECT_HIP_ERROR(hip().hipGetDeviceCount(&count), hipErrorNoDevice);
  EXPECT_EQ(count, 0);
  EXPECT_HIP_ERROR(hip().hipInit(0), hipErrorNoDevice);
  void* memory = nullptr;
  EXPECT_HIP_ERROR(hip().hipMalloc(&memory, 1), hipErrorNoDevice);
}

TEST_F(EmulatedHipDevice, MemoryHasALimit) {
  set("CRUCIBLE_EMU_MEMORY_MIB", "2");
  std::size_t free = 0, total = 0;
  void *half = nullptr, *more = nullptr;
  EXPECT_HIP(hip().hipMalloc(&half, 1 << 20));
  EXPECT_HIP(hip().hipMemGetInfo(&free, &total));
  EXPECT_EQ(total, 2u << 20);
  EXPECT_EQ(free, 1u << 20);
  EXPECT_HIP_ERROR(hip().hipMalloc(&more, (1 << 20) + 1), hipErrorOutOfMemory);
  EXPECT_HIP_ERROR(hip().hipGetLastError(), hipErrorOutOfMemory);
  EXPECT_HIP(hip().hipGetLastError());
  EXPECT_HIP(hip().hipFree(half));
  EXPECT_HIP(hip().hipMalloc(&more, 2 << 20));
  void* base = nullptr;
  EXPECT_HIP(hip().hipMemGetAddressRange(&base, &free, static_cast<char*>(more) + 100));
  EXPECT_EQ(base, more);
  EXPECT_EQ(free, 2u << 20);
}

TEST_F(EmulatedHipDevice, FillsOfAllWidthsAndAllKindsOfCopies) {
  auto* const memory = upload(std::vector<std::uint32_t>(4));
  EXPECT_HIP(hip().hipMemset(memory, 0x17, 16));
  EXPECT_HIP(hip().hipMemsetD16Async(memory + 1, 0xabcd, 2, nullptr));
  EXPECT_HIP(hip().hipMemsetD32Async(memory + 2, 0x12345678, 1, nullptr));
  EXPECT_THAT(download(memory, 4), ::testing::ElementsAre(0x17171717, 0xabcdabcd, 0x12345678, 0x17171717));
  EXPECT_HIP(hip().hipMemcpyDtoDAsync(memory, memory + 2, 4, nullptr));
  EXPECT_EQ(download(memory, 1)[0], 0x12345678u);
  void* pinned = nullptr;
  EXPECT_HIP(hip().hipHostMalloc(&pinned, 16, 0));
  hipPointerAttribute_t attributes;
  EXPECT_HIP(hip().hipPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, hipMemoryTypeHost);
  EXPECT_HIP(hip().hipMemcpyAsync(pinned, memory, 16, hipMemcpyDeviceToHost, nullptr));
  EXPECT_HIP(hip().hipDeviceSynchronize());
  EXPECT_EQ(static_cast<std::uint32_t*>(pinned)[1], 0xabcdabcdu);
  // A kernel may use pinned memory.
  const hipFunction_t places = kernel(kElementwise, "places");
  ASSERT_HIP_OK(launch(places, {.block_x = 4}, static_cast<int*>(pinned)));
  EXPECT_HIP(hip().hipDeviceSynchronize());
  EXPECT_EQ(static_cast<int*>(pinned)[3], 30);
  EXPECT_HIP(hip().hipHostFree(pinned));
  int words[4] = {1, 2, 3, 4};
  EXPECT_HIP(hip().hipHostRegister(words, sizeof words, 0));
  EXPECT_HIP_ERROR(hip().hipHostRegister(words, sizeof words, 0), hipErrorHostMemoryAlreadyRegistered);
  EXPECT_HIP(hip().hipHostUnregister(words));
  EXPECT_HIP_ERROR(hip().hipHostUnregister(words), hipErrorHostMemoryNotRegistered);
}

}  // namespace
}  // namespace crucible::emulator
