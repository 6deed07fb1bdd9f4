// output[c, outputAt + r] = sum over k of weights[r, k] * input[firstColumn + c, k], or what params.finish makes of it.
//
//   step     metadata; columns there are = step[countWord]
//   weights  [outputs, words] in tiles of 64 rows, as its weight-*.wgsl says; zero past K
//   input    [columns, inputWords] vec4, zero past K
//   output   [columns, outputStride] f32
//   squares  [columns, squaresWords * 4] f32, read or written
//   scales   of quantised formats, as weight-q4.wgsl says
//   read5, write6: of some finishes
//
// One source for matrix-vector products and for matmul. A thread owns ROWS rows of a tile by COLUMNS columns in
// registers: what costs is loads, and a row's word serves all columns, a column's word all rows. Neighbouring threads
// have neighbouring rows, whose words are neighbours; columns come after all rows. With SHARED, threads of a workgroup are
// THREADS along rows by COLUMN_THREADS along columns, and its columns lie in workgroup memory (linear-fill.wgsl).
//
// K is cut into splits of splitWords words, added in order, and a split's sum is CHAINS chains over k mod CHAINS, of four
// added as (0+1)+(2+3): the order of a row's sum follows from K, splits and chains, not from ROWS, COLUMNS or the threads
// of a workgroup, so that all exact variants of a choice give the same bits. With SPLIT each split has threads of its
// own in the workgroup, for adapters on which the rows alone are too few threads; else a thread walks all of them.
//
// Where normColumns isn't 0, the input is a row x of the residual stream times the norm's gain (an earlier product that
// emitted, or norm-input.wgsl, wrote both it and the sums of x^2), so the sums only miss 1 / sqrt(mean(x^2) + epsilon).
//
// A template (src/gpu/template.ts). The line `#sums` stands for linear-sums.wgsl or linear-matrix.wgsl, `#declare` for
// what these declare, the line `#finish` for linear-finish.wgsl.
// Prepend step.wgsl, tanh.wgsl, activation.wgsl, norm-factor.wgsl, the constants ROWS, COLUMNS, THREADS, COLUMN_THREADS and
// SPLIT_THREADS, and the files of the weight's format.
struct Params {
  // Rows of the part; of paired ones pairs, over all parts.
  outputs: u32,
  words: u32,
  splitWords: u32,
  inputWords: u32,
  outputStride: u32,
  // The part's first row, or pair.
  outputAt: u32,
  countWord: u32,
  firstColumn: u32,
  tiles: u32,
  // Of the norm; 0: there is none.
  normColumns: u32,
  epsilon: f32,
  squaresWords: u32,
  // A FINISH_*, and what it asks for.
  finish: u32,
  extra0: u32,
  extra1: u32,
  extra2: u32,
  extra3: u32,
  extra4: u32,
  // Of store and add: 1: read5 has the rows' biases.
  biased: u32,
  // Of store, unless 0: a sum x becomes tanh(capScale x), before it is multiplied by scale.
  capScale: f32,
  // What is stored, added or emitted is multiplied by it.
  scale: f32,
  // Of gate: its activation, as sigmoidProduct takes it.
  gateLinear: f32,
  gateCubic: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;
@group(0) @binding(5) var<storage, read> read5: array<f32>;
@group(0) @binding(6) var<storage, read_write> write6: array<f32>;
@group(0) @binding(7) var<storage, read_write> squares: array<f32>;

// Threads that share a tile.
const TILE_THREADS = TILE / ROWS;
// Columns of a workgroup.
const GROUP_COLUMNS = COLUMN_THREADS * COLUMNS;

const FINISH_STORE = 0u;
const FINISH_ADD = 1u;
const FINISH_EMIT = 2u;
const FINISH_GATE = 3u;
const FINISH_ROTATE = 4u;

// Which pair a thread's row of a tile belongs to, where the row is its pair's first (src/gpu/pair-order.ts).
fn pairOf(tile: u32, row: u32) -> u32 {
  return params.outputAt + (tile * 8u + row % 8u) * 4u + row / 8u;
}

#declare
#if QUADS
// A quad's threads have the same columns and leave together, which the compiler can't see.
@diagnostic(off, subgroup_uniformity)
#end
#if NATIVE
// Subgroups are whole, which the compiler can't see.
@diagnostic(off, chromium.subgroup_matrix_uniformity)
#end
#if SUMS
@compute @workgroup_size(THREADS, COLUMN_THREADS, SPLIT_THREADS)
#end
#if MATRIX
// Subgroup matrices want whole subgroups along x.
@compute @workgroup_size(THREADS * COLUMN_THREADS)
#end
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  #if SUMS
  @builtin(local_invocation_id) local: vec3<u32>,
  #end
  #if MATRIX
  @builtin(local_invocation_index) place: u32,
  #end
  #if QUADS
  @builtin(subgroup_invocation_id) subgroupLane: u32,
  #end
) {
  #if QUADS
  let quadLane = subgroupLane % 4u;
  #end
  #if MATRIX
  let local = vec2<u32>(place % THREADS, place / THREADS);
  #end
  let count = step[params.countWord];
  // Columns past the end repeat the last one, and are not stored. Rows past the end are zeros of the tile.
  let lastColumn = max(count, 1u) - 1u;
  let rowThreads = params.tiles * TILE_THREADS;
  let workgroup = group.y * groups.x + group.x;
  #if ALONE
  let thread = workgroup * THREADS + local.x;
  let rowThread = thread % rowThreads;
  let column = thread / rowThreads * COLUMNS;
  #if WHOLE
  if (params.firstColumn + column >= count) {
    return;
  }
  #end
  #end
  #if SHARED
  let rowGroups = (rowThreads + THREADS - 1u) / THREADS;
  let rowThread = workgroup % rowGroups * THREADS + local.x;
  let groupColumn = workgroup / rowGroups * GROUP_COLUMNS;
  if (params.firstColumn + groupColumn >= count) {
    return;
  }
  // Threads past the last tile have no column.
  let column = select(0x40000000u, groupColumn + local.y * COLUMNS, rowThread < rowThreads);
  #end
  let tile = rowThread / TILE_THREADS;
  let lane = rowThread % TILE_THREADS;
  #if SUMS
  let lastWord = params.words;
  #if ALONE
  #for c COLUMNS
  let input$c = min(params.firstColumn + column + $cu, lastColumn) * params.inputWords;
  #end
  #end
  #end
#sums
}
