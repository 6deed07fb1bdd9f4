// A job's cut, in the bucket that bucket-scan.wgsl found, and then its draw, at the uniform's share of the weight of what
// stays; the id of a drawn row. Where the draw's bucket was guessed wrong, it waits for the next round.
//
//   step     metadata; logits rows = step[2]
//   logits   [tile rows, vocabulary] f32
//   rows, jobs, lists, picks  sampler-state.wgsl
//   results  [logits rows, 4] u32: id, non-finite, bits of the logprob, 0
//   lastIds  [maxSequences] the id each slot sampled last
//
// A workgroup of THREADS a job. Prepend step, logit-key, sampler-state, threefry, draw, tell-id, bucket-at and
// search-tokens.
struct Params {
  vocabulary: u32,
  firstRow: u32,
  tileRows: u32,
  round: u32,
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
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let job = group.x;
  let row = job % params.tileRows;
  let record = params.firstRow + row;
  if (job >= 2u * params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  let jobAt = job * JOB_STATE;
  let pickAt = job * PICK_STATE;
  var task = jobs[jobAt + JOB_TASK];
  if (task == 0u) {
    return;
  }
  var s: Search;
  s.rowAt = row * params.vocabulary;
  s.digitsAt = job * SEARCH_STATE;
  s.high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  s.floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  s.low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  s.bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  s.log2Scale = bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]);
  s.bucket = jobs[jobAt + JOB_BUCKET];
  let share = uniformOf(at, ROUNDS);
  var list = 0u;
  var kept = bitcast<f32>(jobs[jobAt + JOB_KEPT_MASS]);
  var cutKey = 0u;
  var cutId = NONE;
  if (params.round == 1u) {
    if (lane == 0u) {
      let pick = pickAt + PICK_CUT_KEY;
      told = vec4<u32>(picks[pick], picks[pick + 1u], picks[pickAt + PICK_PENDING], picks[pickAt + PICK_KEPT_MASS]);
    }
    let before = workgroupUniformLoad(&told);
    if (before.z == NONE) {
      return;
    }
    cutKey = before.x;
    cutId = before.y;
    s.bucket = before.z;
    kept = bitcast<f32>(before.w);
    task = TASK_DRAW;
    list = 2u;
  }

  while (task != 0u) {
    let listAt = job * SEARCH_STATE + DIGITS_STATE + list * (LIST + 1u);
    if (lane == 0u) {
      told.x = atomicLoad(&lists[listAt]);
    }
    s.size = workgroupUniformLoad(&told).x;
    s.listAt = listAt + 1u;
    if (s.size > LIST) {
      s.size = params.vocabulary;
      s.listAt = NONE;
    }
    let above = bitcast<f32>(jobs[jobAt + JOB_ABOVE + s.bucket]);
    s.limit = NONE;
    s.mass = share * kept - above;
    if (task == TASK_CUT) {
      s.limit = jobs[jobAt + JOB_LIMIT] - jobs[jobAt + JOB_COUNT_ABOVE];
      s.mass = bitcast<f32>(jobs[jobAt + JOB_MASS_LIMIT]) - above;
    }
    let found = search(lane, s);
    if (task == TASK_CUT) {
      cutKey = found.key;
      cutId = found.id;
      kept = above + found.massThrough;
      var pending = NONE;
      task = 0u;
      if (job < params.tileRows) {
        task = TASK_DRAW;
        let drawn = bucketAt(jobAt, share * kept, s.bucket);
        if (drawn == jobs[jobAt + JOB_GUESS]) {
          list = 1u;
        } else if (drawn != s.bucket) {
          task = 0u;
          pending = drawn;
        }
        s.bucket = drawn;
      }
      if (lane == 0u) {
        picks[pickAt + PICK_CUT_KEY] = cutKey;
        picks[pickAt + PICK_CUT_ID] = cutId;
        picks[pickAt + PICK_KEPT_COUNT] = jobs[jobAt + JOB_COUNT_ABOVE] + found.countBefore + 1u;
        picks[pickAt + PICK_KEPT_MASS] = bitcast<u32>(kept);
        picks[pickAt + PICK_PENDING] = pending;
      }
    } else {
      task = 0u;
      if (lane == 0u) {
        // Rounding may put the uniform's share just past the last token that stays.
        let past = found.key < cutKey || (found.key == cutKey && found.id > cutId);
        let id = select(found.id, cutId, past);
        tellId(row, record, id, bitcast<u32>(logits[s.rowAt + id]));
      }
    }
  }
}
