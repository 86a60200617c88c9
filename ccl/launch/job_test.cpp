// SPDX-License-Identifier: Apache-2.0
//
// What each launcher's variables mean, as these launchers set them (torchrun of PyTorch 2, Open MPI
// 4.1.4, MPICH 4.0.2, Slurm's manual), and what is wrong with sets that no launcher makes.
#include "ccl/launch/job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

#include "ccl/launch/slurm_tasks.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string, std::less<>>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

const Variables kOwn = {{"BACKPLANE_CCL_RANK", "2"},
                        {"BACKPLANE_CCL_RANK_COUNT", "6"},
                        {"BACKPLANE_CCL_LOCAL_RANK", "0"},
                        {"BACKPLANE_CCL_LOCAL_COUNT", "4"},
                        {"BACKPLANE_CCL_NODE_RANK", "1"},
                        {"BACKPLANE_CCL_RESTART", "3"},
                        {"BACKPLANE_CCL_JOB", "mine"},
                        {"BACKPLANE_CCL_DEVICE", "npu:0"},
                        {"BACKPLANE_CCL_STORE", "tcp://127.0.0.1:4711"},
                        {"BACKPLANE_CCL_TOKEN_FILE", "/t"}};
const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                             {"TORCHELASTIC_MAX_RESTARTS", "3"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"RANK", "1"},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "0"},
                             {"MASTER_ADDR", "localhost"},
                             {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                            {"PMIX_NAMESPACE", "658112513"},
                            {"PMIX_RANK", "1"}};
