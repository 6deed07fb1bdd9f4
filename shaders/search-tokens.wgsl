// Of tokens in order (logit descending, id ascending), the first at which the running weight is over a mass or the running
// count reaches a limit. They are a job's bucket: of its list, or of the whole row where it has none.
//
// Few are ranked, each against each. Of more, a radix search over the order's 64-bit key (logit-key.wgsl, then id), eight
// bits a level from the first bit in which the bucket's ends differ, until one token is left. Counts and weights are
// sums of integers, so the order of the list and of the threads doesn't matter. A level's weights are two words of fixed
// point, against the top of the bucket. Sums are kept in storage: SwiftShader compiles a millisecond for each word of
// workgroup memory, which it zeroes one by one.
//
// The kernel declares `logits` (f32) and `lists`; a workgroup of THREADS calls it together. Prepend logit-key and
// sampler-state.
// Digits are added in groups, whatever the threads, so that sums are the same.
const GROUPS = 16u;
const DIGITS_OF_GROUP = 16u;
const FEW = 32u;
const FEW_UNITS = 67108864.0;

// A bucket of a job, and what is searched for in it.
struct Search {
  // Where the row's logits begin.
  rowAt: u32,
  // Where its list begins, or NONE; and how many tokens there are to look at.
  listAt: u32,
  size: u32,
  digitsAt: u32,
  bucket: u32,
  // Tokens before it and from it.
  limit: u32,
  // Weight from its beginning on, against the best token's.
  mass: f32,
  high: f32,
  floor: f32,
  low: f32,
  bucketScale: f32,
  log2Scale: f32,
}

// A token, what of the bucket is before it, and what is through it, against the best token's weight.
struct Found {
  key: u32,
  id: u32,
  countBefore: u32,
  massThrough: f32,
}

var<workgroup> groupCounts: array<u32, GROUPS>;
var<workgroup> groupMasses: array<f32, GROUPS>;
var<workgroup> firstRank: atomic<u32>;
// From one thread to all: key, id, tokens before it, weight before it; or digit, tokens that have it, and these two.
var<workgroup> told: vec4<u32>;

fn search(lane: u32, s: Search) -> Found {
  // The bucket's ends, with some room.
  var top = s.high;
  var bottom = s.floor;
  if (s.bucket > 0u) {
    top = min(s.high, s.high - (f32(s.bucket) - 0.05) / s.bucketScale);
  }
  if (s.bucketScale > 0.0 && s.bucket < BUCKETS - 1u) {
    bottom = max(s.floor, s.high - (f32(s.bucket) + 1.05) / s.bucketScale);
  }
  let topWeight = exp2((top - s.high) * s.log2Scale);
  let mass = s.mass / topWeight;
  var pick: vec4<u32>;
  if (s.listAt != NONE && s.size <= FEW) {
    pick = ranked(lane, s, top, mass);
  } else {
    pick = narrowed(lane, s, top, bottom, mass);
  }
  let weight = exp2((max(keyLogit(pick.x), s.low) - top) * s.log2Scale);
  return Found(pick.x, pick.y, pick.z, (bitcast<f32>(pick.w) + weight) * topWeight);
}

// Each against each.
fn ranked(lane: u32, s: Search, top: f32, mass: f32) -> vec4<u32> {
  if (lane == 0u) {
    atomicStore(&firstRank, s.size);
  }
  workgroupBarrier();
  for (var i = lane; i < s.size; i += THREADS) {
    let id = listedId(s.listAt + i);
    let key = logitKey(logits[s.rowAt + id]);
    var rank = 0u;
    var before = 0u;
    var own = 0u;
    for (var other = 0u; other < s.size; other++) {
      let otherId = listedId(s.listAt + other);
      let logit = logits[s.rowAt + otherId];
      let otherKey = logitKey(logit);
      let weight = u32(min(exp2((max(logit, s.low) - top) * s.log2Scale), 1.0) * FEW_UNITS + 0.5);
      if (otherKey > key || (otherKey == key && otherId < id)) {
        rank += 1u;
        before += weight;
      }
      own = select(own, weight, otherId == id);
    }
    atomicStore(&lists[s.digitsAt + i], rank);
    atomicStore(&lists[s.digitsAt + 256u + i], before);
    if (f32(before + own) / FEW_UNITS > mass || rank + 1u >= s.limit) {
      atomicMin(&firstRank, rank);
    }
  }
  storageBarrier();
  workgroupBarrier();
  // Where rounding lets none reach the mass, the last.
  let rank = min(atomicLoad(&firstRank), s.size - 1u);
  for (var i = lane; i < s.size; i += THREADS) {
    if (atomicLoad(&lists[s.digitsAt + i]) == rank) {
      let id = listedId(s.listAt + i);
      let before = f32(atomicLoad(&lists[s.digitsAt + 256u + i])) / FEW_UNITS;
      told = vec4<u32>(logitKey(logits[s.rowAt + id]), id, rank, bitcast<u32>(before));
    }
  }
  return workgroupUniformLoad(&told);
}

