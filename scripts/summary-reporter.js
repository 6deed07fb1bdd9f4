// Counts a test run over all projects for the launcher (scripts/test.js), which prints the closing line.
import { writeFileSync } from 'node:fs';

/** @import { Reporter, TestModule } from 'vitest/node' */

/** @implements {Reporter} */
export default class SummaryReporter {
  /**
   * @param {ReadonlyArray<TestModule>} modules
   * @param {ReadonlyArray<unknown>} errors
   */
  onTestRunEnd(modules, errors) {
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      let failedTests = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed' || state === 'skipped') count[state]++;
        // One that never came to run did not pass.
        else failedTests++;
      }
      // A file that cannot be read, or whose hooks fail, is a failure too where no test of its is.
      if (failedTests === 0 && module.state() === 'failed') failedTests = 1;
      count.failed += failedTests;
    }
    count.failed += errors.length;
    if (process.env.SHOAL_SUMMARY) writeFileSync(process.env.SHOAL_SUMMARY, JSON.stringify(count));
  }
}
