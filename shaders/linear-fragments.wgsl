// What linear-matrix.wgsl declares. A subgroup's threads hold a fragment together; where there are no subgroup matrices
// (EMULATED), its elements lie in turn with the subgroup's threads, so that the same indices are taken.
const INVOCATIONS = THREADS * COLUMN_THREADS;

var<workgroup> weightTile: array<Component, TILE * K_TILE>;
var<workgroup> inputTile: array<Component, GROUP_COLUMNS * K_TILE>;
var<workgroup> resultTile: array<f32, COLUMN_THREADS * TILE>;

#if NATIVE
alias Left = subgroup_matrix_left<Component, FRAGMENT_K, FRAGMENT_M>;
alias Right = subgroup_matrix_right<Component, FRAGMENT_N, FRAGMENT_K>;
alias Fragment = subgroup_matrix_result<f32, FRAGMENT_N, FRAGMENT_M>;
#end
#if EMULATED
alias Fragment = array<f32, FRAGMENT_M * FRAGMENT_N / SUBGROUP>;

fn fragmentMultiply(sums: ptr<function, Fragment>, left: u32, right: u32, thread: u32) {
  for (var i = 0u; i < FRAGMENT_M * FRAGMENT_N / SUBGROUP; i++) {
    let row = (thread + i * SUBGROUP) / FRAGMENT_N;
    let column = (thread + i * SUBGROUP) % FRAGMENT_N;
    var sum = (*sums)[i];
    for (var k = 0u; k < FRAGMENT_K; k++) {
      sum = fma(f32(weightTile[left + row * K_TILE + k]), f32(inputTile[right + column * K_TILE + k]), sum);
    }
    (*sums)[i] = sum;
  }
}

fn fragmentStore(to: u32, sums: ptr<function, Fragment>, thread: u32) {
  for (var i = 0u; i < FRAGMENT_M * FRAGMENT_N / SUBGROUP; i++) {
    let row = (thread + i * SUBGROUP) / FRAGMENT_N;
    let column = (thread + i * SUBGROUP) % FRAGMENT_N;
    resultTile[to + column * TILE + row] = (*sums)[i];
  }
}
#end
