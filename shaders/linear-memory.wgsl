// What linear-sums.wgsl declares, as far as a variant asks for it.
#if CHAINS_OF_4
alias Sum = vec4<f32>;
#end
#if ONE_CHAIN
alias Sum = f32;
#end
#if EXACT
alias Products = Sum;
#end

#if SPLIT
var<workgroup> sums: array<f32, SPLIT_THREADS * COLUMN_THREADS * THREADS * ROWS * COLUMNS>;
#end

#if SHARED
// Threads that fill a split's part of the tile.
const FILLERS = THREADS * COLUMN_THREADS;
// Vectors of a column in the tile; one more than are filled, so that columns begin in other banks.
const FILL_VECTORS = FILL_UNITS * UNIT_VECTORS;
const COLUMN_STRIDE = FILL_VECTORS + 1u;

var<workgroup> inputTile: array<vec4<TileNumber>, SPLIT_THREADS * GROUP_COLUMNS * COLUMN_STRIDE>;
#if CONVERTED
var<workgroup> tileScales: array<vec4<f32>, SPLIT_THREADS * GROUP_COLUMNS * FILL_UNITS>;
#end
#end
#if COPIED
alias TileNumber = f32;
#end

#if HALF
// Where there are no halves (Half is f32), the same numbers are taken by the same indices.
alias TileNumber = Half;
alias Products = vec4<Half>;

// sum + scale * factor * products + min * (sum of x): the quants of the products are CENTRE less than those of the scale.
fn halfSum(products: Products, scale: vec2<f32>, factor: f32, ofInput: f32, sum: f32) -> f32 {
  let p = vec4<f32>(products);
  return fma((p.x + p.y) + (p.z + p.w), scale.x * factor, fma(ofInput, fma(f32(CENTRE), scale.x, scale.y), sum));
}
#end
#if DOT
alias TileNumber = u32;

fn dotBytes(a: vec4<u32>, b: vec4<u32>) -> i32 {
  return (dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y)) + (dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w));
}

fn packBytes(a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>) -> vec4<u32> {
  let byte = vec4<u32>(0xff);
  return (a & byte) | ((b & byte) << vec4<u32>(8u)) | ((c & byte) << vec4<u32>(16u)) | (d << vec4<u32>(24u));
}
#end
