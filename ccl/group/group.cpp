// SPDX-License-Identifier: Apache-2.0
//
// How a group begins and ends. Its calls are in group_enqueue.cpp, what it does while it is driven
// in group_watch.cpp.
#include "ccl/group/group.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <thread>

#include "ccl/engine/library_engine.hpp"
#include "ccl/engine/proven_engine.hpp"
#include "ccl/group/introduction.hpp"
#include "ccl/group/network_interface.hpp"
#include "ccl/watch/dump.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

constexpr uint32_t kMostRanks = 65536;

Status check_args(const GroupArgs& args) {
  const auto refuse = [](const std::string& what) {
    return Status(BP_INVALID_ARGUMENT, "a group: " + what);
  };
  if (args.store == nullptr) return refuse("store is missing");
  if (args.device == nullptr) return refuse("device is missing");
  if (args.name.empty() || args.name.size() > kMostNameBytes) {
    return refuse("expected a name of 1 to " + std::to_string(kMostNameBytes) + " bytes, found " +
                  std::to_string(args.name.size()));
  }
  if (args.place.rank_count == 0 || args.place.rank_count > kMostRanks) {
    return refuse("expected 1 to " + std::to_string(kMostRanks) + " ranks, found " +
                  std::to_string(args.place.rank_count));
  }
  if (args.place.rank >= args.place.rank_count) {
    return refuse("expected a rank from 0 to " + std::to_string(args.place.rank_count - 1) +
                  ", found " + std::to_string(args.place.rank));
  }
  return args.device->check_open();
}

/// Of a store that only this user's processes reach: a token for this group alone.
Status leave_token(Store& store) {
  BP_TRY_ASSIGN(const auto token, Token::make());
  std::string text = token->text();
  const Status left = store.set("token", text);
  wipe(&text);
  return left;
}

Result<std::shared_ptr<const Token>> token_of(Store& store, Clock::time_point deadline) {
  if (auto token = store.token()) return token;
  BP_TRY_ASSIGN(std::string text, store.get("token", deadline));
  auto token = Token::from_text(text, "the group's token in store " + store.name());
  wipe(&text);
  return token;
}

/// Early: that a failure leaves no trace is better told before it.
Status check_trace_folder(const Runtime& runtime) {
  const std::string& folder = runtime.options().text("BACKPLANE_CCL_TRACE");
  if (folder.empty()) return {};
  return check_dump_folder(folder).with_prefix("BACKPLANE_CCL_TRACE");
}

// Options were checked when they were set.
uint64_t chunk_bytes_of(const Runtime& runtime) {
  const std::string& text = runtime.options().text("BACKPLANE_CCL_CHUNK");
  uint64_t bytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), bytes);
  return bytes;
}

/// Those that some kind is summed in and not averaged.
uint64_t dtypes_without_average(const std::vector<CollectiveRow>& rows) {
  uint64_t dtypes = 0;
  for (const CollectiveRow& row : rows) {
    if ((row.reductions & BP_REDUCTION_BIT(BP_REDUCTION_SUM)) == 0) continue;
    uint64_t missing = row.dtypes & reduced_dtypes(Reduction::kAvg);
    for (const CollectiveRow& other : rows) {
      const bool averages = (other.reductions & BP_REDUCTION_BIT(BP_REDUCTION_AVG)) != 0;
      if (averages && other.kind == row.kind) missing &= ~other.dtypes;
    }
    dtypes |= missing;
  }
  return dtypes;
}

}  // namespace

std::chrono::nanoseconds default_timeout(const Runtime& runtime) {
  const std::string& text = runtime.options().text("BACKPLANE_CCL_TIMEOUT");
  if (text.empty()) {
    const std::chrono::nanoseconds longest = runtime.wait_timeout();
    return std::max<std::chrono::nanoseconds>(longest - kVerdictComesWithin, longest / 2);
  }
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(seconds);
}

Status check_timeout(const Runtime& runtime, std::chrono::nanoseconds timeout) {
  const auto refuse = [](const char* what) {
    return Status(BP_INVALID_ARGUMENT, "a group: its timeout is " + std::string(what));
  };
  if (timeout.count() < 0) return refuse("negative");
  // Who waits for a stream waits for what holds it: that must end first.
  if (timeout > runtime.wait_timeout()) {
    return refuse(
        "longer than BACKPLANE_TIMEOUT, so that waits for its results would end before it: raise "
        "that, too");
  }
  return {};
}