const Variables kHydra = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm = {{"SLURM_JOB_ID", "17"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_STEP_NUM_NODES", "4"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                          {"BACKPLANE_CCL_STORE", "tcp://10.0.0.1:4711"},
                          {"BACKPLANE_CCL_TOKEN_FILE", "/t"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

Job job_of(const Variables& variables) {
  const auto job = read_job(environment_of(variables));
  EXPECT_TRUE(job.ok()) << job.status().to_string();
  return job.ok() ? *job : Job();
}
std::string refusal(const Variables& variables) {
  const auto job = read_job(environment_of(variables));
  EXPECT_FALSE(job.ok()) << launcher_name(job->launcher);
  if (job.ok()) return "";
  EXPECT_EQ(job.status().code(), BP_INVALID_ARGUMENT);
  return job.status().message();
}

std::vector<uint32_t> numbers(const Job& job) {
  return {job.rank, job.rank_count, job.local_rank, job.local_count, job.restart};
}

TEST(Job, NoLauncher_IsARankAlone) {
  const Job job = job_of({{"PATH", "/bin"}});
  EXPECT_EQ(launcher_name(job.launcher), "");
  EXPECT_THAT(numbers(job), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(job.store.kind, StorePlace::Kind::kMemory);
  EXPECT_EQ(job.device, "");
}

TEST(Job, OwnVariables_TellAll) {
  const Job job = job_of(kOwn);
  EXPECT_EQ(launcher_name(job.launcher), "backplane");
  EXPECT_THAT(numbers(job), ElementsAre(2, 6, 0, 4, 3));
  EXPECT_EQ(job.node_rank, 1u);
  EXPECT_EQ(job.name, "mine");
  EXPECT_EQ(job.device, "npu:0");
  EXPECT_EQ(job.store.kind, StorePlace::Kind::kTcp);
  EXPECT_EQ(job.store.where, "127.0.0.1:4711");
  EXPECT_FALSE(job.store.serves);
  EXPECT_EQ(job.token_file, "/t");
  const Job first = job_of(with(kOwn, {{"BACKPLANE_CCL_RANK", "0"}}));
  EXPECT_FALSE(first.store.serves) << "the launcher does";
}

TEST(Job, OwnVariables_OfARankAloneAreTwo) {
  const Job job = job_of({{"BACKPLANE_CCL_RANK", "0"}, {"BACKPLANE_CCL_RANK_COUNT", "1"}});
  EXPECT_THAT(numbers(job), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(job.store.kind, StorePlace::Kind::kMemory);
}

TEST(Job, Torchrun_OnOneHost) {
  const Job job = job_of(kTorchrun);
  EXPECT_EQ(launcher_name(job.launcher), "torchrun");
  EXPECT_THAT(numbers(job), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_EQ(job.node_rank, 0u);
  EXPECT_EQ(job.name, "none localhost:29500") << "many jobs are called none";
  EXPECT_EQ(job.store.kind, StorePlace::Kind::kPrivate);
}

TEST(Job, OpenMpi_OnOneHost) {
  const Job job = job_of(kOpenMpi);
  EXPECT_EQ(launcher_name(job.launcher), "mpirun");
  EXPECT_THAT(numbers(job), ElementsAre(1, 2, 1, 2, 0));
  EXPECT_EQ(job.node_rank, std::nullopt) << "OMPI_COMM_WORLD_NODE_RANK is no node's";
  EXPECT_EQ(job.name, "658112513");
  EXPECT_EQ(job.store.kind, StorePlace::Kind::kPrivate);
}

TEST(Job, Hydra_HasNoNameOfTheJob) {
  const Job job = job_of(kHydra);
  EXPECT_EQ(launcher_name(job.launcher), "mpiexec");
  EXPECT_THAT(numbers(job), ElementsAre(1, 2, 1, 2, 0));
  EXPECT_EQ(job.name, "");
  EXPECT_EQ(job_of(with(kHydra, {{"BACKPLANE_CCL_JOB", "mine"}})).name, "mine");
}

TEST(Job, Slurm_OnSeveralHosts) {
  const Job job = job_of(kSlurm);
  EXPECT_EQ(launcher_name(job.launcher), "srun");
  EXPECT_THAT(numbers(job), ElementsAre(5, 7, 1, 2, 0)) << "SLURM_NTASKS is the allocation's";
  EXPECT_EQ(job.node_rank, 2u);
  EXPECT_EQ(job.name, "17.0");
  EXPECT_EQ(job.store.kind, StorePlace::Kind::kTcp);
  EXPECT_FALSE(job.store.serves);
  EXPECT_TRUE(job_of(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}})).store.serves);
  EXPECT_EQ(job_of(with(kSlurm, {{"SLURM_PROCID", "6"},
                                 {"SLURM_LOCALID", "0"},
                                 {"SLURM_NODEID", "3"},
                                 {"SLURM_RESTART_COUNT", "2"}}))
                .restart,
            2u);
}

TEST(Job, Slurm_OnOneHost) {
  Variables variables = with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "2"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                      {"SLURM_PROCID", "1"},
                                      {"SLURM_NODEID", "0"}});
  variables.erase("BACKPLANE_CCL_STORE");
  variables.erase("BACKPLANE_CCL_TOKEN_FILE");
  EXPECT_EQ(job_of(variables).store.kind, StorePlace::Kind::kPrivate);
}

/// Batch scripts and interactive shells have these, and are no ranks.
TEST(Job, SlurmAllocationAlone_IsNoLauncher) {
  const Job job = job_of({{"SLURM_JOB_ID", "17"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_JOB_NUM_NODES", "2"},
                          {"SLURM_PROCID", "0"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "0"}});
  EXPECT_EQ(launcher_name(job.launcher), "");
  EXPECT_EQ(job.rank_count, 1u);
}

TEST(Job, SeveralLaunchers_TheNearestCounts) {
  const Variables slurm =
      without(without(kSlurm, "BACKPLANE_CCL_STORE"), "BACKPLANE_CCL_TOKEN_FILE");
  EXPECT_EQ(job_of(with(slurm, kOpenMpi)).launcher, Launcher::kOpenMpi);
  EXPECT_EQ(job_of(with(slurm, kHydra)).launcher, Launcher::kHydra);
  EXPECT_EQ(job_of(with(with(slurm, kOpenMpi), kTorchrun)).launcher, Launcher::kTorchrun);
  EXPECT_EQ(job_of(with(with(kOpenMpi, kTorchrun), kOwn)).launcher, Launcher::kBackplane);
  // srun --mpi=pmi2
  EXPECT_EQ(job_of(with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}})).launcher,
            Launcher::kSlurm);
}

