import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CliError } from './errors.ts';

const HELP = `
Each of these flags is also read from the environment, as SHOAL_WEB_PORT is for --web-port, with commas between several
values, and from the file of --config: an object whose keys are the flags' names, such as "web-port". A flag comes before
the environment, and the environment before the file.`;

/** Flags that are no setting of the relay's. */
const NOT_SETTINGS = new Set(['config', 'help', 'headless', 'software-gpu']);

/** Lets the flags that a command has so far be given by the environment and by a file too, checked as the flags are. */
export function withConfig(command: Command): Command {
  const settings = command.options.filter((option) => !NOT_SETTINGS.has(nameOf(option)));
  return command
    .addOption(new Option('--config <file>', 'a JSON file with flags'))
    .addHelpText('after', HELP)
    .hook('preAction', () => settle(command, settings, process.env));
}

/** Fills in what no flag says. Throws CliError, which names the variable or the key, and never a value. */
function settle(command: Command, settings: readonly Option[], env: NodeJS.ProcessEnv): void {
  const path: string | undefined = command.opts().config ?? (env.SHOAL_CONFIG || undefined);
  const file = path === undefined ? {} : readConfig(path);
  const known = new Set(settings.map(nameOf));
  for (const key of Object.keys(file)) {
    if (!known.has(key)) throw new CliError(`${path}: "${key}" is no setting; settings are named as the flags are.`, 2);
  }
  for (const option of settings) {
    const key = option.attributeName();
    if (command.getOptionValueSource(key) === 'cli') continue;
    const variable = variableOf(option);
    const text = env[variable];
    const inFile = file[nameOf(option)];
    // Set to nothing is not set: containers are often given all variables.
    if (text !== undefined && text !== '') set(command, option, text, variable, 'env');
    else if (inFile !== undefined) set(command, option, inFile, `"${nameOf(option)}" of ${path}`, 'config');
  }
}

function set(command: Command, option: Option, value: unknown, where: string, source: string): void {
  try {
    command.setOptionValueWithSource(option.attributeName(), parsed(option, value), source);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    throw new CliError(`${where} is invalid: ${error.message}`, 2);
  }
}

function parsed(option: Option, value: unknown): unknown {
  if (!option.required) return parseSwitch(value);
  const several = Array.isArray(option.defaultValue);
  const values = Array.isArray(value) && several ? value : [value];
  let result = option.defaultValue;
  for (const one of values) {
    if (typeof one !== 'string' && typeof one !== 'number') {
      throw new InvalidArgumentError(`it must be a text${several ? ', a list of texts' : ''} or a number.`);
    }
    result = option.parseArg ? option.parseArg(String(one), result as never) : String(one);
  }
  return result;
}

function parseSwitch(value: unknown): boolean {
  if (value === true || value === 'true' || value === '1') return true;
  if (value === false || value === 'false' || value === '0') return false;
  throw new InvalidArgumentError('it must be true or false.');
}

function readConfig(path: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    // A parser's own message shows what stands there, which may be a token.
    const why = error instanceof SyntaxError ? 'it is no JSON' : (error as Error).message;
    throw new CliError(`the settings of --config ${path} can't be read: ${why}.`, 2);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CliError(`${path} must hold a JSON object.`, 2);
  }
  return value as Record<string, unknown>;
}

function nameOf(option: Option): string {
  return option.long!.slice(2);
}

function variableOf(option: Option): string {
  return `SHOAL_${nameOf(option).toUpperCase().replaceAll('-', '_')}`;
}
