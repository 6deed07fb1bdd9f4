  // The sums of a workgroup's tile of 64 rows by GROUP_COLUMNS columns, in fragments of the subgroups. K goes by K_TILE:
  // all threads put so much of the weights and of the input into workgroup memory, as [rows, K_TILE], [columns, K_TILE]. The
  // subgroups are a grid of GRID_ROWS by GRID_COLUMNS, each with FRAGMENT_ROWS by FRAGMENT_COLUMNS fragments.
  let subgroup = place / SUBGROUP;
  let subgroupRow = subgroup % GRID_ROWS * (TILE / GRID_ROWS);
  let subgroupColumn = subgroup / GRID_ROWS * (GROUP_COLUMNS / GRID_COLUMNS);
  let vectors = params.words * WORD_VECTORS;
  #for i FRAGMENT_ROWS
  #for j FRAGMENT_COLUMNS
  var sums$i_$j: Fragment;
  #end
  #end
  for (var start = 0u; start < vectors; start += K_TILE / 4u) {
    workgroupBarrier();
    for (var i = place; i < TILE * K_TILE / 4u; i += INVOCATIONS) {
      let row = i % TILE;
      let vector = i / TILE;
      var w = vec4<f32>();
      if (start + vector < vectors) {
        w = weightAt(tile * TILE + row, start + vector, params.words);
      }
      #for e 4
      weightTile[row * K_TILE + vector * 4u + $eu] = Component(w[$e]);
      #end
    }
    for (var i = place; i < GROUP_COLUMNS * K_TILE / 4u; i += INVOCATIONS) {
      let own = i / (K_TILE / 4u);
      let vector = i % (K_TILE / 4u);
      var x = vec4<f32>();
      if (start + vector < vectors) {
        x = input[min(params.firstColumn + groupColumn + own, lastColumn) * params.inputWords + start + vector];
      }
      #if HALF
      // What halves hold.
      x = clamp(x, vec4<f32>(-65504.0), vec4<f32>(65504.0));
      #end
      #for e 4
      inputTile[own * K_TILE + vector * 4u + $eu] = Component(x[$e]);
      #end
    }
    workgroupBarrier();
    for (var k = 0u; k < K_TILE; k += FRAGMENT_K) {
      #for i FRAGMENT_ROWS
      let left$i = (subgroupRow + $iu * FRAGMENT_M) * K_TILE + k;
      #if NATIVE
      let weights$i = subgroupMatrixLoad<Left, row_major>(&weightTile, left$i, K_TILE);
      #end
      #end
      #for j FRAGMENT_COLUMNS
      let right$j = (subgroupColumn + $ju * FRAGMENT_N) * K_TILE + k;
      #if NATIVE
      let input$j = subgroupMatrixLoad<Right, col_major>(&inputTile, right$j, K_TILE);
      #end
      #end
      #for i FRAGMENT_ROWS
      #for j FRAGMENT_COLUMNS
      #if NATIVE
      sums$i_$j = subgroupMatrixMultiplyAccumulate(weights$i, input$j, sums$i_$j);
      #end
      #if EMULATED
      fragmentMultiply(&sums$i_$j, left$i, right$j, place % SUBGROUP);
      #end
      #end
      #end
    }
  }
  // Fragments go through workgroup memory to the threads that finish them, COLUMN_THREADS columns at a time: a thread has
  // the same rows as in linear-sums.wgsl, and one column.
  for (var slice = 0u; slice < COLUMNS; slice++) {
    workgroupBarrier();
    #for i FRAGMENT_ROWS
    #for j FRAGMENT_COLUMNS
    if ((subgroupColumn + $ju * FRAGMENT_N) / COLUMN_THREADS == slice) {
      let to = (subgroupColumn + $ju * FRAGMENT_N) % COLUMN_THREADS * TILE + subgroupRow + $iu * FRAGMENT_M;
      #if NATIVE
      subgroupMatrixStore<col_major>(&resultTile, to, sums$i_$j, TILE);
      #end
      #if EMULATED
      fragmentStore(to, &sums$i_$j, place % SUBGROUP);
      #end
    }
    #end
    #end
    workgroupBarrier();
    let column = groupColumn + slice * COLUMN_THREADS + local.y;
    var totals: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
      totals[r] = resultTile[local.y * TILE + lane + r * TILE_THREADS];
    }
#finish
  }
