// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/job.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <span>
#include <utility>

#include "ccl/launch/slurm_tasks.hpp"
#include "ccl/store/endpoint.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/options.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

using Name = std::string_view;

constexpr Name kStore = "BACKPLANE_CCL_STORE";
constexpr Name kToken = "BACKPLANE_CCL_TOKEN";
constexpr Name kTokenFile = "BACKPLANE_CCL_TOKEN_FILE";
constexpr Name kDevice = "BACKPLANE_CCL_DEVICE";
constexpr Name kJob = "BACKPLANE_CCL_JOB";
constexpr Name kTcpScheme = "tcp://";
constexpr Name kFileScheme = "file:";
constexpr uint32_t kMostRestarts = INT_MAX;

/// The variables of a launcher; "": it has none of that kind.
struct Variables {
  Launcher launcher;
  std::array<Name, 4> marks;  // any of them: it started this process
  Name rank, rank_count, local_rank, local_count, node_rank, restart;
};

// In the order of job.hpp. What srun tells of its tasks on each node is computed from.
constexpr Variables kVariables[] = {
    {Launcher::kBackplane,
     {"BACKPLANE_CCL_RANK", "BACKPLANE_CCL_RANK_COUNT", "BACKPLANE_CCL_LOCAL_RANK",
      "BACKPLANE_CCL_LOCAL_COUNT"},
     "BACKPLANE_CCL_RANK",
     "BACKPLANE_CCL_RANK_COUNT",
     "BACKPLANE_CCL_LOCAL_RANK",
     "BACKPLANE_CCL_LOCAL_COUNT",
     "BACKPLANE_CCL_NODE_RANK",
     "BACKPLANE_CCL_RESTART"},
    {Launcher::kTorchrun,
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "GROUP_RANK",
     "TORCHELASTIC_RESTART_COUNT"},
    {Launcher::kOpenMpi,
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"},
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "",
     ""},
    {Launcher::kHydra,
     {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     "",
     ""},
    {Launcher::kSlurm,
     {"SLURM_STEP_NUM_TASKS"},
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "",
     "SLURM_NODEID",
     "SLURM_RESTART_COUNT"},
    // srun sets them too for programs of MPI, and then it stands above.
    {Launcher::kHydra,
     {"PMI_RANK", "PMI_SIZE"},
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     "",
     ""},
};

Status refuse(Name variable, const std::string& expected, const std::string& found) {
  return Status(BP_INVALID_ARGUMENT,
                std::string(variable) + ": expected " + expected + ", found " + found);
}

/// The variables of one launcher, which started this process as `mark` shows.
class Reader {
 public:
  Reader(const Environment& environment, Launcher launcher, Name mark)
      : environment_(environment), launcher_(launcher), mark_(mark) {}

  Result<uint32_t> number(Name name, uint32_t least, uint32_t most) const {
    const std::string expected =
        "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    const auto text = environment_(name);
    if (!text) return missing(name, expected);
    uint32_t number = 0;
    const char* const last = text->data() + text->size();
    const auto [end, error] = std::from_chars(text->data(), last, number);
    if (error == std::errc() && end == last && number >= least && number <= most) return number;
    return refuse(name, expected, bp::quoted(*text));
  }
  /// `otherwise` where it is not set, or the launcher has no such variable.
  Result<uint32_t> number_or(Name name, uint32_t most, uint32_t otherwise) const {
    if (name.empty() || !environment_(name)) return otherwise;
    return number(name, 0, most);
  }
  /// One of several, from 0: `count` of them, as the variable `of` says.
  Result<uint32_t> index(Name name, uint32_t count, Name of) const {
    BP_TRY_ASSIGN(const uint32_t found, number(name, 0, Job::kMostRanks - 1));
    if (found < count) return found;
    return refuse(name, "less than " + std::string(of) + ", which is " + std::to_string(count),
                  std::to_string(found));
  }
  Result<std::string> text(Name name) const {
    auto text = environment_(name);
    if (!text) return missing(name, "a text");
    return std::move(*text);
  }
  Status missing(Name name, const std::string& expected) const {
    return Status(BP_INVALID_ARGUMENT, std::string(name) + ": expected " + expected + " beside " +
                                           std::string(mark_) + ", by which " +
                                           std::string(launcher_name(launcher_)) +
                                           " starts ranks; it is not set");
  }

 private:
  const Environment& environment_;
  const Launcher launcher_;
  const Name mark_;
};

/// Which launcher started this process, and the variable that shows it.
std::pair<const Variables*, Name> find_launcher(const Environment& environment) {
  for (const Variables& each : kVariables) {
    for (const Name mark : each.marks) {
      if (!mark.empty() && environment(mark)) return {&each, mark};
    }
  }
  return {nullptr, ""};
}

/// Other launchers of torch's ranks set these four; in some, RANK is a host's.
Status check_no_others(const Environment& environment) {
  const auto rank = environment("RANK");
  const auto count = environment("WORLD_SIZE");
  if (!rank || !count || *count == "1") return {};
  return Status(BP_INVALID_ARGUMENT,
                "RANK and WORLD_SIZE are set, " + bp::quoted(*rank) + " and " + bp::quoted(*count) +
                    ", but not TORCHELASTIC_RUN_ID, so that torchrun did not set them: set "
                    "BACKPLANE_CCL_RANK and BACKPLANE_CCL_RANK_COUNT, 0 and 1 for a rank alone");
}

Result<uint32_t> slurm_local_count(const Reader& reader, const Job& job) {
  constexpr Name kTasks = "SLURM_STEP_TASKS_PER_NODE";
  BP_TRY_ASSIGN(const std::string text, reader.text(kTasks));
  const auto counts = parse_slurm_tasks(text, Job::kMostRanks);
  uint64_t sum = 0;
  for (const uint32_t count : counts.value_or(std::vector<uint32_t>())) sum += count;
  if (!counts || sum != job.rank_count) {
    return refuse(kTasks,
                  "the tasks of each node, as 2(x3),1, " + std::to_string(job.rank_count) +
                      " in all as SLURM_STEP_NUM_TASKS says",
                  bp::quoted(text));
  }
  if (*job.node_rank < counts->size()) return (*counts)[*job.node_rank];
  return refuse("SLURM_NODEID",
                "one of the " + std::to_string(counts->size()) + " nodes that " +
                    std::string(kTasks) + " tells",
                std::to_string(*job.node_rank));
}

Result<uint32_t> read_local_count(const Reader& reader, const Variables& names, const Job& job) {
  if (job.launcher == Launcher::kSlurm) return slurm_local_count(reader, job);
  BP_TRY_ASSIGN(const uint32_t count, reader.number(names.local_count, 1, Job::kMostRanks));
  if (count <= job.rank_count) return count;
  return refuse(
      names.local_count,
      "at most " + std::string(names.rank_count) + ", which is " + std::to_string(job.rank_count),
      std::to_string(count));
}

Status read_ranks(const Reader& reader, const Variables& names, const Environment& environment,
                  Job* job) {
  job->launcher = names.launcher;
  BP_TRY_ASSIGN(job->rank_count, reader.number(names.rank_count, 1, Job::kMostRanks));
  BP_TRY_ASSIGN(job->rank, reader.index(names.rank, job->rank_count, names.rank_count));
  BP_TRY_ASSIGN(job->restart, reader.number_or(names.restart, kMostRestarts, 0));
  if (!names.node_rank.empty() &&
      (environment(names.node_rank) || names.launcher == Launcher::kSlurm)) {
    BP_TRY_ASSIGN(job->node_rank, reader.number(names.node_rank, 0, Job::kMostRanks - 1));
  }
  // By hand, a rank alone needs no more.
  const bool is_alone = names.launcher == Launcher::kBackplane && job->rank_count == 1 &&
                        !environment(names.local_rank) && !environment(names.local_count);
  if (is_alone) return {};
  BP_TRY_ASSIGN(job->local_count, read_local_count(reader, names, *job));
  const Name local_count =
      names.local_count.empty() ? Name("SLURM_STEP_TASKS_PER_NODE of it") : names.local_count;
  BP_TRY_ASSIGN(job->local_rank, reader.index(names.local_rank, job->local_count, local_count));
  return {};
}

Result<std::string> checked_name(std::string name, Name variable) {
  if (!name.empty() && name.size() <= Job::kMostNameBytes) return name;
  return refuse(variable, "1 to " + std::to_string(Job::kMostNameBytes) + " bytes",
                std::to_string(name.size()));
}

/// What the launcher calls the job; "" where it has no name for it.
Result<std::string> read_name(const Reader& reader, const Environment& environment,
                              Launcher launcher) {
  if (auto own = environment(kJob)) return checked_name(std::move(*own), kJob);
  switch (launcher) {
    case Launcher::kTorchrun: {
      // The id alone is "none" for every job whose user gave it none.
      BP_TRY_ASSIGN(const std::string id, reader.text("TORCHELASTIC_RUN_ID"));
      BP_TRY_ASSIGN(const std::string address, reader.text("MASTER_ADDR"));
      BP_TRY_ASSIGN(const std::string port, reader.text("MASTER_PORT"));
      return checked_name(id + " " + address + ":" + port, "TORCHELASTIC_RUN_ID");
    }
    case Launcher::kOpenMpi: {
      constexpr Name kNamespace = "PMIX_NAMESPACE";
      BP_TRY_ASSIGN(std::string id, reader.text(kNamespace));
      return checked_name(std::move(id), kNamespace);
    }
    case Launcher::kSlurm: {
      BP_TRY_ASSIGN(const std::string job, reader.text("SLURM_JOB_ID"));
      BP_TRY_ASSIGN(const std::string step, reader.text("SLURM_STEP_ID"));
      return checked_name(job + "." + step, "SLURM_JOB_ID");
    }
    case Launcher::kNone:
    case Launcher::kBackplane:
      return std::string("job");
    case Launcher::kHydra:
      break;
  }
  return std::string();
}

Status check_token(const Job& job) {
  if (job.has_token_variable && !job.token_file.empty()) {
    return Status(BP_INVALID_ARGUMENT, std::string(kToken) + " and " + std::string(kTokenFile) +
                                           " are both set; expected one of them");
  }
  const bool has_token = job.has_token_variable || !job.token_file.empty();
  if (job.store.kind != StorePlace::Kind::kTcp || has_token) return {};
  return Status(BP_INVALID_ARGUMENT, std::string(kTokenFile) +
                                         ": expected a file with the job's token beside " +
                                         std::string(kStore) +
                                         "=tcp://...; it is not set. (umask 077; openssl rand "
                                         "-hex 32 > FILE) makes one; every host needs the same");
}

Status several_hosts(const Job& job) {
  return Status(BP_INVALID_ARGUMENT,
                std::string(kStore) +
                    ": expected tcp://ADDRESS:PORT, an address of rank 0's host "
                    "and a port that is free there, since " +
                    std::to_string(job.local_count) + " of " + std::to_string(job.rank_count) +
                    " ranks are on this host; it is not set");
}

Status read_store(const Environment& environment, Job* job) {
  const bool is_one_host = job->local_count == job->rank_count;
  const auto text = environment(kStore);
  if (text && job->launcher == Launcher::kNone) {
    // A store alone says nothing of ranks; yet nobody sets one for nothing.
    return Status(BP_INVALID_ARGUMENT, std::string(kStore) +
                                           " is set, but no launcher's variables; expected "
                                           "BACKPLANE_CCL_RANK and those beside it");
  }
  if (text) {
    BP_TRY_ASSIGN(job->store, parse_store(*text, kStore));
    if (job->store.kind == StorePlace::Kind::kFile && !is_one_host) return several_hosts(*job);
    job->store.serves = job->store.kind == StorePlace::Kind::kTcp && job->rank == 0 &&
                        job->launcher != Launcher::kBackplane;
    return {};
  }
  if (job->rank_count == 1) return {};
  if (!is_one_host) return several_hosts(*job);
  job->store.kind = StorePlace::Kind::kPrivate;
  return {};
}

}  // namespace

