// Trees of regions for people and for tools.
#pragma once

#include <string>

#include "core/merkle/region.hpp"

namespace crucible::merkle {

/// A table, one region a line, indented by depth; of a loop the first turn stands for all.
/// `levels`: how deep it goes below the iteration; 0: all.
std::string to_text(const RegionTree& tree, unsigned levels = 0);

/// One document: {"regions": [...], "root": N}, with all turns of loops. Deterministic.
std::string to_json(const RegionTree& tree);

/// An SVG document: boxes in boxes, from above to below in the order in which they run; a loop is a box with its turns'
/// number. What stands behind a box shows where the mouse rests.
std::string to_svg(const RegionTree& tree, unsigned levels = 0);

/// "module blocks.0, 3 times": what a region is, in words.
std::string words(const RegionTree& tree, RegionId id);

/// A region for people: its hashes, where it stands, what goes in and out, its children or its ops.
std::string region_text(const RegionTree& tree, RegionId id);

}  // namespace crucible::merkle