// Digit by digit.
fn narrowed(lane: u32, s: Search, top: f32, bottom: f32, mass: f32) -> vec4<u32> {
  // Keys that match `key` in the bits of the masks are left; the digit at `shift` comes next, 32 and more in the logit's.
  let differing = logitKey(top) ^ logitKey(bottom);
  let keyShift = max(32u - countLeadingZeros(differing), 8u) - 8u;
  var masks = vec2<u32>(~((256u << keyShift) - 1u), 0u);
  var known = vec2<u32>(logitKey(top), 0u) & masks;
  var shift = 32u + keyShift;
  let bits = countLeadingZeros(s.size);
  let unit = exp2(f32(bits));
  var countBefore = 0u;
  var massBefore = 0.0;
  var left = 2u;
  while (left > 1u) {
    for (var i = lane; i < 768u; i += THREADS) {
      atomicStore(&lists[s.digitsAt + i], 0u);
    }
    storageBarrier();
    for (var i = lane; i < s.size; i += THREADS) {
      let id = idOf(s.listAt, i);
      let logit = logits[s.rowAt + id];
      let key = logitKey(logit);
      let differs = ((key ^ known.x) & masks.x) | ((id ^ known.y) & masks.y);
      if (differs == 0u && logit >= s.floor && trunc(placeOf(logit, s.high, s.low, s.bucketScale)) == f32(s.bucket)) {
        var digit = (id >> shift) & 255u;
        if (shift >= 32u) {
          digit = 255u - ((key >> (shift - 32u)) & 255u);
        }
        let weight = exp2((max(logit, s.low) - top) * s.log2Scale) * unit;
        let integer = trunc(weight);
        atomicAdd(&lists[s.digitsAt + digit], 1u);
        atomicAdd(&lists[s.digitsAt + 256u + digit], u32(integer));
        atomicAdd(&lists[s.digitsAt + 512u + digit], u32((weight - integer) * unit));
      }
    }
    storageBarrier();
    for (var group = lane; group < GROUPS; group += THREADS) {
      var count = 0u;
      var groupMass = 0.0;
      for (var i = group * DIGITS_OF_GROUP; i < (group + 1u) * DIGITS_OF_GROUP; i++) {
        count += atomicLoad(&lists[s.digitsAt + i]);
        groupMass += massOf(s.digitsAt + i, 1.0 / unit);
      }
      groupCounts[group] = count;
      groupMasses[group] = groupMass;
    }
    workgroupBarrier();
    if (lane == 0u) {
      pickDigit(s.digitsAt, countBefore, massBefore, s.limit, mass, 1.0 / unit);
    }
    let pick = workgroupUniformLoad(&told);
    left = pick.y;
    countBefore = pick.z;
    massBefore = bitcast<f32>(pick.w);
    if (shift >= 32u) {
      let digit = 255u << (shift - 32u);
      known.x = (known.x & ~digit) | ((255u - pick.x) << (shift - 32u));
      masks.x |= digit;
      // Ids are below 2^24.
      shift = select(max(shift, 40u) - 8u, 16u, shift == 32u);
    } else {
      known.y |= pick.x << shift;
      masks.y |= 255u << shift;
      shift = max(shift, 8u) - 8u;
    }
  }
  for (var i = lane; i < s.size; i += THREADS) {
    let id = idOf(s.listAt, i);
    let logit = logits[s.rowAt + id];
    let key = logitKey(logit);
    let differs = ((key ^ known.x) & masks.x) | ((id ^ known.y) & masks.y);
    if (differs == 0u && logit >= s.floor && trunc(placeOf(logit, s.high, s.low, s.bucketScale)) == f32(s.bucket)) {
      told = vec4<u32>(key, id, countBefore, bitcast<u32>(massBefore));
    }
  }
  return workgroupUniformLoad(&told);
}

fn listedId(at: u32) -> u32 {
  return atomicLoad(&lists[at]);
}

fn idOf(listAt: u32, i: u32) -> u32 {
  if (listAt == NONE) {
    return i;
  }
  return listedId(listAt + i);
}

fn massOf(at: u32, unit: f32) -> f32 {
  return (f32(atomicLoad(&lists[at + 256u])) + f32(atomicLoad(&lists[at + 512u])) * unit) * unit;
}

// The digit at which mass or limit is reached; where rounding lets none reach it, the last that is there.
fn pickDigit(digitsAt: u32, countBefore: u32, massBefore: f32, limit: u32, mass: f32, unit: f32) {
  var pick = vec3<u32>(0u, 0u, countBefore);
  var before = massBefore;
  var count = countBefore;
  var running = massBefore;
  var group = 0u;
  for (var i = 0u; i < GROUPS; i++) {
    if (groupCounts[i] > 0u) {
      pick.z = count;
      before = running;
      group = i;
      count += groupCounts[i];
      running += groupMasses[i];
      if (running > mass || count >= limit) {
        break;
      }
    }
  }
  count = pick.z;
  running = before;
  for (var i = group * DIGITS_OF_GROUP; i < (group + 1u) * DIGITS_OF_GROUP; i++) {
    let some = atomicLoad(&lists[digitsAt + i]);
    if (some > 0u) {
      pick = vec3<u32>(i, some, count);
      before = running;
      count += some;
      running += massOf(digitsAt + i, unit);
      if (running > mass || count >= limit) {
        break;
      }
    }
  }
  told = vec4<u32>(pick, bitcast<u32>(before));
}
