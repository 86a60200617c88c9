// SPDX-License-Identifier: Apache-2.0
//
// How srun tells the tasks of each node: "2(x3),1" is 2, 2, 2 and 1.
#ifndef BACKPLANE_CCL_LAUNCH_SLURM_TASKS_HPP
#define BACKPLANE_CCL_LAUNCH_SLURM_TASKS_HPP

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace bp::ccl {

/// The tasks of each node; nullopt for another text, and for more than `most` nodes or tasks.
std::optional<std::vector<uint32_t>> parse_slurm_tasks(std::string_view text, uint32_t most);

}  // namespace bp::ccl

#endif
