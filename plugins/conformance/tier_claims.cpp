// What a device says of itself must be so: each capability "yes" is used here and works, each "no" is absent or answers
// UNSUPPORTED. "unknown" decides nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plugins/conformance/opened.hpp"
#include "plugins/conformance/queue_objects.hpp"
#include "plugins/kernel_ir/math_prelude.hpp"

namespace crucible::conformance {
namespace {

/// The answer to one key: 0, 1 or 2. Unsupported when there is none.
std::uint64_t answer(Opened& opened, const std::string& key) {
  Items items;
  expect_ok(
      need(opened.tables.device.capabilities, "device.capabilities")(borrow(opened.id), items.sink(), items.user()),
      "device.capabilities");
  const auto found = items.tristates.find(key);
  if (found == items.tristates.end()) unsupported("device.capabilities says nothing about " + key);
  if (found->second.first == 2) unsupported(fmt::format("{} is unknown: {}", key, found->second.second));
  return found->second.first;
}

/// The entry is there exactly when the device says yes; a "no" may also answer UNSUPPORTED.
template <class Function, class Refused>
bool entry_fits(std::uint64_t yes, Function entry, const std::string& key, const std::string& name, Refused refused) {
  if (yes == 1) {
    expect(entry != nullptr, fmt::format("{} is 'yes', so {} is there", key, name), "the entry is absent");
    return true;
  }
  if (entry != nullptr)
    expect_error(refused(), {CRUCIBLE_E_UNSUPPORTED, CRUCIBLE_E_UNIMPLEMENTED},
                 fmt::format("{}, because {} is 'no',", name, key));
  return false;
}

void async(const Settings& settings) {
  Opened opened(settings);
  if (answer(opened, "async") == 0) return;  // a plugin may wait inside submit; nothing is promised then
  expect(opened.tables.queue.submit != nullptr, "async is 'yes', so queue.submit is there", "the entry is absent");
  OpList list;
  const Plan plan(opened, list);
  Timeline go(opened), done(opened);
  Queue work(opened);
  work.submit(plan, {go.at(1)}, {done.at(1)});
  go.signal(1);
  done.wait(1);
}

/// A form that the device does not take is refused, and the kernel named. The case ends then.
bool takes_form(Opened& opened, const std::string& key, const kernel::Kernel& kernel) {
  if (answer(opened, key) == 1) return true;
  crucible_module* module = nullptr;
  const crucible_kernel_source source = source_of(kernel);
  const PluginError error = expect_error(
      must(opened.tables.compile.compile, "compile.compile")(opened.device, &source, 1, 0, &module, nullptr),
      {CRUCIBLE_E_UNSUPPORTED}, fmt::format("compile.compile, because {} is 'no',", key));
  expect(error.payload("kernel") == kernel.name, "the refusal names the kernel in its payload",
         "'" + error.payload("kernel") + "'");
  return false;
}

void compile_ir(const Settings& settings) {
  Opened opened(settings);
  if (!takes_form(opened, "compile.ir", test_kernels().front())) return;
  const Kernels kernels(opened);
  Memory counts(opened, 400);
  OpList list;
  list.launch(kernels.find("ck_count"), {counts.address()}, 100);
  run_once(opened, list);
  expect(counts.values<std::int32_t>(100) == std::vector<std::int32_t>(100, 1), "a kernel from IR runs",
         "other counts");
}

/// What an op means is the framework's: a device that takes them has to tell one from noise.
void compile_opaque(const Settings& settings) {
  Opened opened(settings);
  const kernel::Kernel op{"ck_op", {}, "this describes no op"};
  if (!takes_form(opened, "compile.opaque", op)) return;
  crucible_module* module = nullptr;
  const crucible_kernel_source source = source_of(op);
  expect_error(must(opened.tables.compile.compile, "compile.compile")(opened.device, &source, 1, 0, &module, nullptr),
               {CRUCIBLE_E_INVALID_ARGUMENT, CRUCIBLE_E_DATA_CORRUPT}, "compile.compile of an opaque op that is none");
}

void mathematics(const Settings& settings) {
  Opened opened(settings);
  if (answer(opened, "compile.ir") != 1) unsupported("the device takes no kernel IR");
  Items items;
  expect_ok(must(opened.tables.device.properties, "device.properties")(opened.device, items.sink(), items.user()),
            "device.properties");
  expect(items.has("math"), "a device that takes kernel IR tells which mathematics its kernels call (property math)",
         "it does not");
  expect(items.all["math"] == kernel::math_identity(),
         fmt::format("the mathematics are the host's, {}: built with the SDK of this version", kernel::math_identity()),
         items.all["math"]);
}

crucible_view dense(std::uint32_t dtype, std::initializer_list<std::int64_t> sizes) {
  crucible_view view{};
  view.dtype = dtype;
  for (const std::int64_t size : sizes) view.sizes[view.rank++] = size;
  std::int64_t stride = 1;
  for (std::uint32_t d = view.rank; d-- > 0;) view.strides[d] = stride, stride *= view.sizes[d];
  return view;
}

constexpr std::uint32_t kF32 = 8;  // DType::kF32

std::vector<float> small_numbers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>((i * 7 + static_cast<std::size_t>(seed)) % 11) - 5);
  return values;
}