ProcessGroup::ProcessGroup(const GroupArgs& args)
    : args_(args),
      runtime_(&args.device->runtime()),
      job_ranks_(args.descent.job_ranks),
      latest_epoch_(args.descent.epoch) {
  if (!job_ranks_.empty()) return;
  job_ranks_.resize(args.place.rank_count);
  std::iota(job_ranks_.begin(), job_ranks_.end(), 0u);
}

Result<Ref<ProcessGroup>> ProcessGroup::create(const GroupArgs& args) {
  BP_TRY(check_not_forked());
  BP_TRY(check_args(args));
  auto group = Ref<ProcessGroup>::make(args);
  Runtime& runtime = *group->runtime_;
  if (args.timeout.count() == 0) {
    group->args_.timeout = default_timeout(runtime);
    group->args_.timeout_set_by = kSetByOption;
  }
  BP_TRY(check_timeout(runtime, group->args_.timeout));
  const Status joined = contain([&] { return group->join(); });
  if (joined.ok()) return group;
  group->give_up_joining(joined);
  return joined.with_prefix("group " + group->words());
}

std::shared_ptr<Store> ProcessGroup::make_joining_store() const {
  const std::string& path = args_.descent.path;
  return make_prefix_store(path.empty() ? "ccl/" + args_.name + "/" : path, args_.store);
}

/// The others would wait until their deadline. What fails in a stage of its own is told there.
void ProcessGroup::give_up_joining(const Status& joined) noexcept {
  if (args_.place.rank_count == 1) return;
  if (joined.code() != BP_CANCELLED && joined.code() != BP_OUT_OF_MEMORY) return;
  [[maybe_unused]] const Status told = contain([&] {
    Status why = joined;
    {
      const std::lock_guard lock(state_mutex_);
      if (requested_) why = requested_->to_status();
    }
    // That of joining may have been aborted.
    tell_given_up(make_joining_store(), args_.place, why);
  });
}

Status ProcessGroup::join() {
  const JoinWait wait = {"group " + words(),
                         args_.join_deadline.value_or(Clock::now() + args_.timeout),
                         {.set_by = args_.timeout_set_by}};
  const auto store = make_joining_store();
  joining_ = store;
  descendants_ = make_prefix_store(kDescentPrefix, args_.store);
  Status can_tell = open_status();
  if (can_tell.ok()) can_tell = check_trace_folder(*runtime_);
  if (!can_tell.ok()) return refuse_to_join(*store, args_.place.rank, can_tell);
  BP_TRY(runtime_->add_close_listener(this));
  is_listening_ = true;
  BP_TRY(connect(*store, wait));
  if (!agreement_.islands.empty()) BP_TRY(join_natively(*store, wait));
  BP_TRY(meet(*store, "ready", {}, args_.place, wait));
  if (args_.place.rank == 0) {
    log(BP_LOG_INFO,
        introduce({.group = words(),
                   .agreement = agreement_,
                   .engine = messenger_->engine_name(),
                   .interface_name = runtime_->options().text("BACKPLANE_CCL_INTERFACE"),
                   .timeout = args_.timeout}));
  }
  if (status_server_ != nullptr) status_server_->add(this);
  return {};
}

Result<RankCard> ProcessGroup::make_card() {
  RankCard card;
  card.engine = runtime_->options().text("BACKPLANE_CCL_ENGINE");
  card.join = new_join();
  card.device = device().name();
  card.process = process_identity();
  BP_TRY_ASSIGN(card.host, host_identity());
  card.has_host_memory = device().has_host_memory();
  card.chunk_bytes = chunk_bytes_of(*runtime_);
  card.checks = runtime_->options().flag("BACKPLANE_CCL_CHECK") ? 1 : 0;
  card.algorithms = runtime_->options().text("BACKPLANE_CCL_ALGORITHM");
  // Rank 0's count; a wrong one is an error of the rank that has it.
  const auto rules = AlgorithmRules::parse(card.algorithms);
  if (!rules.ok()) return rules.status().with_prefix("BACKPLANE_CCL_ALGORITHM");
  BP_TRY_ASSIGN(const CollectiveCaps* const caps, collective_caps_of(device()));
  if (caps != nullptr) {
    card.domain = caps->domain;
    card.caps_flags = caps->flags;
    card.rank_count_max = caps->rank_count_max;
    card.uid_bytes = caps->uid_bytes;
    card.rows = caps->rows;
    card.divided_dtypes = divided_dtypes(device(), dtypes_without_average(caps->rows));
    is_concurrent_ = (caps->flags & BP_CAPS_CONCURRENT_BIT) != 0;
  }
  return card;
}

