// Which tokens of a row stay, without sorting: of the order (logit descending, id ascending), the first n, where n
// ends at `limit` tokens or once the weight before a token is over `massLimit`.
//
// The cut is found on the keys of logit-key.wgsl, a bit a pass from the top: count and weight of the upper half of the
// keys still undecided say in which half the cut is. Weights are added in a fixed order (each thread its range of
// ids, then the threads), so a row has the same cut every time. One loop, and buckets of one bit: with sixteen
// buckets a pass the kernel took over a second to compile on SwiftShader.
// The kernel declares `logits` (f32) and sets rowAt, high, temperature, minWeight; 64 threads call it together.
const THREADS = 64u;
const FLOAT_MAX = 3.4028234e38;

var<workgroup> laneCounts: array<u32, 64>;
var<workgroup> laneMasses: array<f32, 64>;

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
  // Keys that share the bits above `bit` with `prefix` are undecided; count and mass are of the keys above those.
  var prefix = 0u;
  var undecided = 0u;
  var count = 0u;
  var mass = 0.0;
  var cut = false;
  var bit = 0u;
  for (var level = 0u; level <= 32u; level++) {
    // Level 0 takes all keys, the next 32 the upper half of the undecided ones.
    let wanted = prefix | bit;
    let mask = ~(bit - 1u);
    var upper = 0u;
    var upperMass = 0.0;
    for (var id = begin; id < end; id++) {
      let logit = logits[rowAt + id];
      if (((logitKey(logit) ^ wanted) & mask) == 0u) {
        let weight = weightOf(logit);
        if (weight >= minWeight) {
          upper += 1u;
          upperMass += weight;
        }
      }
    }
    laneCounts[lane] = upper;
    laneMasses[lane] = upperMass;
    workgroupBarrier();
    upper = 0u;
    upperMass = 0.0;
    for (var i = 0u; i < THREADS; i++) {
      upper += laneCounts[i];
      upperMass += laneMasses[i];
    }
    workgroupBarrier();
    // The cut lies in the half that can't be kept whole; in the upper one too where it is all there is, since
    // rounding may add up the halves to a little less than the whole.
    let whole = count + upper < limit && mass + upperMass <= massLimit;
    if (level == 0u) {
      undecided = upper;
      cut = !whole;
      bit = 0x80000000u;
    } else {
      if (upper > 0u && (!whole || upper == undecided)) {
        prefix = wanted;
        undecided = upper;
      } else {
        count += upper;
        mass += upperMass;
        undecided -= upper;
      }
      bit >>= 1u;
    }
  }
  cutKey = select(0u, prefix, cut);
  cutTies = 0u;
  if (cut) {
    // The tie of rank j stays while mass + j * weight <= massLimit and count + j < limit.
    let weight = weightOf(keyLogit(prefix));
    var ties = undecided;
    if (weight > 0.0) {
      let room = floor((massLimit - mass) / weight);
      if (room < f32(ties)) {
        ties = min(ties, u32(max(room, 0.0)) + 1u);
      }
    }
    cutTies = min(ties, limit - count);
  }
}
