// SPDX-License-Identifier: Apache-2.0
//
// Sizes that a model claims and nothing backs: beside a 0 a dimension may be of any size, and so
// may attributes. Every operator in thousands of such calls, by session and by eager call: each is
// answered with a result or in words, within seconds, in little memory, and without undefined
// behaviour where the sanitizers watch.
#include <sys/resource.h>

#include <chrono>
#include <map>
#include <random>

#include "sdk/conform/kernels/trial.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using Clock = std::chrono::steady_clock;
using conform::Setting;
using conform::Shot;

// Under a sanitizer a call takes four times as long.
#ifdef __SANITIZE_ADDRESS__
constexpr int kCallsPerOperator = 50;
constexpr int kCallsPerList = 200;  // attributes that are lists: windows, axes, orders
#else
constexpr int kCallsPerOperator = 150;
constexpr int kCallsPerList = 600;
#endif
constexpr uint64_t kDeviceLimitBytes = 4 << 20;
constexpr int64_t kMostGiven = 1 << 16;  // elements of an input that is really made
constexpr int64_t kMostRead = 1 << 22;   // elements of a result that is read
constexpr int64_t kPeakLimitKib = 512 << 10;
constexpr auto kLongest = std::chrono::seconds(20);  // of one call, on a slow and shared machine
// Windows take no more than INT32_MAX.
constexpr int64_t kValues[] = {-1,        0,         3,         INT32_MAX,       INT32_MAX,
                               INT32_MAX, INT32_MAX, INT32_MAX, int64_t{1} << 62};
constexpr int64_t kSizes[] = {0,
                              1,
                              2,
                              3,
                              5,
                              1 << 16,
                              1 << 28,
                              INT32_MAX,
                              int64_t{1} << 33,
                              int64_t{1} << 40,
                              int64_t{1} << 62};

int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// A call as a graph would have it: types alone, and values of host arguments.
struct WildCall {
  std::vector<TensorType> inputs;  // dtype NONE: absent
  std::vector<OracleTensor> host;  // as many; dtype NONE: not on the host
  Attributes attributes;
};

