// Which tokens of a row stay, without sorting: of the order (logit descending, id ascending), the first n, where n
// ends at `limit` tokens or once the weight before a token is over `massLimit`.
//
// The cut is found on the keys of logit-key.wgsl, four bits a pass from the top: count and weight of the sixteen
// buckets that share the bits found so far, then the first bucket from above that can't be kept whole. Weights
// are added in a fixed order (each thread its range of ids, then the threads), so a row has the same cut every time.
// The kernel declares `logits` (f32) and sets rowAt, high, temperature, minWeight; 64 threads call it together.
const THREADS = 64u;
const FLOAT_MAX = 3.4028234e38;

var<workgroup> laneCounts: array<u32, 1024>;
var<workgroup> laneMasses: array<f32, 1024>;
var<workgroup> bucketCounts: array<u32, 16>;
var<workgroup> bucketMasses: array<f32, 16>;

var<private> rowAt: u32;
var<private> high: f32;
var<private> temperature: f32;
var<private> minWeight: f32;
// The cut: kept are keys above cutKey, and of those equal to it the cutTies lowest ids.
var<private> cutKey: u32;
var<private> cutTies: u32;

// (logit - high) / temperature, natural log of the weight, no less than the smallest finite float.
fn logWeight(logit: f32) -> f32 {
  let distance = max(logit, max(high, 0.0) - FLOAT_MAX) - high;
  if (distance <= -FLOAT_MAX * min(temperature, 1.0)) {
    return -FLOAT_MAX;
  }
  return distance / temperature;
}

// exp((logit - high) / temperature), in [0, 1].
fn weightOf(logit: f32) -> f32 {
  let power = logWeight(logit);
  if (power < -87.0) {
    return 0.0;
  }
  return exp(power);
}

fn selectKept(lane: u32, begin: u32, end: u32, limit: u32, massLimit: f32) {
  var prefix = 0u;
  var count = 0u;
  var mass = 0.0;
  var cut = true;
  for (var level = 0u; level < 8u; level++) {
    let shift = 28u - 4u * level;
    var counts = array<u32, 16>();
    var masses = array<f32, 16>();
    for (var id = begin; id < end; id++) {
      let logit = logits[rowAt + id];
      let key = logitKey(logit);
      if (((key ^ prefix) >> shift) < 16u) {
        let weight = weightOf(logit);
        if (weight >= minWeight) {
          let digit = (key >> shift) & 15u;
          counts[digit] += 1u;
          masses[digit] += weight;
        }
      }
    }
    for (var digit = 0u; digit < 16u; digit++) {
      laneCounts[lane * 16u + digit] = counts[digit];
      laneMasses[lane * 16u + digit] = masses[digit];
    }
    workgroupBarrier();
    if (lane < 16u) {
      var bucketCount = 0u;
      var bucketMass = 0.0;
      for (var i = 0u; i < THREADS; i++) {
        bucketCount += laneCounts[i * 16u + lane];
        bucketMass += laneMasses[i * 16u + lane];
      }
      bucketCounts[lane] = bucketCount;
      bucketMasses[lane] = bucketMass;
    }
    workgroupBarrier();
    // All threads walk the same buckets to the same digit. The lowest bucket with tokens is chosen when none
    // breaks a limit: on the first pass that means no cut, later that rounding split a bucket's weight otherwise.
    var lowest = 0u;
    while (lowest < 15u && bucketCounts[lowest] == 0u) {
      lowest++;
    }
    var chosen = lowest;
    for (var i = 0u; i < 16u; i++) {
      let digit = 15u - i;
      if (bucketCounts[digit] == 0u) {
        continue;
      }
      let nextCount = count + bucketCounts[digit];
      let nextMass = mass + bucketMasses[digit];
      if (nextCount >= limit || nextMass > massLimit) {
        chosen = digit;
        break;
      }
      if (digit == lowest) {
        if (level == 0u) {
          cut = false;
        }
        break;
      }
      count = nextCount;
      mass = nextMass;
    }
    prefix |= chosen << shift;
  }
  if (!cut) {
    cutKey = 0u;
    cutTies = 0u;
    return;
  }
  cutKey = prefix;
  let weight = weightOf(keyLogit(prefix));
  // The tie of rank j stays while mass + j * weight <= massLimit and count + j < limit.
  var ties = bucketCounts[prefix & 15u];
  if (weight > 0.0) {
    let room = floor((massLimit - mass) / weight);
    if (room < f32(ties)) {
      ties = min(ties, u32(max(room, 0.0)) + 1u);
    }
  }
  cutTies = min(ties, limit - count);
}
