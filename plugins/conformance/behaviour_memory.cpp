// What memory does: zeros at first, exact ranges, alignment, buffers that do not touch each other, honest counts.
#include <fmt/format.h>

#include <algorithm>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

constexpr std::uint64_t kSizes[] = {1, 2, 3, 7, 64, 100, 4095, 4096, 4097, 65537, 1 << 20, (3 << 20) + 5};

void zero_filled(const Settings& settings) {
  Opened opened(settings);
  for (const std::uint64_t size : kSizes) {
    for (int round = 0; round < 3; ++round) {  // also after memory that was written has been given back
      Memory memory(opened, size);
      expect_bytes(memory.read(0, size), std::vector<std::byte>(size), fmt::format("a fresh buffer of {} bytes", size));
      memory.fill(0, size, 0xff);
    }
  }
}

void round_trips(const Settings& settings) {
  Opened opened(settings);
  for (const std::uint64_t size : kSizes) {
    Memory memory(opened, size);
    const std::vector<std::byte> data = noise(size, static_cast<std::uint32_t>(size));
    memory.write(0, data);
    expect_bytes(memory.read(0, size), data, fmt::format("{} bytes written and read", size));
  }
}

/// Every range is done on the device and on a copy in the host's memory; both must agree, bytes beside the range too.
void odd_ranges(const Settings& settings) {
  Opened opened(settings);
  constexpr std::uint64_t kSize = 10'007;
  Memory memory(opened, kSize);
  std::vector<std::byte> mirror(kSize);
  std::uint64_t state = 7;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  for (std::uint32_t i = 0; i < 400; ++i) {
    const std::uint64_t offset = random(kSize), most = i % 3 == 0 ? 9 : kSize,
                        size = std::min(random(most) + 1, kSize - offset);
    if (i % 2 == 0) {
      const std::vector<std::byte> data = noise(size, i);
      memory.write(offset, data);
      std::ranges::copy(data, mirror.begin() + static_cast<std::ptrdiff_t>(offset));
    } else {
      memory.fill(offset, size, static_cast<std::uint8_t>(i));
      std::fill_n(mirror.begin() + static_cast<std::ptrdiff_t>(offset), size, static_cast<std::byte>(i));
    }
    const std::uint64_t from = random(kSize), count = std::min(random(200) + 1, kSize - from);
    expect_bytes(memory.read(from, count), std::span(mirror).subspan(from, count),
                 fmt::format("bytes {} to {} after {} changes", from, from + count, i + 1));
  }
  expect_bytes(memory.read(0, kSize), mirror, "the whole buffer after 400 changes");
}

void read_is_exact(const Settings& settings) {
  Opened opened(settings);
  Memory memory(opened, 1000);
  const std::vector<std::byte> data = noise(1000, 3);
  memory.write(0, data);
  for (const std::uint64_t size : {0ull, 1ull, 2ull, 15ull, 16ull, 17ull, 63ull, 64ull, 65ull, 999ull}) {
    std::vector<std::byte> host(1100, std::byte{0x5c});
    expect_ok(must(opened.tables.memory.read, "memory.read")(memory.handle(), 1, host.data() + 50, size),
              "memory.read");
    const auto begin = host.begin() + 50, end = begin + static_cast<std::ptrdiff_t>(size);
    expect_bytes(std::span(begin, end), std::span(data).subspan(1, size), fmt::format("a read of {} bytes", size));
    const auto is_guard = [](std::byte byte) { return byte == std::byte{0x5c}; };
    expect(std::all_of(host.begin(), begin, is_guard) && std::all_of(end, host.end(), is_guard),
           fmt::format("a read of {} bytes writes exactly those", size),
           "bytes beside them changed in the host's memory");
  }
}

void alignment(const Settings& settings) {
  Opened opened(settings);
  for (std::uint64_t align = 1; align <= 1 << 21; align *= 2) {
    for (const std::uint64_t size : {1ull, 100ull, 5000ull}) {
      const Memory memory(opened, size, align);
      expect(memory.address() % align == 0, fmt::format("a buffer of {} bytes at a multiple of {}", size, align),
             fmt::format("address {:#x}", memory.address()));
    }
  }
}

void empty_buffers(const Settings& settings) {
  Opened opened(settings);
  Memory first(opened, 0), second(opened, 0);
  first.write(0, {});
  expect_equal(first.read(0, 0).size(), 0, "the bytes of an empty buffer");
  first.fill(0, 0, 1);
  std::byte byte{};
  expect_error(must(opened.tables.memory.read, "memory.read")(first.handle(), 0, &byte, 1),
               {CRUCIBLE_E_INVALID_ARGUMENT}, "memory.read of 1 byte of an empty buffer");
}

