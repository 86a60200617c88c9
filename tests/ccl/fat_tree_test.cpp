// SPDX-License-Identifier: Apache-2.0
//
// Schedules on a simulated fat tree, a rank on each host: the one that the cost model picks is at
// most a quarter slower than the best. The model's constants are measured there first, as they are
// where they are fitted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <simgrid/s4u.hpp>

#include "ccl/schedule/select.hpp"

namespace bp::ccl {
namespace {

namespace sim = simgrid::s4u;

// Of one link and one host. A message takes time of the processor at both ends.
constexpr double kBytesPerSecond = 12.5e9;
constexpr double kLinkSeconds = 0.5e-6;
constexpr double kOverheadSeconds = 1.5e-6;
constexpr double kReduceSecondsPerByte = 0.1e-9;
constexpr double kHeaderBytes = 64;

constexpr double kMostTimesBest = 1.25;
constexpr uint64_t kElementBytes = 4;
constexpr std::array kSizes = {uint64_t{1} << 12, uint64_t{1} << 16, uint64_t{1} << 20,
                               uint64_t{1} << 24};
// Of schedules with many rounds those at both ends are run, and those with more than one local
// step, and some of the others, which are alike; these are counted as often as there are of them.
constexpr uint32_t kEndRounds = 16;
constexpr uint32_t kSampledRounds = 32;

struct Trial {
  const Algorithm* algorithm = nullptr;
  uint64_t bytes = 0;                       // of the larger buffer
  uint64_t count = 0;                       // as in Operation
  std::vector<bool> is_unlike_others = {};  // of each round
  double seconds = 0;

  Operation operation() const {
    return {.kind = algorithm->kind, .dtype = BP_DTYPE_F32, .count = count};
  }
};

/// The rounds that are run together, and how often their time counts.
struct Stretch {
  std::vector<bool> has;  // each round
  double weight = 1;
};

std::vector<Stretch> stretches_of(const Trial& trial) {
  const std::vector<bool>& is_unlike = trial.is_unlike_others;
  const auto alike = static_cast<uint32_t>(std::count(is_unlike.begin(), is_unlike.end(), false));
  if (alike <= 2 * kSampledRounds) return {{std::vector<bool>(is_unlike.size(), true), 1}};
  const uint32_t step = alike / kSampledRounds;
  Stretch sample{std::vector<bool>(is_unlike.size(), false), 1};
  uint32_t number = 0;
  uint32_t run = 0;
  for (size_t round = 0; round < is_unlike.size(); ++round) {
    if (is_unlike[round]) continue;
    sample.has[round] = number++ % step == 0;
    run += sample.has[round] ? 1 : 0;
  }
  sample.weight = static_cast<double>(alike) / run;
  return {{is_unlike, 1}, sample};
}

/// Of one rank's schedule. Rounds at the ends are told once the last one is known.
void note_rounds(const std::vector<Step>& steps, std::vector<bool>* is_unlike) {
  if (steps.empty()) return;
  is_unlike->resize(std::max<size_t>(is_unlike->size(), steps.back().round + 1));
  uint32_t locals = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i > 0 && steps[i].round != steps[i - 1].round) locals = 0;
    const bool is_message = steps[i].kind == StepKind::kSend || steps[i].kind == StepKind::kRecv;
    locals += is_message ? 0 : 1;
    if (locals > 1) (*is_unlike)[steps[i].round] = true;
  }
}

void note_ends(std::vector<bool>* is_unlike) {
  for (size_t round = 0; round < is_unlike->size(); ++round) {
    if (round < kEndRounds || round + kEndRounds >= is_unlike->size()) (*is_unlike)[round] = true;
  }
}

sim::Mailbox* mailbox(uint32_t from, uint32_t to) {
  return sim::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to));
}

double bytes_of(const Part& part) {
  return kHeaderBytes + static_cast<double>(part.count * kElementBytes);
}

/// One round of one rank, as the group's runner does it.
void run_round(uint32_t rank, std::span<const Step> steps) {
  static int payload = 0;
  int* received = nullptr;
  std::vector<sim::CommPtr> messages;
  uint32_t received_count = 0;
  double local_bytes = 0;
  for (const Step& step : steps) {
    if (step.kind == StepKind::kRecv) {
      messages.push_back(mailbox(step.peer, rank)->get_async<int>(&received));
      ++received_count;
    }
  }
  for (const Step& step : steps) {
    if (step.kind == StepKind::kSend) {
      sim::this_actor::sleep_for(kOverheadSeconds);
      messages.push_back(mailbox(rank, step.peer)
                             ->put_async(&payload, static_cast<uint64_t>(bytes_of(step.from))));
    } else if (step.kind != StepKind::kRecv) {
      local_bytes += static_cast<double>(step.to.count * kElementBytes);
    }
  }
  for (const sim::CommPtr& message : messages) message->wait();
  const double busy = kOverheadSeconds * received_count + kReduceSecondsPerByte * local_bytes;
  if (busy > 0) sim::this_actor::sleep_for(busy);
}

