// SPDX-License-Identifier: Apache-2.0
//
// One rank's end over UCX's active messages.
//
// A message up to kEagerBytes is copied when it is sent; up to kInlineBytes it goes behind its
// header, for UCX has a shorter way for what is a header only. A longer one stays in the sender's
// memory until its receiver takes it: UCX copies it from process to process, or over the network.
// The receiver may then be reading what the sender has taken back meanwhile, and UCX does not tell
// it; so the receiver's transfer is over only when the sender's word has come, after the bytes,
// that the memory was lent until then (Kind::kSettled).
//
// Over a network two ends meet before anything else is sent: see end_meet.cpp.
//
// UCX gives up no transfer that has begun. cancel() therefore ends the whole connection, by force:
// then neither side's memory is used any more.
#ifndef BACKPLANE_CCL_ENGINE_UCX_END_HPP
#define BACKPLANE_CCL_ENGINE_UCX_END_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/engine/ucx/address.hpp"
#include "ccl/engine/ucx/slot_table.hpp"
#include "ccl/engine/ucx/watch.hpp"
#include "ccl/engine/ucx/worker.hpp"

namespace bp_ucx {

class End {
 public:
  /// Throws Refusal.
  explicit End(const bp_engine_args& args);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  // As bp_engine_api says. Failures of connect() are thrown as Refusal.
  const std::string& address() const { return address_; }
  void connect(uint32_t peer, std::string_view address);
  int32_t send(uint32_t peer, std::string_view header, const void* data, uint64_t bytes,
               void* transfer);
  int32_t receive(uint64_t token, void* into, void* transfer);
  void drop(uint64_t token);
  int32_t cancel(void* transfer);
  uint32_t state_of(uint32_t peer) const;
  bool has_unsent() const { return unsent_count_ > 0 || !settled_.empty(); }
  bool progress(const bp_engine_inbox& inbox);
  void wait(int64_t until_ns);
  void wake() noexcept { watch_.wake(); }

