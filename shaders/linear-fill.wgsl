      // Puts FILL_WORDS words of the weights' worth of the workgroup's columns into its memory, once for each split: the
      // input as it is; or, a unit of 32 columns of K at a time, over a power of two (HALF) or as integers of 8 bits (DOT),
      // with what it is to be multiplied by. tileScales: that factor, the sums of both halves and of the unit.
      workgroupBarrier();
      {
        let filler = local.y * THREADS + local.x;
        let start = (first + chunk) * WORD_VECTORS;
        #if COPIED
        for (var i = filler; i < GROUP_COLUMNS * FILL_VECTORS; i += FILLERS) {
          let own = i / FILL_VECTORS;
          let at = min(params.firstColumn + groupColumn + own, lastColumn) * params.inputWords + start;
          inputTile[(local.z * GROUP_COLUMNS + own) * COLUMN_STRIDE + i % FILL_VECTORS] = input[at + i % FILL_VECTORS];
        }
        #end
        #if CONVERTED
        for (var i = filler; i < GROUP_COLUMNS * FILL_UNITS; i += FILLERS) {
          let own = i / FILL_UNITS;
          let vector = start + i % FILL_UNITS * 8u;
          let at = min(params.firstColumn + groupColumn + own, lastColumn) * params.inputWords + vector;
          #for v 8
          let x$v = select(vec4<f32>(), input[at + $vu], vector + $vu < end * WORD_VECTORS);
          #end
          let low = (x0 + x1) + (x2 + x3);
          let high = (x4 + x5) + (x6 + x7);
          let sum = vec2<f32>((low.x + low.y) + (low.z + low.w), (high.x + high.y) + (high.z + high.w));
          let sizes = max(max(max(abs(x0), abs(x1)), max(abs(x2), abs(x3))), max(max(abs(x4), abs(x5)), max(abs(x6), abs(x7))));
          let largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
          let to = (local.z * GROUP_COLUMNS + own) * COLUMN_STRIDE + i % FILL_UNITS * UNIT_VECTORS;
          #if HALF
          // The power of two above the largest; in range, so that it has an inverse.
          let power = clamp((bitcast<u32>(largest) & 0x7f800000u) + 0x00800000u, 0x01000000u, 0x7e000000u);
          let factor = bitcast<f32>(power);
          let inverse = bitcast<f32>(0x7f000000u - power);
          #for v 8
          inputTile[to + $vu] = vec4<Half>(x$v * inverse);
          #end
          #end
          #if DOT
          let factor = largest / 127.0;
          let inverse = 127.0 / max(largest, 0x1p-100);
          #for v 8
          let q$v = vec4<u32>(vec4<i32>(round(x$v * inverse)));
          #end
          // Four columns whose quants share a word: of q4 every other nibble, of q8 bytes.
          #if Q4
          inputTile[to] = packBytes(q0, q2, q4, q6);
          inputTile[to + 1u] = packBytes(q1, q3, q5, q7);
          #end
          #if Q8
          inputTile[to] = packBytes(q0, q1, q2, q3);
          inputTile[to + 1u] = packBytes(q4, q5, q6, q7);
          #end
          #end
          tileScales[local.z * GROUP_COLUMNS * FILL_UNITS + i] = vec4<f32>(factor, sum, sum.x + sum.y);
        }
        #end
      }
      workgroupBarrier();
      let tileAt = local.z * GROUP_COLUMNS;