std::optional<std::string> process_variable(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string_view launcher_name(Launcher launcher) {
  constexpr std::string_view kNames[] = {"", "backplane", "torchrun", "mpirun", "mpiexec", "srun"};
  return kNames[static_cast<size_t>(launcher)];
}

Result<Job> read_job(const Environment& environment) {
  Job job;
  const auto [names, mark] = find_launcher(environment);
  const Launcher launcher = names != nullptr ? names->launcher : Launcher::kNone;
  const Reader reader(environment, launcher, mark);
  if (names != nullptr) {
    BP_TRY(read_ranks(reader, *names, environment, &job));
  } else {
    for (const Name name : {Name("BACKPLANE_CCL_NODE_RANK"), Name("BACKPLANE_CCL_RESTART")}) {
      if (environment(name)) {
        return Status(BP_INVALID_ARGUMENT,
                      std::string(name) + " is set, but not BACKPLANE_CCL_RANK");
      }
    }
    BP_TRY(check_no_others(environment));
  }
  BP_TRY_ASSIGN(job.name, read_name(reader, environment, launcher));
  job.device = environment(kDevice).value_or("");
  if (one_line(job.device) != job.device) {
    return refuse(kDevice, "the name of a device", bp::quoted(job.device));
  }
  job.token_file = environment(kTokenFile).value_or("");
  job.has_token_variable = environment(kToken).has_value();
  BP_TRY(read_store(environment, &job));
  BP_TRY(check_token(job));
  return job;
}

Result<std::chrono::seconds> read_timeout(const Environment& environment) {
  for (const Name name : {Name("BACKPLANE_CCL_TIMEOUT"), Name("BACKPLANE_TIMEOUT")}) {
    const auto rows = option_rows();
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return r.name == name; });
    const std::string text = environment(name).value_or(std::string(row->default_value));
    if (text.empty() && !environment(name)) continue;
    BP_TRY(check_option(name, text));
    int64_t seconds = 0;
    std::from_chars(text.data(), text.data() + text.size(), seconds);
    return std::chrono::seconds(seconds);
  }
  return Status(BP_INTERNAL, "BACKPLANE_TIMEOUT has no default");
}