 private:
  enum class Kind : uint16_t {
    kMessage = 1,
    kSettled = 2,
    kFarewell = 3,
    kGreeting = 4,
    kMeeting = 5,
    kMet = 6,
    kHeard = 7  // of a farewell over a network
  };
  /// How far two ends have come that meet over a network; others have met from the start.
  enum class Stage { kApart, kGreeted, kJoining, kMet };
  /// What stands before the header of each message.
  struct Envelope {
    uint32_t mark = 0;
    Kind kind = Kind::kMessage;
    uint16_t inline_bytes = 0;  // of the message, behind its header
    EndId from{};
    uint64_t sequence = 0;  // of messages and farewells from one end to another; or what is settled
  };
  struct Peer;
  static constexpr uint32_t kMessageMark = 0x32435542;  // "BUC2"
  static constexpr unsigned kMessageId = 1;             // of UCX's handlers
  static constexpr uint64_t kInlineBytes = 256;
  static constexpr size_t kMostWhyBytes = 256;
  /// A few bytes, of which only those that are there are copied.
  template <size_t kMost>
  struct Text {
    Text() = default;
    explicit Text(std::string_view text) : size(static_cast<uint32_t>(text.size())) {
      std::copy(text.begin(), text.end(), bytes.begin());
    }
    Text(const Text& other) : Text(std::string_view(other.bytes.data(), other.size)) {}
    Text& operator=(const Text& other) {
      size = other.size;
      std::memcpy(bytes.data(), other.bytes.data(), other.size);
      return *this;
    }
    std::array<char, kMost> bytes;
    uint32_t size = 0;
  };
  /// What stands before a message, in words of the caller.
  using HeaderText = Text<BP_ENGINE_HEADER_BYTES_MAX>;
  /// One that has come and was neither received nor dropped.
  struct Message {
    EndId from{};
    Peer* peer = nullptr;  // once it is connected
    uint64_t sequence = 0;
    uint64_t bytes = 0;
    void* data = nullptr;  // UCX's; nullptr without bytes or inline, and once it was released
    bool is_lent = false;  // `data` stands for bytes that are still the sender's
    bool is_farewell = false;
    HeaderText header{};
    Text<kInlineBytes> inline_data{};
  };
  struct Sending;
  struct Peer {
    Peer(End& its_end, uint32_t its_number, const EndId& its_id)
        : end(its_end), number(its_number), id(its_id) {
      why.reserve(kMostWhyBytes);
    }
    End& end;
    const uint32_t number;
    const EndId id;
    int32_t process = 0;  // of this host; 0: of another one, or this process
    uint64_t start_time = 0;
    ucp_ep_h endpoint = nullptr;  // on which is sent; nullptr: closed
    ucp_ep_h other = nullptr;     // on which the peer sends, over a network; else none
    Stage stage = Stage::kMet;
    bool is_begun_here = false;     // the joining, by this end
    unsigned unjoined_count = 0;    // endpoints that UCX may be joining
    Sending* first_held = nullptr;  // a list of what waits until they have met
    Sending* last_held = nullptr;
    uint64_t next_sent = 1;
    uint64_t next_expected = 1;
    std::map<uint64_t, Message> ahead;  // of their sequence
    size_t unsent_count = 0;            // short messages that UCX has not sent
    bool is_owed_farewell = false;
    bool is_owed_answer = false;      // to its farewell
    bool has_heard_farewell = false;  // as it says
    bool is_broken = false;           // its connection, so that it cannot be told anything
    // Doomed: to be lost with the next progress, and nothing is sent any more.
    bool is_doomed = false;
    int64_t drains_until_ns = 0;  // before that what it sent is taken first
    int64_t parts_until_ns = 0;   // before that it is sent the last words
    int32_t status = BP_OK;       // as its loss is told
    std::string why;              // its memory is there from the start
    bool is_lost = false;
    /// UCX is not, and will not be, in the middle of joining its endpoints.
    bool may_close() const { return is_broken || (stage == Stage::kMet && unjoined_count == 0); }
  };
  /// A message that UCX has not sent to its end. Those that it has are used again.
  struct Sending {
    explicit Sending(End& its_end) : end(its_end) {}
    End& end;
    Peer* peer = nullptr;
    uint64_t sequence = 0;
    size_t head_bytes = 0;
    // Envelope, header, and inline bytes.
    std::array<char, sizeof(Envelope) + BP_ENGINE_HEADER_BYTES_MAX + kInlineBytes> head;
    std::vector<char> copied;  // all bytes of a short one that are not inline
    bool is_short = true;
    void* transfer = nullptr;  // of a long one, which lies in the caller's memory
    void* request = nullptr;   // UCX's
    bool is_meeting = false;
    bool is_done = false;
    ucs_status_t status = UCS_OK;
    const void* held_data = nullptr;  // while it is held
    uint64_t held_bytes = 0;
    Sending* next = nullptr;  // in a list of those that are done, or held
  };
  /// A long message on its way into the caller's memory.
  struct Receiving {
    Receiving(End& its_end, Peer& its_peer, uint64_t its_sequence, void* its_transfer)
        : end(its_end), peer(its_peer), sequence(its_sequence), transfer(its_transfer) {}
    End& end;
    Peer& peer;
    const uint64_t sequence;
    void* const transfer;
    void* request = nullptr;  // UCX's
    bool is_done = false;     // UCX does not use the memory any more
    ucs_status_t status = UCS_OK;
    bool has_left_ucx = false;  // ... and finish() knows
    bool is_settled = false;
    bool is_abandoned = false;  // nobody waits for it any more
    Receiving* next_done = nullptr;
  };
  struct Event {
    enum class Kind { kArrived, kLost, kEnded } kind;
    uint32_t peer = 0;
    uint64_t token = 0;  // of one that has arrived
    void* transfer = nullptr;
    int32_t status = BP_OK;
  };

  // Called by UCX while it is progressed, or in a call of it.
  static ucs_status_t on_message(void* end, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* param);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* sending);
  static void on_received(void* request, ucs_status_t status, size_t bytes, void* receiving);

  bool take(const Envelope& envelope, std::string_view rest, void* data, uint64_t bytes,
            bool is_lent);
  void note_greeter(const EndId& from);
  void note_dropped() noexcept;
  bool arrive(Peer& peer, Message& message);
  void accept(Peer& peer, Message& message);
  void accept_ahead(Peer& peer);
  void take_strays();
  void catch_up();
  void release(Message& message);
  Receiving& make_receiving(const Message& message, void* transfer);
  int32_t begin_receiving(const Message& message, void* into, void* transfer);
  void settle(Peer& peer, uint64_t sequence);