/// Small whole numbers: every order of summation gives the same, so the result must be exact.
void run_library(Opened& opened, const crucible_library_desc& desc, const std::vector<float>& a,
                 const std::vector<float>& b, const std::vector<float>& wanted, const std::string& key) {
  std::uint64_t scratch = 0;
  expect_ok(opened.tables.library.claim(opened.device, &desc, &scratch),
            fmt::format("library.claim, because {} is 'yes',", key));
  const Memory x(opened, a), y(opened, b);
  Memory result(opened, wanted.size() * 4), workspace(opened, scratch + 1);
  OpList list;
  list.library(desc, {x.address(), y.address(), result.address(), workspace.address()}, scratch);
  run_once(opened, list);
  const auto got = result.values<float>(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    expect(got[i] == wanted[i], fmt::format("{}: element {} is {}", key, i, wanted[i]), fmt::format("{}", got[i]));
}

void library_matmul(const Settings& settings) {
  Opened opened(settings);
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_MATMUL;
  constexpr std::int64_t m = 24, k = 17, n = 40;
  desc.views[0] = dense(kF32, {m, k}), desc.views[1] = dense(kF32, {k, n}), desc.views[2] = dense(kF32, {m, n});
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(1.0);
  desc.groups = 1;
  for (int d = 0; d < 2; ++d) desc.stride[d] = desc.dilation[d] = 1;
  std::uint64_t scratch = 0;
  const auto claim = opened.tables.library.claim;
  if (!entry_fits(answer(opened, "library.matmul"), claim, "library.matmul", "library.claim of a matrix product",
                  [&] { return claim(opened.device, &desc, &scratch); }))
    return;
  const std::vector<float> a = small_numbers(m * k, 1), b = small_numbers(k * n, 2);
  std::vector<float> wanted(m * n, 0);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        wanted[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
  run_library(opened, desc, a, b, wanted, "library.matmul");
}

void library_conv2d(const Settings& settings) {
  Opened opened(settings);
  crucible_library_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = CRUCIBLE_LIB_CONV2D;
  constexpr std::int64_t c = 3, h = 9, w = 8, o = 4, kernel = 3;
  desc.views[0] = dense(kF32, {1, c, h, w}), desc.views[1] = dense(kF32, {o, c, kernel, kernel}),
  desc.views[2] = dense(kF32, {1, o, h - 2, w - 2});
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(1.0);
  desc.groups = 1;
  for (int d = 0; d < 2; ++d) desc.stride[d] = desc.dilation[d] = 1;
  std::uint64_t scratch = 0;
  const auto claim = opened.tables.library.claim;
  if (!entry_fits(answer(opened, "library.conv2d"), claim, "library.conv2d", "library.claim of a convolution",
                  [&] { return claim(opened.device, &desc, &scratch); }))
    return;
  const std::vector<float> x = small_numbers(c * h * w, 1), weight = small_numbers(o * c * kernel * kernel, 2);
  std::vector<float> wanted;
  for (std::int64_t out = 0; out < o; ++out)
    for (std::int64_t i = 0; i < h - 2; ++i)
      for (std::int64_t j = 0; j < w - 2; ++j) {
        float sum = 0;
        for (std::int64_t in = 0; in < c; ++in)
          for (std::int64_t p = 0; p < kernel; ++p)
            for (std::int64_t q = 0; q < kernel; ++q)
              sum += x[static_cast<std::size_t>((in * h + i + p) * w + j + q)] *
                     weight[static_cast<std::size_t>(((out * c + in) * kernel + p) * kernel + q)];
        wanted.push_back(sum);
      }
  run_library(opened, desc, x, weight, wanted, "library.conv2d");
}

void profile(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.profile;
  std::uint64_t a = 0, b = 0, c = 0;
  if (!entry_fits(answer(opened, "profile"), table.clock_pair, "profile", "profile.clock_pair",
                  [&] { return table.clock_pair(opened.device, &a, &b, &c); }))
    return;
  expect_ok(table.clock_pair(opened.device, &a, &b, &c), "profile.clock_pair, because profile is 'yes',");
}

void health(const Settings& settings) {
  Opened opened(settings);
  const auto& table = opened.tables.health;
  std::uint32_t state = 0;
  Items why;
  const auto call = [&] { return table.state(borrow(opened.id), &state, why.sink(), why.user()); };
  if (!entry_fits(answer(opened, "health"), table.state, "health", "health.state", call)) return;
  expect_ok(call(), "health.state, because health is 'yes',");
}

/// Kernels that compute in the dtype, narrow floats by way of f32: 0.1 + 0.2.
void floats(const Settings& settings, const std::string& key, DType type, std::uint64_t wanted) {
  Opened opened(settings);
  if (answer(opened, key) == 0) return;  // the ops tier does not ask it for such kernels
  const std::size_t bytes = static_cast<std::size_t>(size_bytes(type));
  const Kernels kernels(opened, {adding_kernel("ck_dtype", type, type == DType::kF64 ? type : DType::kF32)});
  Memory out(opened, 8 * bytes);
  OpList list;
  list.launch(kernels.find("ck_dtype"), {out.address()}, 8, 1, {fixed(0.1), fixed(0.2)});
  run_once(opened, list);
  const std::vector<std::byte> got = out.read(0, bytes);
  std::uint64_t bits = 0;
  std::copy(got.begin(), got.end(), std::as_writable_bytes(std::span(&bits, 1)).begin());
  expect(bits == wanted, fmt::format("{}: 0.1 + 0.2 is {:#x}", key, wanted), fmt::format("{:#x}", bits));
}

void f64(const Settings& settings) { floats(settings, "f64", DType::kF64, 0x3fd3333333333334ull); }
void f16(const Settings& settings) { floats(settings, "f16", DType::kF16, 0x34cd); }
void bf16(const Settings& settings) { floats(settings, "bf16", DType::kBF16, 0x3e9a); }

/// A device must not know keys in one call and not in the next, and must give a reason with every "no" and "unknown".
void answers(const Settings& settings) {
  Opened opened(settings);
  const auto capabilities = need(opened.tables.device.capabilities, "device.capabilities");
  Items first, second;
  expect_ok(capabilities(borrow(opened.id), first.sink(), first.user()), "device.capabilities");
  expect_ok(capabilities(borrow(opened.id), second.sink(), second.user()), "device.capabilities again");
  expect(first.tristates == second.tristates, "capabilities are the same twice", "they differ");
  for (const auto& [key, value] : first.tristates)
    if (value.first != 1)
      expect(!value.second.empty(),
             fmt::format("the answer '{}' to {} has a reason", value.first == 0 ? "no" : "unknown", key),
             "it has none");
  for (const char* key : {"library.matmul", "library.conv2d", "compile.ir", "compile.opaque", "f64", "f16", "bf16",
                          "profile", "health", "async"})
    expect(first.tristates.contains(key), fmt::format("device.capabilities answers {}", key), "it does not");
}

}  // namespace

std::vector<Case> claims_cases() {
  const auto make = [](std::string key, void (*run)(const Settings&)) {
    return Case{"claims." + key, Tier::kClaims, "the device's answer to the capability " + key + " is true",
                false,           run,           60};
  };
  return {
      Case{"claims.answers", Tier::kClaims, "every capability is answered, with a reason where it is not yes", true,
           answers, 30},
      make("async", async),
      make("compile.ir", compile_ir),
      make("compile.opaque", compile_opaque),
      Case{"claims.math", Tier::kClaims,
           "a device that takes kernel IR tells whose mathematics its kernels call, and they are the host's", true,
           mathematics, 30},
      make("library.matmul", library_matmul),
      make("library.conv2d", library_conv2d),
      make("profile", profile),
      make("health", health),
      make("f64", f64),
      make("f16", f16),
      make("bf16", bf16),
  };
}

}  // namespace crucible::conformance