Status ProcessGroup::connect(Store& store, const JoinWait& wait) {
  const auto card = make_card();
  if (!card.ok()) return refuse_to_join(store, args_.place.rank, card.status());
  if (args_.place.rank == 0 && store.token() == nullptr) BP_TRY(leave_token(store));
  BP_TRY_ASSIGN(agreement_, exchange_cards(store, words(), *card, args_.place, wait));
  BP_TRY_ASSIGN(rules_, AlgorithmRules::parse(agreement_.cards[0].algorithms));
  hosts_ = hosts_of(agreement_.cards);
  island_ = agreement_.island_of(args_.place.rank);
  if (island_ != nullptr) native_rows_.rows = island_->rows;
  const Status opened = open_messenger(store, wait.deadline);
  BP_TRY(meet(store, "engine", opened, args_.place, wait));
  const Status connected = connect_ranks(store, wait.deadline);
  BP_TRY(meet(store, "connected", connected, args_.place, wait));
  std::vector<uint32_t> peers(args_.place.rank_count);
  std::iota(peers.begin(), peers.end(), 0u);
  lanes_ = std::make_unique<Lanes>(
      Lanes::Args{*messenger_, recorder_, args_.place, peers, agreement_.names});
  control_ = std::make_unique<Control>(*messenger_, agreement_.group, peers);
  BP_TRY(messenger_->add(agreement_.group, this));
  is_in_messenger_ = true;
  return {};
}

/// All ranks conclude the same, and come to errors of that together.
Result<std::unique_ptr<Engine>> ProcessGroup::make_engine(Store& store, const EngineChoice& choice,
                                                          Clock::time_point deadline) {
  const std::string& interface_name = runtime_->options().text("BACKPLANE_CCL_INTERFACE");
  if (choice.name == "loop") {  // it needs none, and none that is named is ignored
    if (!interface_name.empty()) BP_TRY(check_interface_is_there(interface_name));
    return make_loop_engine();
  }
  LibraryEngineArgs args;
  args.name = choice.name;
  for (const SearchedFolder& folder : runtime_->plugins().searched) {
    args.search_path.push_back(folder.path);
  }
  args.interface_name = interface_name;
  args.uses_shared_memory = choice.is_within_hosts;
  if (choice.spans_hosts && args.interface_name.empty()) {
    return Status(BP_INVALID_ARGUMENT,
                  "the group's ranks are on several hosts, or in containers that share no memory: "
                  "expected the network interface between them (BACKPLANE_CCL_INTERFACE)");
  }
  BP_TRY_ASSIGN(auto token, token_of(store, deadline));
  BP_TRY_ASSIGN(auto engine, make_library_engine(args));
  if (choice.spans_hosts) BP_TRY(check_interface_runs(interface_name));
  return make_proven_engine(std::move(engine), {.token = std::move(token),
                                                .job = "group " + std::to_string(agreement_.group),
                                                .own_rank = args_.place.rank});
}

Status ProcessGroup::open_messenger(Store& store, Clock::time_point deadline) {
  BP_TRY_ASSIGN(const EngineChoice choice, choose_engine(agreement_.cards));
  BP_TRY_ASSIGN(auto engine, make_engine(store, choice, deadline));
  BP_TRY_ASSIGN(auto messenger, Messenger::create(std::move(engine)));
  BP_TRY(store.set(key_of("address", args_.place.rank), messenger->address()));
  const std::lock_guard lock(state_mutex_);
  messenger_ = std::move(messenger);
  return {};
}

Status ProcessGroup::connect_ranks(Store& store, Clock::time_point deadline) {
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    BP_TRY_ASSIGN(const std::string address, store.get(key_of("address", rank), deadline));
    const Status connected = messenger_->connect(rank, address);  // to itself, too
    if (!connected.ok()) return connected.with_prefix(agreement_.names[rank]);
  }
  return {};
}

