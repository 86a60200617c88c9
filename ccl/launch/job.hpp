// SPDX-License-Identifier: Apache-2.0
//
// What a process learns of its job from its environment: which rank it is, of how many, and where
// the ranks meet. Launchers tell it by variables of their own, and several may have set theirs: a
// batch system round mpirun, mpirun round torchrun. The one that is nearest to the process counts:
//
//   backplane   BACKPLANE_CCL_RANK ...        by `backplane launch`, or by hand
//   torchrun    TORCHELASTIC_RUN_ID, RANK ...
//   mpirun      OMPI_COMM_WORLD_RANK ...      Open MPI
//   mpiexec     MPI_LOCALRANKID, PMI_RANK ... MPICH and others with its hydra
//   srun        SLURM_STEP_NUM_TASKS, SLURM_PROCID ...
//
// srun comes last, for its variables also stand in the environment of what mpirun and torchrun
// start within its steps; those of the allocation alone (SLURM_NTASKS, SLURM_JOB_ID) say nothing of
// who started this process, and count for nothing.
#ifndef BACKPLANE_CCL_LAUNCH_JOB_HPP
#define BACKPLANE_CCL_LAUNCH_JOB_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ccl/store/token.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// The value of a variable; nullopt: it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
/// That of this process. Not while another thread changes it.
std::optional<std::string> process_variable(std::string_view name);

enum class Launcher : uint8_t { kNone, kBackplane, kTorchrun, kOpenMpi, kHydra, kSlurm };
/// "backplane", "torchrun", "mpirun", "mpiexec", "srun"; "" for none.
std::string_view launcher_name(Launcher launcher);

/// Where the ranks of a job meet.
struct StorePlace {
  enum class Kind : uint8_t {
    kMemory,   // one rank
    kPrivate,  // a file in this user's private folder, named by the job: ranks on one host
    kFile,     // this file
    kTcp,      // this endpoint
  };
  Kind kind = Kind::kMemory;
  std::string where = {};  // path or endpoint
  bool serves = false;     // kTcp: this rank serves it
};

struct Job {
  static constexpr uint32_t kMostRanks = 65536;
  static constexpr size_t kMostNameBytes = 200;

  Launcher launcher = Launcher::kNone;
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint32_t local_rank = 0;  // among the ranks on this host
  uint32_t local_count = 1;
  std::optional<uint32_t> node_rank = {};  // of this host; not all launchers tell it
  uint32_t restart = 0;                    // how often the job was started anew
  std::string name = {};    // of the job, the same on all ranks; "" where kPrivate has no name yet
  std::string device = {};  // that was given to this rank; "": none
  StorePlace store = {};
  std::string token_file = {};  // "": none
  bool has_token_variable = false;
};

/// A process that no launcher started is a job of one rank. Errors: INVALID_ARGUMENT for what is
/// set by halves, contradicts itself or is no value, with the variable, what was expected and what
/// was found.
Result<Job> read_job(const Environment& environment);

/// As BACKPLANE_CCL_TIMEOUT or else BACKPLANE_TIMEOUT says. Errors: INVALID_ARGUMENT, as
/// read_job().
Result<std::chrono::seconds> read_timeout(const Environment& environment);

/// The job's secret, from where read_job() found that it is; nullptr: there is none. Errors:
/// Token::from_file()'s and Token::from_text()'s.
Result<std::shared_ptr<const Token>> read_token(const Job& job, const Environment& environment);

/// "BACKPLANE_CCL_STORE=tcp://ADDRESS:PORT" or "file:PATH", taken apart. Errors: INVALID_ARGUMENT
/// with `origin`, the name of the variable.
Result<StorePlace> parse_store(std::string_view text, std::string_view origin);

}  // namespace bp::ccl

#endif
