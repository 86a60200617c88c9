// SPDX-License-Identifier: Apache-2.0
//
// See rank_run.hpp.
#include "tests/ccl/rank_run.hpp"

#include <algorithm>
#include <fstream>
#include <istream>
#include <ostream>
#include <stdexcept>

#include "ccl/schedule/select.hpp"
#include "core/dispatch/call.hpp"
#include "core/transfer/transfer.hpp"

namespace bp::ccl::cases {
namespace {

/// Messages of one rank.
struct Traffic {
  uint64_t sent_messages = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_messages = 0;
  uint64_t received_bytes = 0;

  static Traffic of(const WireCounters& wire) {
    return {wire.sent_messages, wire.sent_bytes, wire.received_messages, wire.received_bytes};
  }
  Traffic since(const Traffic& before) const {
    return {sent_messages - before.sent_messages, sent_bytes - before.sent_bytes,
            received_messages - before.received_messages, received_bytes - before.received_bytes};
  }
  std::string words() const {
    return std::to_string(sent_messages) + " messages of " + std::to_string(sent_bytes) +
           " bytes sent, " + std::to_string(received_messages) + " of " +
           std::to_string(received_bytes) + " received";
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

Ref<Tensor> made(Result<Ref<Tensor>> tensor) {
  if (!tensor.ok()) throw std::runtime_error(tensor.status().to_string());
  return *std::move(tensor);
}

void demand(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.to_string());
}

class OneCase {
 public:
  OneCase(const RankRunArgs& args, const Case& c)
      : args_(args), group_(*args.group), case_(c), rank_(group_.place().rank) {}

  RankVerdict run() {
    RankVerdict verdict{.number = case_.number};
    const Limit limit = limit_of(case_);
    if (limit == Limit::kNoSuchPlace && case_.kind == Kind::kSend) {
      args_.await_others();
      verdict.is_refused = true;  // there is no way to say it
      return verdict;
    }
    try {
      if (case_.format != nullptr) make_tensors();
    } catch (...) {
      args_.await_others();
      throw;
    }
    args_.await_others();
    const Traffic before = Traffic::of(group_.wire());
    const uint64_t native_before = group_.counters().native_operations;
    const auto work = enqueue();
    if (is_refused(limit)) {
      verdict.is_refused = true;
      verdict.problem = problem_of_refusal(work.status(), limit);
      return verdict;
    }
    if (!work.ok()) {
      verdict.problem = work.status().to_string();
      return verdict;
    }
    if (*work) demand((*work)->wait(Clock::now() + std::chrono::seconds(60)));
    judge_results(&verdict);
    if (verdict.problem.empty()) {
      verdict.problem = problem_of_way(group_.counters().native_operations - native_before);
    }
    if (verdict.problem.empty() && args_.checks_wire) {
      verdict.problem = problem_of_traffic(Traffic::of(group_.wire()).since(before), limit);
    }
    return verdict;
  }

 private:
  Device& device() { return group_.device(); }
  Ref<Tensor> upload(const Bytes& bytes, uint64_t count) {
    static constexpr std::byte kNothing{};
    return made(copy_from_host(device().default_stream(), case_.format->dtype,
                               {static_cast<int64_t>(count)},
                               bytes.empty() ? &kNothing : bytes.data(), MemoryTag::kIo));
  }
  /// Elements that no case has as its results.
  Ref<Tensor> room(uint64_t count) {
    return upload(Bytes(count * case_.format->bytes, std::byte{0x5a}), count);
  }
  Bytes download(const Ref<Tensor>& tensor) {
    Bytes bytes(static_cast<uint64_t>(tensor->element_count()) * case_.format->bytes);
    std::byte nothing{};
    demand(copy_to_host(tensor, bytes.empty() ? &nothing : bytes.data(), bytes.size()));
    return bytes;
  }