/// Takes calls that are right and changes sizes in them: equal ones to equal ones, so that most
/// still fit together.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  WildCall next(const OpSchema& schema) {
    const auto shots = conform::all_shots(*conform::find_recipe(schema.name));
    const auto choices = conform::dtype_choices(schema);
    const Shot& shot = *shots[pick(shots.size())];
    const conform::DtypeChoice& dtypes = choices[pick(choices.size())];
    const std::map<int64_t, int64_t> renaming = draw_renaming(shot);
    changes_left_ = pick(3);
    WildCall call;
    auto host_value = shot.host_values.begin();
    for (size_t i = 0; i < shot.inputs.size(); ++i) {
      TensorType& type = call.inputs.emplace_back();
      OracleTensor& host = call.host.emplace_back();
      if (!shot.inputs[i]) continue;
      const ArgSchema& argument = schema.input(i);
      type = {conform::dtype_of(schema, argument, dtypes), true, *shot.inputs[i]};
      if (argument.host != HostNeed::kNone) {
        if (is_float_dtype(type.dtype)) {
          host = OracleTensor::from_f64(type.dtype, type.sizes, changed(shot.host_reals));
          continue;
        }
        const auto next = host_value + element_count({type.sizes.data(), type.sizes.size()});
        host = OracleTensor::from_i64(type.dtype, type.sizes,
                                      changed(std::vector<int64_t>(host_value, next)));
        host_value = next;
        continue;
      }
      for (int64_t& size : type.sizes) {
        const auto other = renaming.find(size);
        size = chance(3) ? any_size() : other != renaming.end() ? other->second : size;
      }
    }
    call.attributes = draw_attributes(schema, shot, dtypes);
    return call;
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  bool chance(int percent) { return pick(100) < static_cast<size_t>(percent); }
  int64_t any_size() { return kSizes[pick(std::size(kSizes))]; }
  /// Which size becomes which: mostly one 0 and one that is huge, since the product of those above
  /// 0 has a limit.
  std::map<int64_t, int64_t> draw_renaming(const Shot& shot) {
    std::vector<int64_t> all;
    for (const auto& sizes : shot.inputs) {
      if (sizes) all.insert(all.end(), sizes->begin(), sizes->end());
    }
    std::map<int64_t, int64_t> renaming;
    if (all.empty()) return renaming;
    for (size_t i = pick(3); i > 0; --i) renaming[all[pick(all.size())]] = any_size();
    if (chance(70)) renaming[all[pick(all.size())]] = 0;
    return renaming;
  }
  int64_t changed(int64_t value) {
    if (changes_left_ == 0 || !chance(30)) return value;
    --changes_left_;
    return kValues[pick(std::size(kValues))];
  }
  std::vector<int64_t> changed(std::vector<int64_t> values) {
    for (int64_t& value : values) value = changed(value);
    return values;
  }

  std::vector<double> changed(std::vector<double> values) {
    for (double& value : values) {
      if (changes_left_ == 0 || !chance(30)) continue;
      --changes_left_;
      value = static_cast<double>(kValues[pick(std::size(kValues))]) / 3;
    }
    return values;
  }

  Attributes draw_attributes(const OpSchema& schema, const Shot& shot,
                             const conform::DtypeChoice& dtypes) {
    Attributes result(schema);
    for (const AttrField& field : schema.attrs) {
      if (field.type == AttrType::kDtype) {
        EXPECT_TRUE(result.set_i64(field.name, dtypes.named).ok());
      } else if (field.type == AttrType::kI64 && chance(10)) {
        EXPECT_TRUE(result.set_i64(field.name, any_size()).ok());
      } else if (field.type == AttrType::kI64s && !field.required && chance(15)) {
        const std::vector<int64_t> list(pick(5), 1);
        EXPECT_TRUE(result.set_i64s(field.name, changed(list)).ok());
      }
    }
    for (const Setting& setting : shot.attributes) {
      if (const auto* number = std::get_if<int64_t>(&setting.value)) {
        EXPECT_TRUE(result.set_i64(setting.name, *number).ok());
      } else if (const auto* real = std::get_if<double>(&setting.value)) {
        EXPECT_TRUE(result.set_f64(setting.name, *real).ok());
      } else if (const auto* text = std::get_if<std::string_view>(&setting.value)) {
        EXPECT_TRUE(result.set_str(setting.name, *text).ok());
      } else {
        const auto& list = std::get<std::vector<int64_t>>(setting.value);
        EXPECT_TRUE(result.set_i64s(setting.name, changed(list)).ok());
      }
    }
    return result;
  }

  std::mt19937 random_;
  size_t changes_left_ = 0;  // of the attributes of a call: with more few calls would be right
};

class HugeSizesTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (runtime_ == nullptr) return;
    for (const Ref<Device>& device : runtime_->devices()) {
      device->allocator().set_limit_bytes(kDeviceLimitBytes);
    }
  }

  std::string words(const OpSchema& schema, const WildCall& call) const {
    std::string text(schema.name);
    for (const TensorType& type : call.inputs) text += " " + to_string(type.sizes);
    return text + " with " + call.attributes.to_string();
  }

  /// The inputs that a call has, those of few elements only; empty: one has too many.
  std::vector<Ref<Tensor>> make_inputs(const WildCall& call) {
    std::vector<Ref<Tensor>> made;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const TensorType& type = call.inputs[i];
      if (type.dtype == BP_DTYPE_NONE) {
        made.push_back(nullptr);
        continue;
      }
      const auto count = checked_element_count({type.sizes.data(), type.sizes.size()});
      if (!count || *count > kMostGiven) return {};
      const bool on_host = call.host[i].dtype != BP_DTYPE_NONE;
      made.push_back(upload(on_host ? call.host[i] : OracleTensor::zeros(type.dtype, type.sizes)));
    }
    return made;
  }

  Status run_session(const OpSchema& schema, const WildCall& call,
                     const std::vector<Ref<Tensor>>& given) {
    Graph graph(runtime_->registry());
    std::vector<ValueId> values;
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const std::string name = "x" + std::to_string(i);
      if (call.inputs[i].dtype == BP_DTYPE_NONE) {
        values.push_back(kNoValue);
        continue;
      }
      BP_TRY_ASSIGN(const ValueId value, graph.add_input(name, call.inputs[i]));
      values.push_back(value);
      if (!given.empty()) named.emplace_back(name, given[i]);
    }
    BP_TRY_ASSIGN(const ValueId y, graph.op(schema.name, values, call.attributes));
    BP_TRY(graph.set_outputs({y}, {"y"}));
    SessionArgs args;
    args.device = device_;
    BP_TRY_ASSIGN(const Ref<Session> session, Session::create(*runtime_, std::move(graph), args));
    if (given.empty()) return {BP_OUT_OF_MEMORY, "an input that nobody can make"};
    BP_TRY_ASSIGN(const std::vector<Ref<Tensor>> outputs, session->run(named));
    return read(outputs.front());
  }

  Status run_eager(const OpSchema& schema, const WildCall& call,
                   const std::vector<Ref<Tensor>>& given) {
    BP_TRY_ASSIGN(const Ref<Tensor> y, try_call(schema.name, given, call.attributes));
    return read(y);
  }

  /// A view stands for any number of elements in memory that holds one; to copy them all takes the
  /// time that they take.
  Status read(const Ref<Tensor>& y) {
    if (y->element_count() > kMostRead) return {};
    return copy_to_host(y).status();
  }

  void expect_answer(const Status& status, Clock::time_point since, const std::string& what) {
    EXPECT_LT(Clock::now() - since, kLongest) << what;
    if (status.ok()) return;
    EXPECT_NE(status.code(), BP_INTERNAL) << what << ": " << status.to_string();
    EXPECT_GE(status.message().size(), 10u) << what << ": " << status.to_string();
  }
};

TEST_P(HugeSizesTest, EveryOperator_WildSizes_AreAnswered) {
  const int64_t peak_before = peak_kib();
  Generator generator(20);
  for (const OpSchema& schema : all_schemas()) {
    if (schema.constant || schema.of_types) continue;
    // What a device keeps for each operator, such as compiled programs, is no answer to a size.
    runtime_ = nullptr;
    ASSERT_NO_FATAL_FAILURE(SetUp());
    const auto is_list = [](const AttrField& field) { return field.type == AttrType::kI64s; };
    const auto lists = std::count_if(schema.attrs.begin(), schema.attrs.end(), is_list);
    const int calls = kCallsPerOperator + static_cast<int>(lists) * kCallsPerList;
    int answered = 0;
    for (int i = 0; i < calls; ++i) {
      const WildCall call = generator.next(schema);
      const std::string what = words(schema, call);
      SCOPED_TRACE(what);
      const std::vector<Ref<Tensor>> given = make_inputs(call);
      Clock::time_point since = Clock::now();
      const Status session = run_session(schema, call, given);
      expect_answer(session, since, "session: " + what);
      if (given.empty()) continue;
      since = Clock::now();
      const Status eager = run_eager(schema, call, given);
      expect_answer(eager, since, "eager: " + what);
      answered += session.ok() && eager.ok() ? 1 : 0;
    }
    EXPECT_GE(answered, calls / 10) << schema.name << ": calls that had a result";
  }
  EXPECT_LT(peak_kib() - peak_before, kPeakLimitKib);
}

INSTANTIATE_TEST_SUITE_P(Devices, HugeSizesTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