Result<std::shared_ptr<const Token>> read_token(const Job& job, const Environment& environment) {
  if (!job.token_file.empty()) {
    auto token = Token::from_file(job.token_file);
    if (!token.ok()) return token.status().with_prefix(kTokenFile);
    return token;
  }
  auto text = environment(kToken);
  if (!text) return std::shared_ptr<const Token>();
  auto token = Token::from_text(*text, kToken);
  wipe(&*text);
  return token;
}

Result<StorePlace> parse_store(std::string_view text, std::string_view origin) {
  constexpr const char* kExpected = "tcp://ADDRESS:PORT or file:PATH with an absolute path";
  StorePlace place;
  if (text.starts_with(kTcpScheme)) {
    place.kind = StorePlace::Kind::kTcp;
    place.where = text.substr(kTcpScheme.size());
    const auto endpoint = parse_endpoint(place.where);
    if (!endpoint.ok()) return endpoint.status().with_prefix(origin);
    if (endpoint->kind != Endpoint::Kind::kInterface && endpoint->port != 0) return place;
  } else if (text.starts_with(kFileScheme)) {
    place.kind = StorePlace::Kind::kFile;
    place.where = text.substr(kFileScheme.size());
    if (place.where.starts_with("///")) place.where.erase(0, 2);
    if (place.where.size() > 1 && place.where.front() == '/' && !place.where.starts_with("//")) {
      return place;
    }
  }
  return refuse(origin, kExpected, bp::quoted(text));
}

}  // namespace bp::ccl