  bool sends() const {
    const Extent extent = kind_info(case_.kind).send;
    const bool is_at_root = extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot;
    return extent != Extent::kNone && (!is_at_root || rank_ == case_.root);
  }
  bool receives() const {
    const Extent extent = kind_info(case_.kind).recv;
    const bool is_at_root = extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot;
    return case_.kind == Kind::kSend ||
           (extent != Extent::kNone && (!is_at_root || rank_ == case_.root));
  }

  void make_tensors() {
    const uint64_t sent = case_.sent_elements(rank_);
    const uint64_t received = case_.received_elements(rank_);
    if (sends()) input_ = input_of(case_, rank_);
    is_in_place_ = case_.is_in_place && sends() && receives();
    if (!is_in_place_) {
      if (sends()) send_ = upload(input_, sent);
      if (receives()) recv_ = room(received);
      return;
    }
    const auto count = static_cast<int64_t>(std::min(sent, received));
    const auto own = static_cast<int64_t>(Case::first_of(
        sent > received ? case_.send_counts(rank_) : case_.recv_counts(rank_), rank_));
    if (sent == received) {
      send_ = recv_ = upload(input_, sent);
    } else if (sent > received) {
      send_ = upload(input_, sent);
      recv_ = send_->view({count}, {1}, own);
    } else {
      Bytes all(received * case_.format->bytes, std::byte{0x5a});
      std::copy(input_.begin(), input_.end(),
                all.begin() + own * static_cast<int64_t>(case_.format->bytes));
      recv_ = upload(all, received);
      send_ = recv_->view({count}, {1}, own);
    }
  }

  Result<Ref<Work>> enqueue() {
    std::vector<Call> calls = {
        {.kind = case_.kind, .reduction = case_.reduction, .root = case_.operation(rank_).root}};
    if (case_.kind == Kind::kSend) {
      calls[0].send = send_;
      calls.push_back(
          {.kind = Kind::kRecv, .root = case_.recv_operation(rank_).root, .recv = recv_});
    } else {
      calls[0].send = send_;
      calls[0].recv = recv_;
    }
    if (case_.has_counts) calls[0].counts = case_.recv_counts(rank_);
    if (case_.has_counts && case_.kind == Kind::kAllToAll) {
      calls[0].send_counts = case_.send_counts(rank_);
    }
    // Both ways to wait.
    return group_.enqueue(calls, {.waits = (case_.number + rank_) % 2 == 0});
  }

  std::string problem_of_refusal(const Status& status, Limit limit) const {
    const std::string words = status.to_string();
    const bp_status code = limit == Limit::kNoKernel ? BP_UNSUPPORTED : BP_INVALID_ARGUMENT;
    const auto names = [&](std::string_view name) { return words.find(name) != std::string::npos; };
    const std::string_view kind = kind_info(case_.kind).name;
    // Where buffers lie has nothing to do with the dtype.
    const bool names_dtype = limit == Limit::kNoSuchPlace || names(case_.format->name);
    if (status.code() == code && names(kind) && names_dtype) return "";
    return std::string("expected ") +
           (code == BP_UNSUPPORTED ? "UNSUPPORTED" : "INVALID_ARGUMENT") + " that names " +
           std::string(kind) + " and " + std::string(case_.format->name) + ", found " + words;
  }

  void judge_results(RankVerdict* verdict) {
    if (!recv_ && !send_) return;
    Bytes output;
    if (receives()) {
      output = download(recv_);
      verdict->digest = digest(output);
      verdict->problem = judge(case_, rank_, output.data());
    }
    if (verdict->problem.empty() && sends() && !is_in_place_ && download(send_) != input_) {
      verdict->problem = "what it sends was written";
    }
    if (args_.folder.empty() || !is_kept(case_) || keeper_of(case_, rank_) != rank_) return;
    keep(output);
  }
  void keep(const Bytes& bytes) {
    const std::string name = std::to_string(case_.number) + "." + std::to_string(rank_) + ".out";
    std::ofstream file(args_.folder + "/" + name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + args_.folder + "/" + name);
  }

