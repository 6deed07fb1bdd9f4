import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ConstrainedCase } from './constrained-cases.ts';

const FORMATS = {
  date: /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/,
  time: /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/,
  'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  ipv4: /^((25[0-5]|(2[0-4]|[01]?\d)?\d)(\.|$)){4}$/,
  ipv6: /^[0-9a-f:.]{2,}$/i,
  email: /^[^\n]+@[^@\s]+$/,
  hostname: /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/,
};

const ajv = new Ajv2020({ strict: false, ownProperties: true, formats: FORMATS });

/** What is wrong with a finished output; undefined: nothing. */
export function judge(of: ConstrainedCase, output: Uint8Array): string | undefined {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(output);
  } catch {
    return 'it is not UTF-8';
  }
  if (of.matches !== undefined) return of.matches(text) ? undefined : `it does not match: ${text}`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `${(error as Error).message}: ${text}`;
  }
  return ajv.validate(of.schema!, value) ? undefined : `${ajv.errorsText()}: ${text}`;
}