class FatTree {
 public:
  /// A square of hosts: as many leaf switches as hosts on each, and as many above them.
  FatTree(uint32_t rank_count, std::vector<Trial> trials)
      : rank_count_(rank_count), trials_(std::move(trials)) {
    static std::array<char, 8> name = {"ccl"};
    static std::array<char*, 2> words = {name.data(), nullptr};
    int word_count = 1;
    engine_ = std::make_unique<sim::Engine>(&word_count, words.data());
    for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0",
                                "contexts/stack-size:128", "surf/precision:1e-12"}) {
      sim::Engine::set_config(setting);
    }
    const auto width = static_cast<unsigned>(std::lround(std::sqrt(rank_count)));
    sim::ClusterCallbacks callbacks(
        [this](sim::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
          hosts_.push_back(zone->create_host("host" + std::to_string(id), 1e9)->seal());
          return std::make_pair(hosts_.back()->get_netpoint(),
                                static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
        });
    sim::create_fatTree_zone("tree", nullptr, {2, {width, width}, {1, width}, {1, 1}}, callbacks,
                             kBytesPerSecond, kLinkSeconds, sim::Link::SharingPolicy::SPLITDUPLEX)
        ->seal();
  }

  void run() {
    start_ = sim::Barrier::create(rank_count_);
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      sim::Actor::create("rank" + std::to_string(rank), hosts_[rank], [this, rank] { live(rank); });
    }
    engine_->run();
  }

  const std::vector<Trial>& trials() const { return trials_; }
  /// What the simulated network takes for a message.
  const CostModel& measured() const { return model_; }

 private:
  double now() {
    start_->wait();
    return sim::Engine::get_clock();
  }
  /// Between the two ends of the tree.
  double time_of_message(uint32_t rank, uint64_t elements) {
    const double begin = now();
    const Part part{Buffer::kSend, 0, elements};
    if (rank == 0)
      run_round(0, std::array{Step{StepKind::kSend, 0, rank_count_ - 1, false, part, {}}});
    if (rank == rank_count_ - 1) {
      run_round(rank, std::array{Step{StepKind::kRecv, 0, 0, false, {}, part}});
    }
    return now() - begin;
  }
  void measure(uint32_t rank) {
    constexpr uint64_t kElements = 1 << 20;
    const double least = time_of_message(rank, 0);
    const double more = time_of_message(rank, kElements) - least;
    model_.alpha_ns = least * 1e9;
    model_.beta_ns_per_byte = more * 1e9 / (kElements * kElementBytes);
    model_.gamma_ns_per_byte = kReduceSecondsPerByte * 1e9;
  }
  void live(uint32_t rank) {
    measure(rank);
    for (Trial& trial : trials_) {
      const auto schedule = build(trial.algorithm->name,
                                  {.operation = trial.operation(), .place = {rank, rank_count_}});
      if (!schedule.ok()) throw std::runtime_error(schedule.status().to_string());
      const std::vector<Step>& steps = schedule->steps;
      note_rounds(steps, &trial.is_unlike_others);
      start_->wait();
      note_ends(&trial.is_unlike_others);
      for (const Stretch& stretch : stretches_of(trial)) {
        const double begin = now();
        for (size_t i = 0; i < steps.size();) {
          const size_t first = i;
          while (i < steps.size() && steps[i].round == steps[first].round) ++i;
          if (!stretch.has[steps[first].round]) continue;
          run_round(rank, std::span(steps).subspan(first, i - first));
        }
        const double seconds = stretch.weight * (now() - begin);
        if (rank == 0) trial.seconds += seconds;
      }
    }
  }

  const uint32_t rank_count_;
  std::vector<Trial> trials_;
  std::unique_ptr<sim::Engine> engine_;
  std::vector<sim::Host*> hosts_;
  sim::BarrierPtr start_;
  CostModel model_;
};

std::vector<Trial> all_trials(uint32_t rank_count) {
  std::vector<Trial> trials;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (algorithms_of(kind).size() < 2) continue;
    const Operation one{.kind = kind, .dtype = BP_DTYPE_F32, .count = 1};
    const uint64_t blocks =
        std::max(send_count(one, {0, rank_count}), recv_count(one, {0, rank_count}));
    for (const uint64_t bytes : kSizes) {
      for (const Algorithm& algorithm : algorithms_of(kind)) {
        if (!serves(algorithm, {.rank_count = rank_count})) continue;
        trials.push_back({&algorithm, bytes, bytes / kElementBytes / blocks, {}, 0});
      }
    }
  }
  return trials;
}

