// The matrix-vector product that kernels of this project are held against: frozen, never changed with the product's.
//
//   output[r] = sum over k of (scale q + min)[r, k] * x[k], 8192 rows, 2048 columns, blocks of 32
//
//   weights  [64 blocks, 8192 rows] a block of a row in one vec4<u32>: column 4i + l is nibble i of lane l
//   scales   [64 blocks, 8192 rows] (scale, min)
//   x        [512] vec4: columns 4i to 4i + 3 of a block, divided by 16^i
//
// A thread owns 8 rows, 1024 apart, so that neighbouring threads read neighbouring words. Quants are masked where they
// lie: nibble i comes out 16^i times too large, which x takes back.
const ROWS = 8192u;
const BLOCKS = 64u;
const APART = 1024u;

@group(0) @binding(0) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

fn part(w: vec4<u32>, x0: vec4<f32>, x1: vec4<f32>, x2: vec4<f32>, x3: vec4<f32>, x4: vec4<f32>, x5: vec4<f32>, x6: vec4<f32>, x7: vec4<f32>) -> vec4<f32> {
  var a = vec4<f32>();
  a = fma(vec4<f32>(w & vec4<u32>(0xfu)), x0, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf0u)), x1, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf00u)), x2, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf000u)), x3, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf0000u)), x4, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf00000u)), x5, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf000000u)), x6, a);
  a = fma(vec4<f32>(w & vec4<u32>(0xf0000000u)), x7, a);
  return a;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  var s0 = vec4<f32>();
  var s1 = vec4<f32>();
  var s2 = vec4<f32>();
  var s3 = vec4<f32>();
  var s4 = vec4<f32>();
  var s5 = vec4<f32>();
  var s6 = vec4<f32>();
  var s7 = vec4<f32>();
  for (var block = 0u; block < BLOCKS; block++) {
    let at = block * ROWS + row;
    let x0 = x[block * 8u];
    let x1 = x[block * 8u + 1u];
    let x2 = x[block * 8u + 2u];
    let x3 = x[block * 8u + 3u];
    let x4 = x[block * 8u + 4u];
    let x5 = x[block * 8u + 5u];
    let x6 = x[block * 8u + 6u];
    let x7 = x[block * 8u + 7u];
    let sum = ((x0 + x1 * 0x1p4) + (x2 * 0x1p8 + x3 * 0x1p12)) + ((x4 * 0x1p16 + x5 * 0x1p20) + (x6 * 0x1p24 + x7 * 0x1p28));
    let c0 = scales[at + 0u * APART];
    s0 = fma(part(weights[at + 0u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c0.x), fma(sum, vec4<f32>(c0.y), s0));
    let c1 = scales[at + 1u * APART];
    s1 = fma(part(weights[at + 1u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c1.x), fma(sum, vec4<f32>(c1.y), s1));
    let c2 = scales[at + 2u * APART];
    s2 = fma(part(weights[at + 2u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c2.x), fma(sum, vec4<f32>(c2.y), s2));
    let c3 = scales[at + 3u * APART];
    s3 = fma(part(weights[at + 3u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c3.x), fma(sum, vec4<f32>(c3.y), s3));
    let c4 = scales[at + 4u * APART];
    s4 = fma(part(weights[at + 4u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c4.x), fma(sum, vec4<f32>(c4.y), s4));
    let c5 = scales[at + 5u * APART];
    s5 = fma(part(weights[at + 5u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c5.x), fma(sum, vec4<f32>(c5.y), s5));
    let c6 = scales[at + 6u * APART];
    s6 = fma(part(weights[at + 6u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c6.x), fma(sum, vec4<f32>(c6.y), s6));
    let c7 = scales[at + 7u * APART];
    s7 = fma(part(weights[at + 7u * APART], x0, x1, x2, x3, x4, x5, x6, x7), vec4<f32>(c7.x), fma(sum, vec4<f32>(c7.y), s7));
  }
  output[row] = (s0.x + s0.y) + (s0.z + s0.w);
  output[row + APART] = (s1.x + s1.y) + (s1.z + s1.w);
  output[row + 2u * APART] = (s2.x + s2.y) + (s2.z + s2.w);
  output[row + 3u * APART] = (s3.x + s3.y) + (s3.z + s3.w);
  output[row + 4u * APART] = (s4.x + s4.y) + (s4.z + s4.w);
  output[row + 5u * APART] = (s5.x + s5.y) + (s5.z + s5.w);
  output[row + 6u * APART] = (s6.x + s6.y) + (s6.z + s6.w);
  output[row + 7u * APART] = (s7.x + s7.y) + (s7.z + s7.w);
}
