// SPDX-License-Identifier: Apache-2.0
//
// top_k of BP_DTYPE, a sort where all are wanted. Values become unsigned keys in the wanted order,
// and entries of a key and a place: no two are equal, so every order of them is stable. Where fewer
// than all are wanted, a group for each lane finds the digits of the k-th best key from the highest
// on, by counting how many keys have each value of the next digit, and gathers what is better, and
// as many of its equals as are left. Blocks of entries are then sorted, each entry finding its rank
// among its block, and pairs of sorted runs merged until one is left.
//
// Build options: BP_LARGEST, 0 or 1, and BP_KEY_BITS.

// A NaN is larger than every number, and both zeros are one.
static inline ulong key_of(BP_VALUE(BP_DTYPE) value) {
#if defined(BP_IS_F64)
  if (value != value) return BP_LARGEST ? ULONG_MAX : 0;
  const ulong bits = as_ulong(value == 0 ? 0.0 : value);
  const ulong key = bits >> 63 != 0 ? ~bits : bits | 1UL << 63;
#elif defined(BP_IS_FLOAT)
  if (value != value) return BP_LARGEST ? UINT_MAX : 0;
  const uint bits = as_uint(value == 0 ? 0.0f : value);
  const uint key = bits >> 31 != 0 ? ~bits : bits | 1u << 31;
#else
  const ulong key = (ulong)value ^ BP_SIGN_BIT;
#endif
  return (BP_LARGEST ? key : ~key) & ULONG_MAX >> (64 - BP_KEY_BITS);
}

#if BP_KEY_BITS > 32
typedef struct Entry {
  ulong key;
  ulong place;
} Entry;
static inline Entry entry_of(ulong key, ulong place) {
  const Entry entry = {key, place};
  return entry;
}
static inline ulong place_of(Entry entry) { return entry.place; }
static inline bool is_better(Entry a, Entry b) {
  return a.key > b.key || (a.key == b.key && a.place < b.place);
}
#else
// One number, of which the greater is the better.
typedef ulong Entry;
static inline Entry entry_of(ulong key, ulong place) { return key << 32 | (UINT_MAX - place); }
static inline ulong place_of(Entry entry) { return UINT_MAX - (uint)entry; }
static inline bool is_better(Entry a, Entry b) { return a > b; }
#endif

// What every function takes: entries are read from `from` and written to `to`, or, in the last
// step, as elements of y and indices.
#define BP_TOP_K_ARGUMENTS \
  BP_INPUT(x), BP_OUTPUT(from), BP_OUTPUT(to), BP_OUTPUT(y), BP_OUTPUT(indices)
#define BP_TOP_K_GIVEN \
  x, x_offset, from, from_offset, to, to_offset, y, y_offset, indices, indices_offset

// Writes the entry that is number `rank` of a lane, which begins at `start` in x.
static inline void put(Entry entry, ulong lane, long start, ulong rank, BP_TOP_K_ARGUMENTS,
                       const TopKGeometry* geometry) {
  const ulong k = geometry->k;
  if (!geometry->is_last) {
    BP_WRITE(Entry, to)[lane * k + rank] = entry;
    return;
  }
  const ulong inner = geometry->inner;
  const long place = (long)place_of(entry);
  const long at = (long)((lane / inner * k + rank) * inner + lane % inner);
  BP_STORE(BP_DTYPE, y, at, BP_LOAD(BP_DTYPE, x, start + place * geometry->step));
  BP_WRITE(long, indices)[at] = place;
}

static inline ulong key_at(BP_INPUT(x), long start, ulong place, const TopKGeometry* geometry) {
  return key_of(BP_LOAD(BP_DTYPE, x, start + (long)place * geometry->step));
}