struct Selection {
  const Trial* picked = nullptr;
  const Trial* best = nullptr;
  const Trial* unmeasured = nullptr;  // picked by the constants that the model has by itself
  double times_best() const { return picked->seconds / best->seconds; }
  bool is_right() const { return times_best() <= kMostTimesBest; }
};

std::vector<Selection> select_all(const FatTree& tree, uint32_t rank_count) {
  std::map<std::pair<Kind, uint64_t>, Selection> selections;
  for (const Trial& trial : tree.trials()) {
    Selection& selection = selections[{trial.algorithm->kind, trial.bytes}];
    if (selection.best == nullptr || trial.seconds < selection.best->seconds) {
      selection.best = &trial;
    }
    const Choice choice = choose({.operation = trial.operation(), .rank_count = rank_count},
                                 tree.measured(), AlgorithmRules());
    if (choice.algorithm == trial.algorithm) selection.picked = &trial;
    const Choice unmeasured = choose({.operation = trial.operation(), .rank_count = rank_count},
                                     kBetweenHosts, AlgorithmRules());
    if (unmeasured.algorithm == trial.algorithm) selection.unmeasured = &trial;
  }
  std::vector<Selection> all;
  for (const auto& [key, selection] : selections) all.push_back(selection);
  return all;
}

bool write_report(const FatTree& tree, const std::vector<Selection>& selections,
                  uint32_t rank_count) {
  const std::string path =
      std::string(BP_REPORTS_DIR) + "/ccl_fat_tree_" + std::to_string(rank_count);
  std::error_code ignored;
  std::filesystem::create_directories(BP_REPORTS_DIR, ignored);
  const auto passed = static_cast<size_t>(std::count_if(
      selections.begin(), selections.end(), [](const Selection& s) { return s.is_right(); }));
  std::ofstream json(path + ".json");
  json << "{\n  \"passed\": " << passed << ",\n  \"failed\": " << selections.size() - passed
       << ",\n  \"total\": " << selections.size() << ",\n  \"trials\": [\n";
  for (const Trial& trial : tree.trials()) {
    json << "    {\"kind\": \"" << kind_info(trial.algorithm->kind).name << "\", \"algorithm\": \""
         << trial.algorithm->name << "\", \"bytes\": " << trial.bytes
         << ", \"rounds\": " << trial.is_unlike_others.size() << ", \"us\": " << trial.seconds * 1e6
         << (&trial == &tree.trials().back() ? "}\n" : "},\n");
  }
  json << "  ]\n}\n";
  std::ofstream markdown(path + ".md");
  markdown << "# Collectives: " << rank_count
           << " ranks on a simulated fat tree\n\nMeasured: " << tree.measured().alpha_ns
           << " ns for a message, " << tree.measured().beta_ns_per_byte
           << " ns for a byte. Unmeasured: by the constants that the model has by itself; told, "
              "and not judged.\n\n| kind | bytes | picked | us | best | us | times the best | "
              "unmeasured | times the best |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const Selection& s : selections) {
    markdown << "| " << kind_info(s.best->algorithm->kind).name << " | " << s.best->bytes << " | "
             << s.picked->algorithm->name << " | " << s.picked->seconds * 1e6 << " | "
             << s.best->algorithm->name << " | " << s.best->seconds * 1e6 << " | " << s.times_best()
             << (s.is_right() ? "" : " (too slow)") << " | " << s.unmeasured->algorithm->name
             << " | " << s.unmeasured->seconds / s.best->seconds << " |\n";
  }
  return json.flush().good() && markdown.flush().good();
}

/// One simulation for each process.
class FatTreeTest : public testing::TestWithParam<uint32_t> {};

TEST_P(FatTreeTest, PickedSchedule_IsAtMostAQuarterSlowerThanTheBest) {
  FatTree tree(GetParam(), all_trials(GetParam()));
  tree.run();
  const std::vector<Selection> selections = select_all(tree, GetParam());
  EXPECT_EQ(selections.size(), 8 * kSizes.size());
  for (const Selection& s : selections) {
    ASSERT_NE(s.picked, nullptr);
    EXPECT_GT(s.best->seconds, 0);
    EXPECT_TRUE(s.is_right()) << describe(s.picked->operation()) << ": "
                              << s.picked->algorithm->name << " takes " << s.picked->seconds * 1e6
                              << " us, " << s.best->algorithm->name << " " << s.best->seconds * 1e6;
  }
  EXPECT_TRUE(write_report(tree, selections, GetParam())) << BP_REPORTS_DIR;
}

INSTANTIATE_TEST_SUITE_P(Ranks, FatTreeTest, testing::Values(64u, 256u, 1024u),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace bp::ccl