  Peer* find(uint32_t peer) const;
  void open_endpoints(Peer& peer, const Address& address);
  ucp_ep_h make_endpoint(Peer& peer, const std::string& worker);
  void greet(Peer& peer);
  Sending& make_sending(Peer& peer, Kind kind, uint64_t sequence, std::string_view header,
                        std::string_view inline_data = {});
  void reserve_sendings(size_t count);
  int32_t post(Sending& sending, const void* data, uint64_t bytes);
  int32_t post_on(ucp_ep_h endpoint, Sending& sending, const void* data, uint64_t bytes);
  void recycle(Sending& sending);
  void tell_settled();
  void note_done(Sending& sending);
  void note_done(Receiving& receiving);
  void finish(Sending& sending);
  void finish(Receiving& receiving);
  void finish_done();

  // end_meet.cpp
  void hear(Peer& peer, Kind kind) noexcept;
  void meet();
  void part(Peer& peer);
  void go_on_meeting(Peer& peer);
  void greet_from_afar(Peer& peer);
  void begin_joining(Peer& peer);
  int32_t hold(Sending& sending, const void* data, uint64_t bytes);
  Sending* take_held(Peer& peer);
  void post_held(Peer& peer);
  void drop_held(Peer& peer);
  bool is_joining() const;

  // end_loss.cpp
  bool drive();
  template <class Done>
  bool drive_until(int64_t until_ns, Done is_done);
  void look_for_deaths(bool ends_wake);
  void doom(Peer& peer, int32_t status, std::string_view why,
            std::string_view detail = {}) noexcept;
  void lose_all_for_memory();
  void lose_doomed(bool is_drained);
  void lose(Peer& peer);
  void close_endpoints(Peer& peer);
  void say_farewell(Peer& peer) noexcept;
  void hear_farewell(Peer& peer) noexcept;
  void answer_farewell(Peer& peer);
  bool has_parted(const Peer& peer) const;
  void free_requests();
  bool has_news() const;
  void deliver(const bp_engine_inbox& inbox, const Event& event);
  bool take_back_event(void* transfer, int32_t* out_status);
  void give_up(Peer& peer);
  bool await_end_of(void* transfer);
  void abandon(void* transfer);
  void flush();

  const bool uses_shared_memory_;
  Watch watch_;
  EndId id_{};
  std::string own_host_;
  std::string address_;
  std::map<uint32_t, std::unique_ptr<Peer>> peers_;
  std::map<EndId, Peer*> peer_by_id_;
  std::deque<Message> strays_;     // from ends that are not connected yet
  std::set<EndId> greeters_;       // of these, those that have greeted
  Peer* latest_sender_ = nullptr;  // one of peers_
  SlotTable<Message> arrived_;
  std::deque<Sending> sendings_;
  std::vector<Sending*> free_sendings_;       // of these, those that UCX does not have
  size_t spared_count_ = 0;                   // of the free ones, those that are kept for farewells
  size_t unsent_count_ = 0;                   // of the others, short ones
  std::unordered_map<void*, Sending*> lent_;  // long ones, by transfer
  std::unordered_map<void*, std::unique_ptr<Receiving>> receivings_;  // by transfer
  Sending* done_sendings_ = nullptr;                                  // lists of those to finish
  Receiving* done_receivings_ = nullptr;
  std::vector<std::unique_ptr<Receiving>> abandoned_;  // UCX may still name them
  std::vector<std::pair<Peer*, uint64_t>> settled_;    // to be told
  std::vector<void*> requests_;   // UCX's, of flushes and of endpoints that are being closed
  bool is_anyone_apart_ = false;  // that is connected over a network
  bool has_met_news_ = false;     // so that somebody's meeting goes on
  std::vector<Event> events_;
  std::vector<Event> delivered_;  // its memory is used again
  size_t doomed_count_ = 0;
  int64_t parted_ns_ = 0;  // how long peers were waited for in all, so that they take last words
  uint64_t dropped_count_ = 0;     // of nobody that is connected
  bool is_out_of_memory_ = false;  // so that a message was not taken
  bool is_behind_ = false;         // so that messages which are kept still wait to be accepted
  int64_t next_look_ns_ = 0;
  uint32_t drive_count_ = 0;
  /// Ends first: UCX ends what it has in progress then, and tells the above.
  Worker worker_;
};

}  // namespace bp_ucx

#endif
