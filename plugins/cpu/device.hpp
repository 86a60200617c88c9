// SPDX-License-Identifier: Apache-2.0
//
// What one instance and one open device hold. The ABI knows both as opaque pointers, so that these
// definitions are the plugin's own; there is no other state, so that several instances can live.
#ifndef BACKPLANE_PLUGINS_CPU_DEVICE_HPP
#define BACKPLANE_PLUGINS_CPU_DEVICE_HPP

#include <memory>
#include <string>
#include <vector>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "parallel.hpp"

struct dnnl_engine;

namespace bp::cpu {

struct DnnlEngineDelete {
  void operator()(dnnl_engine* engine) const;
};
using DnnlEngine = std::unique_ptr<dnnl_engine, DnnlEngineDelete>;

}  // namespace bp::cpu

struct bp_instance {
  bp::sdk::Host services;

  const bp::sdk::Host& host() const { return services; }
};

struct bp_device {
  bp_device(const bp::sdk::Host& instance_host, int thread_count)
      : services(instance_host), workers(thread_count) {}

  const bp::sdk::Host& host() const { return services; }
  const std::vector<const bp_kernel*>& kernels() const { return kernel_pointers; }

  const bp::sdk::Host services;
  const std::vector<const bp_kernel*> kernel_pointers = bp::sdk::all_kernels();
  bp::cpu::Workers workers;
  bp::cpu::MemoryBook memory;
  bp::cpu::Machine machine;
  bp::cpu::DnnlEngine engine;
  std::string driver;  // library and version
};

#endif
