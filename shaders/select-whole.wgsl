// As bucket-masses.wgsl, bucket-scan.wgsl, bucket-collect.wgsl and select-token.wgsl in one, for a small vocabulary, and for
// rows of which a search is rare: a job's buckets, its cut, and its draw; the id of a drawn row, and what is told of it.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32
//   rows, jobs, picks, lists  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A workgroup of THREADS for every so many jobs as there are workgroups: where a search is rare, a few go through all jobs,
// since SwiftShader makes room for each one's threads before they find that there is nothing to do. Weights count from their bucket's top, in units of it such that all tokens' fit a word.
// Prepend step, logit-key, sampler-state, threefry, draw, tell-id and search-tokens.
struct Params {
  vocabulary: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> jobs: array<u32>;
@group(0) @binding(5) var<storage, read_write> lists: array<atomic<u32>>;
@group(0) @binding(6) var<storage, read_write> picks: array<u32>;
@group(0) @binding(7) var<storage, read_write> results: array<u32>;
@group(0) @binding(8) var<storage, read_write> lastIds: array<u32>;

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  for (var job = group.x; job < 2u * params.tileRows; job += groups.x) {
    let there = params.firstRow + job % params.tileRows < step[STEP_LOGITS];
    if (there && jobs[job * JOB_STATE + JOB_WHOLE] != 0u) {
      searchWhole(job, lane);
      workgroupBarrier();
    }
  }
}

fn searchWhole(job: u32, lane: u32) {
  let row = job % params.tileRows;
  let record = params.firstRow + row;
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let jobAt = job * JOB_STATE;
  let pickAt = job * PICK_STATE;
  var task = TASK_CUT;
  var s: Search;
  s.rowAt = row * params.vocabulary;
  s.digitsAt = job * SEARCH_STATE;
  s.high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  s.floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  s.low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  s.bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  s.log2Scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  let listAt = s.digitsAt + DIGITS_STATE + 1u;
  let unit = exp2(-f32(countLeadingZeros(params.vocabulary)));
  let share = uniformOf(at, ROUNDS);
  let step2 = bucketLog2(s.log2Scale, s.bucketScale);
  let countsAt = s.digitsAt + 768u;
  for (var i = lane; i < 2u * BUCKETS; i += THREADS) {
    atomicStore(&lists[countsAt + i], 0u);
  }
  storageBarrier();
  for (var id = lane; id < params.vocabulary; id += THREADS) {
    let logit = logits[s.rowAt + id];
    if (logit >= s.floor) {
      let bucket = u32(placeOf(logit, s.high, s.low, s.bucketScale));
      let weight = exp2((max(logit, s.low) - s.high) * s.log2Scale + f32(bucket) * step2);
      atomicAdd(&lists[countsAt + bucket], 1u);
      atomicAdd(&lists[countsAt + BUCKETS + bucket], u32(min(weight, 1.0) / unit + 0.5));
    }
  }
  storageBarrier();

  var kept = 0.0;
  var cutKey = 0u;
  var cutId = NONE;
  var lastBucket = BUCKETS - 1u;
  while (task != 0u) {
    var limit = NONE;
    var mass = share * kept;
    if (task == TASK_CUT) {
      limit = jobs[jobAt + JOB_LIMIT];
      mass = bitcast<f32>(jobs[jobAt + JOB_MASS_LIMIT]);
    }
    if (lane == 0u) {
      pickBucket(countsAt, limit, mass, step2, lastBucket, unit);
      atomicStore(&lists[listAt - 1u], 0u);
    }
    let pick = workgroupUniformLoad(&told);
    s.bucket = pick.x;
    s.size = pick.y;
    s.limit = limit - pick.z;
    let above = bitcast<f32>(pick.w);
    s.mass = mass - above;
    storageBarrier();
    for (var id = lane; id < params.vocabulary; id += THREADS) {
      let logit = logits[s.rowAt + id];
      if (logit >= s.floor && u32(placeOf(logit, s.high, s.low, s.bucketScale)) == s.bucket) {
        let place = atomicAdd(&lists[listAt - 1u], 1u);
        if (place < LIST) {
          atomicStore(&lists[listAt + place], id);
        }
      }
    }
    storageBarrier();
    s.listAt = listAt;
    if (s.size > LIST) {
      s.size = params.vocabulary;
      s.listAt = NONE;
    }
    let found = search(lane, s);
    if (task == TASK_CUT) {
      cutKey = found.key;
      cutId = found.id;
      kept = above + found.massThrough;
      lastBucket = s.bucket;
      if (lane == 0u) {
        picks[pickAt + PICK_CUT_KEY] = cutKey;
        picks[pickAt + PICK_CUT_ID] = cutId;
        picks[pickAt + PICK_KEPT_COUNT] = pick.z + found.countBefore + 1u;
        picks[pickAt + PICK_KEPT_MASS] = bitcast<u32>(kept);
      }
      task = select(0u, TASK_DRAW, job < params.tileRows);
    } else {
      task = 0u;
      if (lane == 0u) {
        let past = found.key < cutKey || (found.key == cutKey && found.id > cutId);
        let id = select(found.id, cutId, past);
        tellId(row, record, id, bitcast<u32>(logits[s.rowAt + id]));
      }
    }
  }
}

// The bucket at which mass or limit is reached; where rounding lets none up to `last` reach it, the last that is there.
fn pickBucket(countsAt: u32, limit: u32, mass: f32, step2: f32, last: u32, unit: f32) {
  var pick = vec3<u32>(0u);
  var before = 0.0;
  var count = 0u;
  var running = 0.0;
  for (var bucket = 0u; bucket <= last; bucket++) {
    let some = atomicLoad(&lists[countsAt + bucket]);
    if (some > 0u) {
      pick = vec3<u32>(bucket, some, count);
      before = running;
      count += some;
      let units = f32(atomicLoad(&lists[countsAt + BUCKETS + bucket]));
      running += units * unit * exp2(-f32(bucket) * step2);
      if (running > mass || count >= limit) {
        break;
      }
    }
  }
  told = vec4<u32>(pick, bitcast<u32>(before));
}
