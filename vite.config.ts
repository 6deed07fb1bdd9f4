import { defineConfig } from 'vite';

// The page. The Node side (relay, command) is built by vite.node.config.ts, both by scripts/build.js.
export default defineConfig({
  build: { outDir: 'dist/page', target: 'es2023', emptyOutDir: true },
  worker: {
    format: 'es',
    // xgrammar asks for these where it finds itself in Node.
    rolldownOptions: { external: ['module', 'url'] },
  },
});
