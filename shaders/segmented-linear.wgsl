// Products of a matrix of segments (experts), of which each entry names one:
//
//   sum[e, r] = sum over k of weights[segment of e][r, k] * input[e / inputShare, k]
//
// and what becomes of it, o = output[e * outputStride + outputAt + r], by `finish`:
//
//   0      store: o = sum
//   1      multiply: o *= sum
//   2 + a  activate: o = activation a of sum
//   6 + a  gate: o = activation a of gate, times up, of segments paired as src/gpu/pair-order.ts says: gate row r with up
//          row r
//
//   step     metadata; entries = step[0] * entriesARow
//   weights  [segments, tiles of 64 rows, words], a part of it: tiles firstTile … of all segments'; zero past K
//   input    [rows, inputWords] vec4, zero past K
//   output   [entries, outputStride] f32
//   entries  SINGLE: [entries], the segment of each. GROUPED: as group-entries.wgsl says, GROUP = COLUMNS
//   squares  of normed inputs, as linear.wgsl has them
//   scales   of quantised formats, as weight-q4.wgsl says
//
// A thread owns ROWS rows of a tile by one entry, or by a group of entries of one segment, so that a word of the weights
// serves them all. The sums are linear.wgsl's, with the same order: an entry's numbers depend neither on whether it is
// in a group nor on which others are.
//
// A template. `#declare` stands for linear-memory.wgsl, `#sums` for linear-sums.wgsl. Prepend step.wgsl, norm-factor.wgsl,
// segment-entries.wgsl, activation.wgsl, the constants ROWS, COLUMNS, THREADS, COLUMN_THREADS and SPLIT_THREADS, and the
// files of the weights' format.
struct Params {
  // Rows of a segment, of paired ones pairs.
  outputs: u32,
  words: u32,
  splitWords: u32,
  inputWords: u32,
  outputStride: u32,
  outputAt: u32,
  entriesARow: u32,
  // Entries that have one row of the input.
  inputShare: u32,
  // Of a segment.
  tiles: u32,
  // Of the part.
  firstTile: u32,
  partTiles: u32,
  // Of the norm; 0: there is none.
  normColumns: u32,
  epsilon: f32,
  squaresWords: u32,
  finish: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;
@group(0) @binding(5) var<storage, read> entries: array<u32>;
@group(0) @binding(6) var<storage, read> squares: array<f32>;

// Threads that share a tile.
const TILE_THREADS = TILE / ROWS;

const FINISH_MULTIPLY = 1u;
const FINISH_ACTIVATE = 2u;
const FINISH_GATE = 6u;

#declare
#if QUADS
// A quad's threads have the same entries and leave together, which the compiler can't see.
@diagnostic(off, subgroup_uniformity)
#end
@compute @workgroup_size(THREADS, COLUMN_THREADS, SPLIT_THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  #if QUADS
  @builtin(subgroup_invocation_id) subgroupLane: u32,
  #end
) {
  #if QUADS
  let quadLane = subgroupLane % 4u;
  #end
  let rowThreads = params.tiles * TILE_THREADS;
  let thread = (group.y * groups.x + group.x) * THREADS + local.x;
  let rowThread = thread % rowThreads;
  let lane = rowThread % TILE_THREADS;
  let place = thread / rowThreads;
  #if SINGLE
  let count = step[0] * params.entriesARow;
  let inside = place < count;
  let segment = entries[min(place, max(count, 1u) - 1u)];
  let entry0 = place;
  #end
  #if GROUPED
  let inside = place < entries[0];
  let groupAt = 1u + min(place, max(entries[0], 1u) - 1u) * (COLUMNS + 1u);
  let segment = entries[groupAt];
  #for c COLUMNS
  let entry$c = entries[groupAt + $cu + 1u];
  #end
  #end
  let segmentTile = rowThread / TILE_THREADS;
  // Of tiles before the part's this wraps to one past its end.
  let partTile = segment * params.tiles + segmentTile - params.firstTile;
  let named = inside && segment != NO_ENTRY && partTile < params.partTiles;
  #if WHOLE
  if (!named) {
    return;
  }
  #end
  let tile = select(0u, partTile, named);
  // Who has nothing to sum waits for those who have.
  let lastWord = select(0u, params.words, named);
  #for c COLUMNS
  let row$c = select(0u, entry$c / params.inputShare, named && entry$c != NO_ENTRY);
  let input$c = row$c * params.inputWords;
  #end
#sums
  if (!named) {
    return;
  }
  var own: array<u32, COLUMNS>;
  #for c COLUMNS
  own[$c] = entry$c;
  #end
  for (var c = 0u; c < COLUMNS; c++) {
    let entry = own[c];
    if (entry == NO_ENTRY) {
      continue;
    }
    var factor = 1.0;
    if (params.normColumns != 0u) {
      factor = normFactor(entry / params.inputShare);
    }
    let base = entry * params.outputStride + params.outputAt;
    if (params.finish >= FINISH_GATE) {
      #if PAIRS
      for (var r = 0u; r < ROWS / 2u; r++) {
        let row = lane + r * TILE_THREADS;
        let pair = (segmentTile * 8u + row % 8u) * 4u + row / 8u;
        if (pair < params.outputs) {
          let gate = totals[r * COLUMNS + c] * factor;
          let up = totals[(r + ROWS / 2u) * COLUMNS + c] * factor;
          output[base + pair] = activate(params.finish - FINISH_GATE, gate) * up;
        }
      }
      #end
    } else {
      for (var r = 0u; r < ROWS; r++) {
        let row = segmentTile * TILE + lane + r * TILE_THREADS;
        if (row < params.outputs) {
          var x = totals[r * COLUMNS + c] * factor;
          if (params.finish == FINISH_MULTIPLY) {
            x *= output[base + row];
          } else if (params.finish >= FINISH_ACTIVATE) {
            x = activate(params.finish - FINISH_ACTIVATE, x);
          }
          output[base + row] = x;
        }
      }
    }
  }
}