TEST(Job, HalfSet_NamesWhatIsMissing) {
  const std::map<std::string, Variables> all = {{"BACKPLANE_CCL_RANK", kOwn},
                                                {"BACKPLANE_CCL_RANK_COUNT", kOwn},
                                                {"BACKPLANE_CCL_LOCAL_RANK", kOwn},
                                                {"BACKPLANE_CCL_LOCAL_COUNT", kOwn},
                                                {"RANK", kTorchrun},
                                                {"WORLD_SIZE", kTorchrun},
                                                {"LOCAL_RANK", kTorchrun},
                                                {"LOCAL_WORLD_SIZE", kTorchrun},
                                                {"MASTER_ADDR", kTorchrun},
                                                {"MASTER_PORT", kTorchrun},
                                                {"TORCHELASTIC_RUN_ID", kTorchrun},
                                                {"OMPI_COMM_WORLD_RANK", kOpenMpi},
                                                {"OMPI_COMM_WORLD_SIZE", kOpenMpi},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", kOpenMpi},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", kOpenMpi},
                                                {"PMIX_NAMESPACE", kOpenMpi},
                                                {"PMI_RANK", kHydra},
                                                {"PMI_SIZE", kHydra},
                                                {"MPI_LOCALRANKID", kHydra},
                                                {"MPI_LOCALNRANKS", kHydra},
                                                {"SLURM_PROCID", kSlurm},
                                                {"SLURM_LOCALID", kSlurm},
                                                {"SLURM_NODEID", kSlurm},
                                                {"SLURM_STEP_TASKS_PER_NODE", kSlurm},
                                                {"SLURM_JOB_ID", kSlurm},
                                                {"SLURM_STEP_ID", kSlurm}};
  for (const auto& [name, variables] : all) {
    const std::string words = refusal(without(variables, name));
    EXPECT_THAT(words, testing::StartsWith(name + ": expected "));
    EXPECT_THAT(words, testing::EndsWith("; it is not set"));
  }
}

TEST(Job, ValuesThatCannotBe_AreNamedWithWhatIsExpected) {
  for (const std::string bad :
       {"", "-1", "x", "1 ", "0x1", "4294967296", "99999999999999999999", "1\n"}) {
    EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", bad}})),
                HasSubstr("RANK: expected a whole number from 0 to 65535, found '"));
    EXPECT_THAT(refusal(with(kOwn, {{"BACKPLANE_CCL_RESTART", bad}})),
                HasSubstr("BACKPLANE_CCL_RESTART: expected a whole number from 0 to 2147483647"));
  }
  EXPECT_EQ(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "0"}})),
            "OMPI_COMM_WORLD_SIZE: expected a whole number from 1 to 65536, found '0'");
  EXPECT_EQ(refusal(with(kTorchrun, {{"GROUP_RANK", "x"}})),
            "GROUP_RANK: expected a whole number from 0 to 65535, found 'x'");
}

TEST(Job, Contradictions_NameBoth) {
  EXPECT_EQ(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "2"}})),
            "OMPI_COMM_WORLD_RANK: expected less than OMPI_COMM_WORLD_SIZE, which is 2, found 2");
  EXPECT_EQ(refusal(with(kTorchrun, {{"LOCAL_RANK", "7"}})),
            "LOCAL_RANK: expected less than LOCAL_WORLD_SIZE, which is 2, found 7");
  EXPECT_EQ(refusal(with(kHydra, {{"MPI_LOCALNRANKS", "3"}})),
            "MPI_LOCALNRANKS: expected at most PMI_SIZE, which is 2, found 3");
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}})),
              HasSubstr("7 in all as SLURM_STEP_NUM_TASKS says, found '2(x2)'"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NODEID", "4"}})),
              HasSubstr("SLURM_NODEID: expected one of the 4 nodes"));
}

TEST(Job, WhatIsSetWithoutALauncher_IsNotIgnored) {
  EXPECT_THAT(refusal({{"BACKPLANE_CCL_STORE", "file:/x"}}), HasSubstr("no launcher's variables"));
  EXPECT_THAT(refusal({{"BACKPLANE_CCL_RESTART", "1"}}), HasSubstr("but not BACKPLANE_CCL_RANK"));
  EXPECT_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}}), HasSubstr("TORCHELASTIC_RUN_ID"));
  EXPECT_EQ(job_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).rank_count, 1u);
  EXPECT_EQ(job_of({{"RANK", "3"}}).rank_count, 1u) << "a name that anybody may use";
}

TEST(Job, SeveralHosts_NeedAStoreAndAToken) {
  const Variables one_of_two =
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  EXPECT_THAT(refusal(one_of_two),
              testing::AllOf(HasSubstr("BACKPLANE_CCL_STORE: expected tcp://ADDRESS:PORT"),
                             HasSubstr("1 of 2 ranks are on this host")));
  const Variables stored = with(one_of_two, {{"BACKPLANE_CCL_STORE", "tcp://10.0.0.1:4711"}});
  EXPECT_THAT(refusal(stored), testing::AllOf(HasSubstr("BACKPLANE_CCL_TOKEN_FILE: expected"),
                                              HasSubstr("openssl rand -hex 32 > FILE")));
  EXPECT_EQ(job_of(with(stored, {{"BACKPLANE_CCL_TOKEN", "x"}})).store.where, "10.0.0.1:4711");
  EXPECT_THAT(
      refusal(with(stored, {{"BACKPLANE_CCL_TOKEN", "x"}, {"BACKPLANE_CCL_TOKEN_FILE", "/t"}})),
      HasSubstr("are both set"));
  EXPECT_THAT(refusal(with(one_of_two, {{"BACKPLANE_CCL_STORE", "file:/x"}})),
              HasSubstr("expected tcp://ADDRESS:PORT"));
}