  /// A right result does not tell who made it.
  std::string problem_of_way(uint64_t found) const {
    const uint64_t expected = native_operations(case_, args_.way);
    if (found == expected) return "";
    return "expected " + std::to_string(expected) + " native operations, found " +
           std::to_string(found);
  }
  void add_traffic(const Operation& operation, bool is_in_place, std::string_view algorithm,
                   Traffic* traffic) const {
    BuildArgs args{.operation = operation, .place = group_.place(), .is_in_place = is_in_place};
    std::vector<uint32_t> hosts;
    for (uint32_t i = 0; i < case_.rank_count; ++i) hosts.push_back(case_.host_of(i));
    if (case_.host_count > 1) args.hosts = hosts;
    const BlockLayout received = *BlockLayout::packed(case_.recv_counts(rank_));
    const BlockLayout sent = *BlockLayout::packed(case_.send_counts(rank_));
    if (case_.has_counts) args.blocks = &received;
    if (case_.has_counts && case_.kind == Kind::kAllToAll) {
      args.send_blocks = &sent;
      args.sends_empty_blocks = true;
    }
    const auto schedule = build(algorithm, args);
    if (!schedule.ok()) throw std::runtime_error(schedule.status().to_string());
    const uint64_t bytes = case_.format != nullptr ? case_.format->bytes : 1;
    for (const Step& step : schedule->steps) {
      if (step.kind == StepKind::kSend) {
        ++traffic->sent_messages;
        traffic->sent_bytes += step.from.count * bytes;
      } else if (step.kind == StepKind::kRecv) {
        ++traffic->received_messages;
        traffic->received_bytes += step.to.count * bytes;
      }
    }
  }
  std::string problem_of_traffic(const Traffic& found, Limit limit) const {
    const Operation operation = case_.operation(rank_);
    std::string_view algorithm = case_.algorithm;
    if (limit == Limit::kNoSuchGroup) {
      algorithm = choose({.operation = operation, .rank_count = case_.rank_count}, kWithinHost,
                         AlgorithmRules())
                      .algorithm->name;
    }
    Traffic expected;
    const bool has_elements = case_.sent_elements(rank_) > 0 && case_.received_elements(rank_) > 0;
    add_traffic(operation, is_in_place_ && has_elements, algorithm, &expected);
    if (case_.kind == Kind::kSend) {
      add_traffic(case_.recv_operation(rank_), false, "direct", &expected);
    }
    if (found == expected) return "";
    return "expected " + expected.words() + " by " + std::string(algorithm) + ", found " +
           found.words();
  }

  const RankRunArgs& args_;
  ProcessGroup& group_;
  const Case& case_;
  const uint32_t rank_;
  bool is_in_place_ = false;  // on this rank
  Bytes input_;
  Ref<Tensor> send_;
  Ref<Tensor> recv_;
};

}  // namespace

void write(const std::vector<RankVerdict>& verdicts, std::ostream& out) {
  for (const RankVerdict& verdict : verdicts) {
    out << verdict.number << ' ' << verdict.digest << ' ' << verdict.is_refused << ' '
        << verdict.problem << '\n';
  }
}

std::vector<RankVerdict> read_verdicts(std::istream& in) {
  std::vector<RankVerdict> verdicts;
  RankVerdict verdict;
  while (in >> verdict.number >> verdict.digest >> verdict.is_refused && in.get() == ' ' &&
         std::getline(in, verdict.problem)) {
    verdicts.push_back(verdict);
  }
  return verdicts;
}

std::vector<RankVerdict> run_cases(const RankRunArgs& args, const std::vector<Case>& cases) {
  std::vector<RankVerdict> verdicts;
  for (const Case& c : cases) {
    RankVerdict verdict{.number = c.number};
    try {
      verdict = OneCase(args, c).run();
    } catch (const std::exception& error) {
      verdict.problem = error.what();
    }
    std::replace(verdict.problem.begin(), verdict.problem.end(), '\n', ' ');
    verdicts.push_back(verdict);
    if (!args.group->failure().ok()) break;
  }
  return verdicts;
}

}  // namespace bp::ccl::cases
