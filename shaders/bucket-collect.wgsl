// The ids of the tokens in a job's buckets of interest, in no order: in round 0 the bucket that is searched first and the
// one guessed for the draw, in round 1 the draw's where the guess was wrong.
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   rows, jobs, chunks, picks, lists  sampler-state.wgsl
//
// A workgroup of 64 a job and span of 16 chunks, as in bucket-masses.wgsl. A chunk whose best is below the bucket isn't
// read. A count above LIST says that the list is not whole. Prepend step, sampler-state and logit-words.
struct Params {
  vocabulary: u32,
  chunks: u32,
  spans: u32,
  firstRow: u32,
  tileRows: u32,
  round: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read> jobs: array<u32>;
@group(0) @binding(5) var<storage, read> chunks: array<u32>;
@group(0) @binding(6) var<storage, read> picks: array<u32>;
@group(0) @binding(7) var<storage, read_write> lists: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let index = group.y * groups.x + group.x;
  let job = index / params.spans;
  let span = index % params.spans;
  let row = job % params.tileRows;
  if (job >= 2u * params.tileRows || params.firstRow + row >= step[STEP_LOGITS]) {
    return;
  }
  let jobAt = job * JOB_STATE;
  if (jobs[jobAt + JOB_TASK] == 0u) {
    return;
  }
  let high = bitcast<f32>(rows[row * ROW_STATE + ROW_HIGH]);
  let floor = bitcast<f32>(jobs[jobAt + JOB_FLOOR]);
  let low = bitcast<f32>(jobs[jobAt + JOB_RANGE_LOW]);
  let bucketScale = bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]);
  var wanted = f32(jobs[jobAt + JOB_BUCKET]);
  var guess = -1.0;
  var listAt = job * LISTS_OF_JOB;
  if (params.round == 0u) {
    if (jobs[jobAt + JOB_GUESS] != NONE) {
      guess = f32(jobs[jobAt + JOB_GUESS]);
    }
  } else {
    let pending = picks[job * PICK_STATE + PICK_PENDING];
    if (pending == NONE) {
      return;
    }
    wanted = f32(pending);
    listAt += 2u * (LIST + 1u);
  }
  let guessAt = job * LISTS_OF_JOB + LIST + 1u;
  let deepest = max(wanted, guess);
  let end = (params.vocabulary + 3u) / 4u;
  let words = wordsOf(row, params.vocabulary);
  let begin = span * SPAN_CHUNKS * CHUNK_WORDS;
  for (var i = lane * 4u; i < SPAN_CHUNKS * CHUNK_WORDS; i += 256u) {
    let chunk = span * SPAN_CHUNKS + i / CHUNK_WORDS;
    if (chunk >= params.chunks) {
      break;
    }
    let best = bitcast<f32>(chunks[(row * params.chunks + chunk) * 4u]);
    if (best < floor || placeOf(best, high, low, bucketScale) >= deepest + 1.0) {
      continue;
    }
    let most = min(begin + i + 4u, end);
    for (var word = begin + i; word < most; word++) {
      let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
      let places = min((vec4<f32>(high) - max(values, vec4<f32>(low))) * bucketScale, vec4<f32>(255.0));
      let first = (places >= vec4<f32>(wanted)) & (places < vec4<f32>(wanted + 1.0));
      let found = first | ((places >= vec4<f32>(guess)) & (places < vec4<f32>(guess + 1.0)));
      if (any(found)) {
        for (var j = 0u; j < 4u; j++) {
          if (found[j] && values[j] >= floor && (!PADDED || word * 4u + j < params.vocabulary)) {
            let at = select(guessAt, listAt, first[j]);
            let place = atomicAdd(&lists[at], 1u);
            if (place < LIST) {
              atomicStore(&lists[at + 1u + place], word * 4u + j);
            }
          }
        }
      }
    }
  }
}