void do_not_overlap(const Settings& settings) {
  Opened opened(settings);
  std::deque<Memory> buffers;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const std::uint64_t size = 1 + i * 37 % 5000;
    buffers.emplace_back(opened, size, 1ull << i % 9);
    buffers.back().fill(0, size, static_cast<std::uint8_t>(i));
    ranges.emplace_back(buffers.back().address(), size);
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    expect(ranges[i - 1].first + ranges[i - 1].second <= ranges[i].first,
           "buffers that are alive do not share addresses",
           fmt::format("{:#x} with {} bytes and {:#x}", ranges[i - 1].first, ranges[i - 1].second, ranges[i].first));
  for (std::uint32_t i = 0; i < buffers.size(); ++i)
    expect_bytes(buffers[i].read(0, buffers[i].size()),
                 std::vector<std::byte>(buffers[i].size(), static_cast<std::byte>(i)),
                 fmt::format("buffer {} of 300", i));
}

void big(const Settings& settings) {
  Opened opened(settings);
  const std::uint64_t size = (settings.quick ? 64ull << 20 : 512ull << 20) + 13;
  crucible_buffer* handle = nullptr;
  if (crucible_status status = must(opened.tables.memory.alloc, "memory.alloc")(opened.device, size, 64, &handle)) {
    const PluginError error =
        expect_error(status, {CRUCIBLE_E_OUT_OF_MEMORY}, fmt::format("memory.alloc of {} bytes, if it fails,", size));
    unsupported("the device has not so much memory: " + error.message);
  }
  expect_ok(must(opened.tables.memory.free, "memory.free")(handle), "memory.free");
  Memory memory(opened, size);
  const std::vector<std::byte> data = noise(5000, 1);
  for (const std::uint64_t offset : {std::uint64_t{0}, size / 2 - 1, size - 5000}) {
    memory.write(offset, data);
    expect_bytes(memory.read(offset, 5000), data, fmt::format("5000 bytes at {} of {}", offset, size));
  }
  expect_bytes(memory.read(size / 4, 5000), std::vector<std::byte>(5000), "bytes that nobody has written");
  memory.fill(0, size, 0xc3);
  for (const std::uint64_t offset : {std::uint64_t{0}, size / 3, size - 5000})
    expect_bytes(memory.read(offset, 5000), std::vector<std::byte>(5000, std::byte{0xc3}),
                 fmt::format("a big fill, at {}", offset));
}

void counts(const Settings& settings) {
  Opened opened(settings);
  const auto stats = [&] {
    Items items;
    expect_ok(must(opened.tables.memory.stats, "memory.stats")(opened.device, items.sink(), items.user()),
              "memory.stats");
    expect(items.has("live_bytes") && items.has("peak_bytes"), "memory.stats has live_bytes and peak_bytes",
           "one is missing");
    return std::pair(items.number("live_bytes"), items.number("peak_bytes"));
  };
  const auto [before, peak_before] = stats();
  {
    const Memory first(opened, 1 << 20);
    expect(stats().first >= before + (1 << 20), "live_bytes counts a buffer of 1 MiB",
           fmt::format("{} became {}", before, stats().first));
    const Memory second(opened, 2 << 20);
    expect(stats().first >= before + (3 << 20), "live_bytes counts both buffers",
           fmt::format("{} became {}", before, stats().first));
  }
  const auto [after, peak] = stats();
  expect_equal(after, before, "live_bytes after everything was freed");
  expect(peak >= peak_before && peak >= before + (3 << 20), "peak_bytes keeps the most that was alive",
         fmt::format("{}", peak));
}

}  // namespace

std::vector<Case> behaviour_memory_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour.memory." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 60};
  };
  return {
      make("zero_filled", "fresh buffers hold zeros, also where memory was used before", zero_filled, true),
      make("round_trips", "what is written is read", round_trips, true),
      make("odd_ranges", "write, fill and read touch exactly their bytes at every offset", odd_ranges, true),
      make("read_is_exact", "read writes exactly the asked bytes into the host's memory", read_is_exact, true),
      make("alignment", "addresses have the asked alignment", alignment, true),
      make("empty_buffers", "buffers of no bytes can be made and used", empty_buffers, true),
      make("do_not_overlap", "buffers keep their bytes to themselves", do_not_overlap, true),
      make("big", "big buffers work to their last byte", big, false),
      make("counts", "stats counts what is alive and the peak", counts, true),
  };
}

}  // namespace crucible::conformance
