  // The sums of a thread's rows and columns, each in a register. `#unit` stands for linear-dense.wgsl, linear-quant.wgsl
  // or linear-dot.wgsl: what is added for a word of the weights. K ends before `lastWord`; with ALONE column c of the
  // thread begins at `input<c>`.
  #for r ROWS
  #for c COLUMNS
  var total$r_$c = 0.0;
  #end
  #end
  #if SPLIT
  {
    let first = local.z * params.splitWords;
  #end
  #if WHOLE
  for (var first = 0u; first < lastWord; first += params.splitWords) {
  #end
    let end = min(first + params.splitWords, lastWord);
    #for r ROWS
    #for c COLUMNS
    var s$r_$c = Sum();
    #end
    #end
    #if ALONE
    for (var word = first; word < end; word++) {
#unit
    }
    #end
    #if SHARED
    for (var chunk = 0u; chunk < params.splitWords; chunk += FILL_WORDS) {
#fill
      #if HALF
      #if DENSE
      #for r ROWS
      #for c COLUMNS
      var a$r_$c = vec4<Half>();
      #end
      #end
      #end
      #end
      let stop = min(first + chunk + FILL_WORDS, end);
      for (var word = first + chunk; word < stop; word++) {
        let filled = word - first - chunk;
#unit
      }
      #if HALF
      #if DENSE
      #for c COLUMNS
      let power$c = tileScales[tileAt + local.y * COLUMNS + $cu].x;
      #for r ROWS
      {
        let a = vec4<f32>(a$r_$c);
        s$r_$c = fma((a.x + a.y) + (a.z + a.w), power$c, s$r_$c);
      }
      #end
      #end
      #end
      #end
    }
    #end
    #for r ROWS
    #for c COLUMNS
    #if CHAINS_OF_4
    total$r_$c += (s$r_$c.x + s$r_$c.y) + (s$r_$c.z + s$r_$c.w);
    #end
    #if ONE_CHAIN
    total$r_$c += s$r_$c;
    #end
    #end
    #end
  }
  #if SPLIT
  let sumsAt = ((local.z * COLUMN_THREADS + local.y) * THREADS + local.x) * ROWS * COLUMNS;
  #for r ROWS
  #for c COLUMNS
  sums[sumsAt + $ru * COLUMNS + $cu] = total$r_$c;
  #end
  #end
  workgroupBarrier();
  // The threads of all splits share the adding: each takes some of the sums, over all splits in order.
  let stride = COLUMN_THREADS * THREADS * ROWS * COLUMNS;
  let ownAt = sumsAt - local.z * stride;
  for (var i = local.z; i < ROWS * COLUMNS; i += SPLIT_THREADS) {
    var total = sums[ownAt + i];
    for (var split = 1u; split < SPLIT_THREADS; split++) {
      total += sums[ownAt + split * stride + i];
    }
    sums[ownAt + i] = total;
  }
  workgroupBarrier();
  if (local.z != 0u) {
    return;
  }
  #end
  // What is done with a sum stands in loops: 32 times its code would take a second to compile.
  var totals: array<f32, ROWS * COLUMNS>;
  #if SPLIT
  for (var i = 0u; i < ROWS * COLUMNS; i++) {
    totals[i] = sums[sumsAt + i];
  }
  #end
  #if WHOLE
  #for r ROWS
  #for c COLUMNS
  totals[$ru * COLUMNS + $cu] = total$r_$c;
  #end
  #end
  #end
#finish
