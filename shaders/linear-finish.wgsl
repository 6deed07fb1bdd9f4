  // What becomes of totals[r * OWN_COLUMNS + c], the sum of row lane + r * TILE_THREADS of the tile for `column + c`.
  // All kernels of a format and shape that differ in this are one, which is compiled once: loops that a finish doesn't enter
  // cost nothing.
  for (var c = 0u; c < select(0u, OWN_COLUMNS, params.normColumns != 0u); c++) {
    let factor = normFactor(min(params.firstColumn + column + c, lastColumn));
    for (var r = 0u; r < ROWS; r++) {
      totals[r * OWN_COLUMNS + c] *= factor;
    }
  }
  for (var i = 0u; i < select(0u, ROWS * OWN_COLUMNS, params.biased != 0u); i++) {
    let row = tile * TILE + lane + i / OWN_COLUMNS * TILE_THREADS;
    totals[i] += read5[params.outputAt + min(row, params.outputs - 1u)];
  }
  for (var i = 0u; i < select(0u, ROWS * OWN_COLUMNS, params.capScale != 0.0); i++) {
    totals[i] = boundedTanh(totals[i] * params.capScale);
  }
  // store: output[c, outputAt + r] = scale * sum.
  for (var i = 0u; i < select(0u, ROWS * OWN_COLUMNS, params.finish == FINISH_STORE); i++) {
    let row = tile * TILE + lane + i / OWN_COLUMNS * TILE_THREADS;
    let at = column + i % OWN_COLUMNS;
    if (row < params.outputs && params.firstColumn + at < count) {
      output[at * params.outputStride + params.outputAt + row] = totals[i] * params.scale;
    }
  }
  // add: output[c, outputAt + r] += scale * sum: a product that goes back into the residual stream. emit leaves what a product of
  // its norm asks for, too: write6[c, row] = read5[row] * output[c, row], where read5 is the norm's gain, and of each
  // thread the sum of its rows' squares: squares[c, 8 tile + lane], rows lane, lane + 8 … of the tile in this order, so
  // ROWS is 8.
  let adds = params.finish == FINISH_ADD || params.finish == FINISH_EMIT;
  for (var c = 0u; c < select(0u, OWN_COLUMNS, adds); c++) {
    let at = column + c;
    if (params.firstColumn + at < count) {
      #if EMITS
      var sum = 0.0;
      #end
      for (var r = 0u; r < ROWS; r++) {
        let row = tile * TILE + lane + r * TILE_THREADS;
        if (row < params.outputs) {
          let to = at * params.outputStride + params.outputAt + row;
          let x = fma(totals[r * OWN_COLUMNS + c], params.scale, output[to]);
          output[to] = x;
          #if EMITS
          if (params.finish == FINISH_EMIT) {
            write6[to] = x * read5[params.outputAt + row];
          }
          sum = fma(x, x, sum);
          #end
        }
      }
      #if EMITS
      if (params.finish == FINISH_EMIT) {
        squares[at * params.squaresWords * 4u + params.outputAt / 8u + tile * 8u + lane] = sum;
      }
      #end
    }
  }
  #if PAIRS
  // gate: output[c, i] = activation(gate) * up, of a matrix paired as src/gpu/pair-order.ts says: gate row i with up row i; the
  // activation as activation.wgsl computes it.
  for (var i = 0u; i < select(0u, ROWS / 2u * OWN_COLUMNS, params.finish == FINISH_GATE); i++) {
    let at = column + i % OWN_COLUMNS;
    let pair = pairOf(tile, lane + i / OWN_COLUMNS * TILE_THREADS);
    if (pair < params.outputs && params.firstColumn + at < count) {
      let gate = totals[i];
      let up = totals[i + ROWS / 2u * OWN_COLUMNS];
      output[at * params.outputStride + pair] = sigmoidProduct(gate, params.gateLinear, params.gateCubic) * up;
    }
  }
  // rotate: query, key and value heads, of a matrix paired as src/gpu/pair-order.ts says: row d of a head's first half
  // with row d of its second. Query and key are rotated by the table read5, key and value put into write6, where attention
  // finds them; as rope.wgsl, whose query and kv these are, number by number. extra0: heads of q, extra1: of k, extra2:
  // numbers of half a head, extra3: heads that are rotated, extra4: the sequence's word that has its block table.
  let half = params.extra2;
  for (var i = 0u; i < select(0u, ROWS / 2u * OWN_COLUMNS, params.finish == FINISH_ROTATE); i++) {
    let row = params.firstColumn + column + i % OWN_COLUMNS;
    let pair = pairOf(tile, lane + i / OWN_COLUMNS * TILE_THREADS);
    if (pair < params.outputs && row < count) {
      var x = vec2<f32>(totals[i], totals[i + ROWS / 2u * OWN_COLUMNS]);
      let head = pair / half;
      let d = pair % half;
      let position = stepPosition(row);
      if (head < params.extra3) {
        let turn = vec2<f32>(read5[(position * half + d) * 2u], read5[(position * half + d) * 2u + 1u]);
        x = vec2<f32>(fma(x.x, turn.x, -(x.y * turn.y)), fma(x.y, turn.x, x.x * turn.y));
      }
      if (head < params.extra0) {
        let to = (row * params.extra0 + head) * 2u * half + d;
        output[to] = x.x;
        output[to + half] = x.y;
      } else {
        let block = step[step[stepSequenceAt(row) + params.extra4] + position / BLOCK_TOKENS];
        let slot = (block * 2u * params.extra1 + head - params.extra0) * BLOCK_TOKENS + position % BLOCK_TOKENS;
        write6[slot * 2u * half + d] = x.x;
        write6[slot * 2u * half + d + half] = x.y;
      }
    }
  }
  #end
