      // Of quantised formats, a unit of 32 columns of K: sum of (scale q + min) x = scale * sum of q x + min * sum of x,
      // block by block. Quants become floats where they lie, 16^i or 2^24 times too large; powers of two cost no digit,
      // so x or the scale takes them back. With QUADS four threads load a word of x each and hand it to the others: all have
      // the same columns.
      let at = tile * params.words + word;
      #if Q4
      #for r ROWS
      let w$r = bitcast<vec4<i32>>(weights[at * TILE + lane + $ru * TILE_THREADS]);
      #end
      #end
      #for c COLUMNS
      let column$c = input$c + word * 8u;
      #if QUADS
      let v$c_0 = input[column$c + quadLane];
      let v$c_1 = input[column$c + 4u + quadLane];
      #end
      #end
      #if BLOCKS_OF_32
      #for r ROWS
      #for c COLUMNS
      var a$r_$c = vec4<f32>();
      #end
      #end
      #for c COLUMNS
      var t$c = vec4<f32>();
      #end
      #end
      // Both halves of the unit stand here: a loop would carry all sums, which costs SwiftShader as much as they do.
      #for h 2
      {
        let half = $hu;
        #for c COLUMNS
        #if QUADS
        let x$c_0 = quadBroadcast(v$c_$h, 0u);
        let x$c_1 = quadBroadcast(v$c_$h, 1u);
        let x$c_2 = quadBroadcast(v$c_$h, 2u);
        let x$c_3 = quadBroadcast(v$c_$h, 3u);
        #end
        #if SINGLES
        let x$c_0 = input[column$c + 4u * half];
        let x$c_1 = input[column$c + 4u * half + 1u];
        let x$c_2 = input[column$c + 4u * half + 2u];
        let x$c_3 = input[column$c + 4u * half + 3u];
        #end
        #if Q4
        let y$c_1 = x$c_1 * 0x1p-4;
        let y$c_2 = x$c_2 * 0x1p-8;
        let y$c_3 = x$c_3 * 0x1p-12;
        #end
        #end
        #if BLOCKS_OF_16
        #for r ROWS
        #for c COLUMNS
        var a$r_$c = vec4<f32>();
        #end
        #end
        #for c COLUMNS
        var t$c = vec4<f32>();
        #end
        #end
        #for c COLUMNS
        t$c += (x$c_0 + x$c_1) + (x$c_2 + x$c_3);
        #end
        #for r ROWS
        {
          #if Q4
          let q = w$r >> vec4<u32>(16u * half);
          let q0 = vec4<f32>(q & vec4<i32>(0xf));
          let q1 = vec4<f32>(q & vec4<i32>(0xf0));
          let q2 = vec4<f32>(q & vec4<i32>(0xf00));
          let q3 = vec4<f32>(q & vec4<i32>(0xf000));
          #for c COLUMNS
          a$r_$c = fma(q3, y$c_3, fma(q2, y$c_2, fma(q1, y$c_1, fma(q0, x$c_0, a$r_$c))));
          #end
          #end
          #if Q8
          let q = bitcast<vec4<i32>>(weights[(at * 2u + half) * TILE + lane + $ru * TILE_THREADS]);
          let q0 = vec4<f32>(q << vec4<u32>(24u));
          let q1 = vec4<f32>((q << vec4<u32>(16u)) & vec4<i32>(-0x1000000));
          let q2 = vec4<f32>((q << vec4<u32>(8u)) & vec4<i32>(-0x1000000));
          let q3 = vec4<f32>(q & vec4<i32>(-0x1000000));
          #for c COLUMNS
          a$r_$c = fma(q3, x$c_3, fma(q2, x$c_2, fma(q1, x$c_1, fma(q0, x$c_0, a$r_$c))));
          #end
          #end
          #if BLOCKS_OF_16
          let scale = scaleUnpack(scales[(at * 2u + half) * TILE + lane + $ru * TILE_THREADS]);
          #for c COLUMNS
          s$r_$c = fma(a$r_$c, vec4<f32>(scale.x * QUANT_FACTOR), fma(t$c, vec4<f32>(scale.y), s$r_$c));
          #end
          #end
        }
        #end
      }
      #end
      #if BLOCKS_OF_32
      #for r ROWS
      {
        let scale = scaleUnpack(scales[at * TILE + lane + $ru * TILE_THREADS]);
        #for c COLUMNS
        s$r_$c = fma(a$r_$c, vec4<f32>(scale.x * QUANT_FACTOR), fma(t$c, vec4<f32>(scale.y), s$r_$c));
        #end
      }
      #end
      #end
