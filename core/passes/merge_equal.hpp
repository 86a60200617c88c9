// SPDX-License-Identifier: Apache-2.0
//
// Common subexpressions: what is computed twice from the same values.
#ifndef BACKPLANE_CORE_PASSES_MERGE_EQUAL_HPP
#define BACKPLANE_CORE_PASSES_MERGE_EQUAL_HPP

#include "core/graph/graph.hpp"

namespace bp {

/// Of nodes with the same operator, inputs and attributes the first alone is left, and of small
/// constants with the same values. Exporters write a model's shapes out again wherever they are
/// needed. Graph outputs keep values of their own, and so do default inputs. Time and memory grow
/// as the graph does.
void merge_equal(Graph* graph);

}  // namespace bp

#endif
