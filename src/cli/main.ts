import { readBuildInfo } from './paths.ts';
import { runProgram } from './program.ts';

/** The entry of bin/shoal.js: sets the exit code, and ends the process once all is closed. */
export async function main(args: readonly string[]): Promise<void> {
  // A reader that went away (`shoal generate … | head`) is no error.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  const { code, message } = await runProgram(args, readBuildInfo().packageVersion, {
    write: (text) => process.stdout.write(text),
    writeError: (text) => process.stderr.write(text),
  });
  if (message !== undefined) process.stderr.write(`error: ${message}\n`);
  // What a closed connection or a browser leaves behind must not hold the process.
  process.stdout.write('', () => process.exit(code));
}