TEST(Job, NamesAreBounded) {
  EXPECT_EQ(refusal(with(kOwn, {{"BACKPLANE_CCL_DEVICE", "npu\x1b[2J"}})),
            "BACKPLANE_CCL_DEVICE: expected the name of a device, found 'npu [2J'");
  EXPECT_THAT(refusal(with(kOwn, {{"BACKPLANE_CCL_JOB", ""}})),
              HasSubstr("BACKPLANE_CCL_JOB: expected 1 to 200 bytes, found 0"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"PMIX_NAMESPACE", std::string(201, 'x')}})),
              HasSubstr("PMIX_NAMESPACE: expected 1 to 200 bytes, found 201"));
}

TEST(Job, Stores_AreTakenApart) {
  const auto place = [](const std::string& text) { return *parse_store(text, "S"); };
  EXPECT_EQ(place("tcp://[::1]:80").where, "[::1]:80");
  EXPECT_EQ(place("file:/a b").where, "/a b");
  EXPECT_EQ(place("file:///a").where, "/a");
  for (const std::string bad :
       {"", "tcp://", "tcp://1.2.3.4", "tcp://1.2.3.4:0", "tcp://eth0:80", "tcp://host.name:80",
        "file:", "file:a", "file:/", "file://host/a", "http://1.2.3.4:80", "/a"}) {
    const auto found = parse_store(bad, "S");
    ASSERT_FALSE(found.ok()) << bad;
    EXPECT_THAT(found.status().message(), testing::StartsWith("S"));
  }
}

TEST(Job, Timeout_IsTheFirstThatIsSet) {
  const auto seconds = [](const Variables& variables) {
    return read_timeout(environment_of(variables))->count();
  };
  EXPECT_EQ(seconds({}), 300);
  EXPECT_EQ(seconds({{"BACKPLANE_TIMEOUT", "7"}}), 7);
  EXPECT_EQ(seconds({{"BACKPLANE_TIMEOUT", "7"}, {"BACKPLANE_CCL_TIMEOUT", "5"}}), 5);
  EXPECT_THAT(read_timeout(environment_of({{"BACKPLANE_CCL_TIMEOUT", "0"}})).status().message(),
              HasSubstr("BACKPLANE_CCL_TIMEOUT: expected a whole number of seconds"));
}

TEST(Job, Token_IsReadAndNeverShown) {
  const std::string digits(64, 'a');
  Job job =
      job_of(with(without(kOwn, "BACKPLANE_CCL_TOKEN_FILE"), {{"BACKPLANE_CCL_TOKEN", digits}}));
  const auto token = read_token(job, environment_of({{"BACKPLANE_CCL_TOKEN", digits}}));
  ASSERT_TRUE(token.ok());
  EXPECT_EQ((*token)->text(), digits);
  const auto bad = read_token(job, environment_of({{"BACKPLANE_CCL_TOKEN", "hunter2"}}));
  EXPECT_THAT(bad.status().message(), testing::Not(HasSubstr("hunter2")));
  const TempFolder folder;
  job.token_file = folder.write("token", digits);
  ASSERT_EQ(chmod(job.token_file.c_str(), 0644), 0);
  EXPECT_THAT(read_token(job, environment_of({})).status().message(),
              testing::AllOf(HasSubstr("BACKPLANE_CCL_TOKEN_FILE: "), HasSubstr("mode 0644")));
}

TEST(SlurmTasks, TextsOfTheManual) {
  EXPECT_THAT(*parse_slurm_tasks("2(x3),1", 100), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*parse_slurm_tasks("4", 100), ElementsAre(4));
  EXPECT_THAT(*parse_slurm_tasks("1,2(x1),3", 100), ElementsAre(1, 2, 3));
  for (const char* bad : {"", ",", "0", "2(x0)", "2(x", "2(x2", "2x2", "2,", "-1", "2(x101)", "101",
                          "2(x99),1(x2)", "a", "2 ", "99999999999999999999"}) {
    EXPECT_EQ(parse_slurm_tasks(bad, 100), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace bp::ccl