/// The first rank of an island makes its id. All ranks meet, for a group needs each of its islands.
Status ProcessGroup::join_natively(Store& store, const JoinWait& wait) {
  Status made;
  const std::string key = island_ != nullptr ? key_of("uid", island_->ranks[0]) : std::string();
  if (island_ != nullptr && island_->ranks[0] == args_.place.rank) {
    BP_TRY_ASSIGN(const CollectiveCaps* const caps, collective_caps_of(device()));
    const auto created = create_uid(device(), *caps);
    made = created.ok() ? store.set(key, *created) : created.status();
  }
  BP_TRY(meet(store, "uid-made", made, args_.place, wait));
  const Status begun =
      island_ != nullptr ? begin_communicator(store, key, wait.deadline) : Status();
  BP_TRY(meet(store, "native-begun", begun, args_.place, wait));
  const Status ready = communicator_ != nullptr ? wait_until_ready(wait) : Status();
  return meet(store, "native-ready", ready, args_.place, wait);
}

Status ProcessGroup::begin_communicator(Store& store, const std::string& key,
                                        Clock::time_point deadline) {
  const auto& ranks = island_->ranks;
  const auto own = std::find(ranks.begin(), ranks.end(), args_.place.rank);
  Communicator::Args args;
  args.timeout = args_.timeout;
  args.name = args_.name;
  args.place = {static_cast<uint32_t>(own - ranks.begin()), static_cast<uint32_t>(ranks.size())};
  BP_TRY_ASSIGN(args.uid, store.get(key, deadline));
  BP_TRY_ASSIGN(communicator_, Communicator::make(device(), args));
  return {};
}

Status ProcessGroup::wait_until_ready(const JoinWait& wait) {
  ToldWait told(wait.deadline, wait.telling, [&] {
    return wait.what + ": " + agreement_.names[args_.place.rank] +
           " waits for its device's collectives to be ready";
  });
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    BP_TRY_ASSIGN(const Communicator::State state, communicator_->poll());
    if (state.state == BP_COMM_READY) return {};
    if (state.state == BP_COMM_FAILED) return state.failure;
    if (has_failed_.load()) return failure().to_status();
    told.look();
    if (Clock::now() >= wait.deadline) {
      return Status(BP_TIMEOUT, device().name() + ": its collectives were not ready in time");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
}

ProcessGroup::~ProcessGroup() {
  if (status_server_ != nullptr) status_server_->remove(this);
  if (is_listening_) runtime_->remove_close_listener(this);
  if (is_in_messenger_) {
    finish();
    messenger_->run_exclusively([this] { control_->end(); });
    messenger_->remove(agreement_.group);
  }
  const RuntimeUse use(*runtime_);
  for (Stream* const stream : {own_stream_, copy_stream_}) {
    if (use.granted() && stream != nullptr) device().release_stream(stream);
  }
}

void ProcessGroup::finish() {
  const auto is_idle = [this] {
    return lanes_->is_idle() && open_tasks_.load(std::memory_order_acquire) == 0;
  };
  const auto wait = [&] {
    return messenger_->drive_until(is_idle, Clock::now() + patience(*runtime_, timeout()));
  };
  if (wait()) return;
  // What has not begun has no deadline: work before it, in its stream, has not ended.
  request_failure(tell_or_few(BP_CANCELLED, "was released", [this](Failure& failure) {
    failure.words = "the group " + args_.name + " was released on rank " +
                    std::to_string(args_.place.rank) + " before its operations began";
  }));
  if (wait()) return;
  messenger_->run_exclusively([this] {
    for (const Ref<Work>& work : copies_) work->keep_for_ever();
  });
}

GroupInfo ProcessGroup::info() const {
  GroupInfo info;
  info.name = args_.name;
  info.id = agreement_.group;
  info.epoch = epoch();
  info.place = args_.place;
  info.job_ranks = args_.descent.job_ranks;
  const Failure why = failure();
  info.error = {.code = why.code, .words = why.words, .culprits = why.culprits};
  return info;
}

std::string ProcessGroup::trace() const { return recorder_.to_json(info()); }

Failure ProcessGroup::failure() const {
  if (!is_failing()) return {};
  const std::lock_guard lock(state_mutex_);
  return failure_.ok() && requested_ ? *requested_ : failure_;  // it is going to
}

void ProcessGroup::abort(std::string_view words) noexcept {
  request_failure(tell_or_few(BP_CANCELLED, "was aborted", [&](Failure& failure) {
    failure.culprits = {args_.place.rank};
    failure.words = agreement_.names[args_.place.rank] + " has aborted the group " + args_.name +
                    (words.empty() ? "" : ": " + std::string(words));
  }));
  // Until the others are told, for this rank may leave at once.
  messenger_->drive_until([this] { return has_told_.load(); },
                          Clock::now() + std::chrono::seconds(1));
}

}  // namespace bp::ccl
