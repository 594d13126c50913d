// Deduplication, order and use from several threads.
#include "core/trace/memory_blob_store.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace crucible::trace {
namespace {

std::vector<std::byte> filled(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

TEST(MemoryBlobStore, KeepsEqualContentOnce) {
  MemoryBlobStore store;
  const std::vector<std::byte> a = filled(10, 1);
  EXPECT_EQ(store.add(std::span<const std::byte>(a)), 0u);
  EXPECT_EQ(store.add(filled(10, 2)), 1u);
  EXPECT_EQ(store.add(filled(10, 1)), 0u);
  EXPECT_EQ(store.add(filled(11, 1)), 2u);
  EXPECT_EQ(store.size_bytes(), 31u);
  const std::vector<Blob> blobs = store.blobs();
  ASSERT_EQ(blobs.size(), 3u);
  EXPECT_EQ(blobs[0].hash, sha256(a));
  EXPECT_EQ(blobs[2].size_bytes, 11u);
  EXPECT_EQ(*store.load(0), a);
}

TEST(MemoryBlobStore, RefusesIdsThatDoNotExist) {
  MemoryBlobStore store;
  store.add(filled(1, 1));
  const auto blob = store.load(1);
  ASSERT_FALSE(blob);
  EXPECT_EQ(blob.error().message, "blob 1 does not exist: there are 1");
  EXPECT_FALSE(store.load(kNone));
}

TEST(MemoryBlobStore, TakesBlobsFromSeveralThreads) {
  MemoryBlobStore store;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&store] {
        for (int i = 0; i < 100; ++i) {
          const std::vector<std::byte> content = filled(i + 1, i);
          const BlobId id = store.add(std::span<const std::byte>(content));
          const auto loaded = store.load(id);
          ASSERT_TRUE(loaded);
          ASSERT_EQ(*loaded, content);
        }
      });
    }
  }
  EXPECT_EQ(store.blobs().size(), 100u);
}

}  // namespace
}  // namespace crucible::trace
