      // Of float formats, four columns of K. `at` is the word of the thread's first row.
      let at = (tile * params.words + word) * TILE + lane;
      #for c COLUMNS
      #if ALONE
      let x$c = input[input$c + word];
      #end
      #if SHARED
      let x$c = inputTile[(tileAt + local.y * COLUMNS + $cu) * COLUMN_STRIDE + filled];
      #end
      #end
      #for r ROWS
      let w$r = weightUnpack(weights[at + $ru * TILE_THREADS]);
      #for c COLUMNS
      #if HALF
      a$r_$c = fma(vec4<Half>(w$r), x$c, a$r_$c);
      #end
      #if EXACT
      #if CHAINS_OF_4
      s$r_$c = fma(w$r, x$c, s$r_$c);
      #end
      #if ONE_CHAIN
      s$r_$c = fma(w$r.w, x$c.w, fma(w$r.z, x$c.z, fma(w$r.y, x$c.y, fma(w$r.x, x$c.x, s$r_$c))));
      #end
      #end
      #end
      #end
