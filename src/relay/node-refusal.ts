import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import { isStatusCode } from '../contract/status-table.ts';

/** Why a node fails a job, as its client may read it: printable and short, since a stranger wrote it. */
export function refusalOf(code: number, message: string): ContractError {
  return new ContractError(
    isStatusCode(code) ? code : Code.Internal,
    message.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 300) || 'The node failed.',
  );
}