// The k-th best key of the lane; *out_equal = how many keys equal to it are among the best.
static inline ulong threshold_of(BP_INPUT(x), long start, const TopKGeometry* geometry,
                                 __local uint* counts, __local ulong* found, ulong* out_equal) {
  const uint item = (uint)get_local_id(0);
  const uint items = (uint)get_local_size(0);
  ulong prefix = 0;
  ulong wanted = geometry->k;
  for (int shift = BP_KEY_BITS - BP_XPU_DIGIT_BITS; shift >= 0; shift -= BP_XPU_DIGIT_BITS) {
    for (uint i = item; i < BP_XPU_DIGIT_VALUES; i += items) counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (ulong k = item; k < geometry->length; k += items) {
      const ulong digits = key_at(x, x_offset, start, k, geometry) >> shift;
      if (digits >> BP_XPU_DIGIT_BITS != prefix) continue;
      atomic_inc(&counts[digits % BP_XPU_DIGIT_VALUES]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
      uint digit = BP_XPU_DIGIT_VALUES - 1;
      ulong left = wanted;
      for (; digit > 0 && counts[digit] < left; --digit) left -= counts[digit];
      found[0] = digit;
      found[1] = left;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    prefix = prefix << BP_XPU_DIGIT_BITS | found[0];
    wanted = found[1];
  }
  *out_equal = wanted;
  return prefix;
}

// A group for each lane, of which fewer than all elements are wanted.
__kernel void select_best(BP_TOP_K_ARGUMENTS, TopKGeometry geometry) {
  __local uint counts[BP_XPU_DIGIT_VALUES];
  __local ulong better_before[BP_XPU_SORT_GROUP + 1];
  __local ulong equal_before[BP_XPU_SORT_GROUP + 1];
  const ulong lane = get_group_id(0);
  const ulong item = get_local_id(0);
  const ulong items = get_local_size(0);
  const long start = BP_PLACE(geometry.lanes, 0, lane);
  __global Entry* const entries = BP_WRITE(Entry, from) + lane * geometry.k;
  ulong equal_count = 0;
  const ulong threshold =
      threshold_of(x, x_offset, start, &geometry, counts, better_before, &equal_count);

  // Each work item gathers from a run of elements, so that the order is theirs.
  const ulong run = (geometry.length + items - 1) / items;
  const ulong begin = min(item * run, geometry.length);
  const ulong end = min(begin + run, geometry.length);
  ulong better = 0;
  ulong equal = 0;
  for (ulong k = begin; k < end; ++k) {
    const ulong key = key_at(x, x_offset, start, k, &geometry);
    better += key > threshold;
    equal += key == threshold;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  better_before[item + 1] = better;
  equal_before[item + 1] = equal;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    better_before[0] = equal_before[0] = 0;
    for (ulong i = 0; i < items; ++i) {
      better_before[i + 1] += better_before[i];
      equal_before[i + 1] += equal_before[i];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  better = better_before[item];
  equal = equal_before[item];
  for (ulong k = begin; k < end; ++k) {
    const ulong key = key_at(x, x_offset, start, k, &geometry);
    const bool is_taken = key > threshold || (key == threshold && equal < equal_count);
    if (is_taken) {
      entries[better + min(equal, equal_count)] = entry_of(key, k);
    }
    better += key > threshold;
    equal += key == threshold;
  }
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);

  for (ulong i = item; i < geometry.k; i += items) {
    const Entry entry = entries[i];
    const ulong block = i - i % BP_XPU_SORTED_BLOCK;
    const ulong block_end = min(block + BP_XPU_SORTED_BLOCK, geometry.k);
    ulong rank = block;
    for (ulong j = block; j < block_end; ++j) rank += is_better(entries[j], entry);
    put(entry, lane, start, rank, BP_TOP_K_GIVEN, &geometry);
  }
}

// A work item for each element of lanes of which all are wanted.
__kernel void rank_all(BP_TOP_K_ARGUMENTS, TopKGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const ulong lane = item / geometry.k;
  const ulong own = item % geometry.k;
  const long start = BP_PLACE(geometry.lanes, 0, lane);
  const ulong key = key_at(x, x_offset, start, own, &geometry);
  const ulong block = own - own % BP_XPU_SORTED_BLOCK;
  const ulong block_end = min(block + BP_XPU_SORTED_BLOCK, geometry.k);
  ulong rank = block;
  for (ulong i = block; i < block_end; ++i) {
    const ulong other = key_at(x, x_offset, start, i, &geometry);
    rank += other > key || (other == key && i < own);
  }
  put(entry_of(key, own), lane, start, rank, BP_TOP_K_GIVEN, &geometry);
}

// A work item for each BP_XPU_MERGED entries of what two neighbouring runs give. How many of those
// before it are of the first run is found by halving.
__kernel void merge_runs(BP_TOP_K_ARGUMENTS, TopKGeometry geometry) {
  const ulong item = get_global_id(0);
  if (item >= geometry.item_count) return;
  const ulong shares = (geometry.k + BP_XPU_MERGED - 1) / BP_XPU_MERGED;
  const ulong lane = item / shares;
  const ulong begin = item % shares * BP_XPU_MERGED;
  const ulong end = min(begin + BP_XPU_MERGED, geometry.k);
  const ulong pair = begin - begin % (2 * geometry.run);
  const ulong first_count = min(geometry.run, geometry.k - pair);
  const ulong second_count = min(2 * geometry.run, geometry.k - pair) - first_count;
  __global const Entry* const first = BP_READ(Entry, from) + lane * geometry.k + pair;
  __global const Entry* const second = first + first_count;
  const ulong before = begin - pair;
  ulong i = before - min(before, second_count);
  ulong most = min(before, first_count);
  while (i < most) {
    const ulong middle = i + (most - i) / 2;
    if (is_better(first[middle], second[before - 1 - middle])) {
      i = middle + 1;
    } else {
      most = middle;
    }
  }
  ulong j = before - i;
  const long start = BP_PLACE(geometry.lanes, 0, lane);
  for (ulong rank = begin; rank < end; ++rank) {
    const bool is_of_first =
        j == second_count || (i < first_count && is_better(first[i], second[j]));
    put(is_of_first ? first[i] : second[j], lane, start, rank, BP_TOP_K_GIVEN, &geometry);
    i += is_of_first;
    j += !is_of_first;
  }
}
