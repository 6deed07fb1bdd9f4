import { playwright } from '@vitest/browser-playwright';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { browserArgs } from './src/cli/launch-browser.ts';

// Started by scripts/test.js, which sets the SHOAL_* variables; `npx vitest --project unit` works by itself.
const gpuInBrowser = process.env.SHOAL_GPU_TESTS === 'browser';

const GPU_TESTS = ['src/**/*.gpu.test.ts'];
/**
 * What limits decide is which bindings a whole model gets: every kernel is in these, so that its bindings are counted. The
 * long tier has all tests on both sorts of device.
 */
const LIMITS_TESTS =
  process.env.SHOAL_LONG === '1'
    ? GPU_TESTS
    : ['src/model/{gpu-runner,load-decoder,parity,gguf}.gpu.test.ts', 'src/gpu/{adjust-logits,sampler}.gpu.test.ts'];

/** Kernel tests: under Node with Dawn, else in the browser; on two sorts of device. */
function gpuProject(
  name: string,
  deviceProfile: 'full' | 'default-limits',
  include: string[],
  groupOrder: number,
): TestProjectInlineConfiguration {
  return {
    test: {
      name,
      include,
      provide: { deviceProfile },
      // A browser sees none of this process's environment.
      env: { SHOAL_LONG: process.env.SHOAL_LONG ?? '' },
      testTimeout: 60_000,
      hookTimeout: 60_000,
      maxWorkers: 1,
      // One process after the other starts no Dawn again, and the files share a device: what one compiled, none compiles
      // again.
      isolate: false,
      sequence: { groupOrder },
      ...(gpuInBrowser
        ? {
            browser: {
              enabled: true,
              headless: true,
              screenshotFailures: false,
              fileParallelism: false,
              provider: playwright({
                launchOptions: {
                  ...(process.env.SHOAL_BROWSER ? { executablePath: process.env.SHOAL_BROWSER } : {}),
                  args: browserArgs({ softwareGpu: true }),
                },
              }),
              instances: [{ browser: 'chromium' as const }],
            },
          }
        : { pool: 'forks' as const, setupFiles: ['src/testing/step-back.node.ts'] }),
    },
  };
}

/** Tests in a real browser, and of relays in processes of their own. */
function processProject(
  name: string,
  include: string[],
  exclude: string[],
  groupOrder: number,
): TestProjectInlineConfiguration {
  return {
    test: {
      name,
      include,
      exclude,
      pool: 'forks',
      maxWorkers: 1,
      fileParallelism: false,
      testTimeout: 60_000,
      hookTimeout: 120_000,
      sequence: { groupOrder },
    },
  };
}

const CHAOS_TESTS = ['e2e/chaos*.test.ts'];
const FLEET_TESTS = ['e2e/fleet-*.test.ts'];

// One group after the other: the machine may have two cores. `npm test` runs some beside the others: scripts/lanes.js.
export default defineConfig({
  test: {
    reporters: ['default', './scripts/summary-reporter.js'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'src/**/*.test.tsx', 'scripts/**/*.test.ts'],
          exclude: GPU_TESTS,
          pool: 'forks',
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      gpuProject('gpu', 'full', GPU_TESTS, 1),
      gpuProject('gpu-default-limits', 'default-limits', LIMITS_TESTS, 2),
      processProject('e2e', ['e2e/**/*.test.ts'], [...CHAOS_TESTS, ...FLEET_TESTS], 3),
      processProject('chaos', CHAOS_TESTS, [], 4),
      processProject('fleet', FLEET_TESTS, [], 5),
    ],
  },
});
