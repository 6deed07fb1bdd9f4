import { Code } from '@connectrpc/connect';
import { httpStatusOf } from './status-table.ts';

/**
 * What a request is refused or ended with. Pure: the relay turns it into a ConnectError. The message is meant for the
 * client and names the field; it never holds ids or texts of a prompt.
 */
export class ContractError extends Error {
  override readonly name = 'ContractError';
  readonly code: Code;
  /** Proto name of the field at fault, such as `top_p` or `custom_params.seed`; undefined where none is. */
  readonly field: string | undefined;

  constructor(code: Code, message: string, field?: string) {
    super(message);
    this.code = code;
    this.field = field;
  }

  get httpStatus(): number {
    return httpStatusOf(this.code);
  }
}

/** A malformed or out-of-range field. `rule` is like "must be in (0, 1], got 1.5.". */
export function invalid(field: string, rule: string): ContractError {
  return new ContractError(Code.InvalidArgument, `${field} ${rule}`, field);
}

/** A field with a meaning that this server doesn't serve. `why` ends the sentence "<field> …". */
export function unserved(field: string, why = 'is not served.'): ContractError {
  return new ContractError(Code.Unimplemented, `${field} ${why}`, field);
}
