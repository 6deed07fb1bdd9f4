import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import { FAILURE_CODES } from '../contract/failure-codes.ts';

const CODES: ReadonlySet<number> = new Set(Object.values(FAILURE_CODES));

/**
 * Why a node fails a job, as its client may read it: a status that is a node's to say, else INTERNAL; printable and
 * short, since a stranger wrote it.
 */
export function refusalOf(code: number, message: string): ContractError {
  return new ContractError(
    CODES.has(code) ? code : Code.Internal,
    message
      .replace(/[^\x20-\x7e]+/g, ' ')
      .trim()
      .slice(0, 300) || 'The node failed.',
  );
}
