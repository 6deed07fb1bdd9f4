import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { ContractError, invalid } from '../../contract/contract-error.ts';
import type { Operator } from '../../contract/gen/operator_pb.ts';
import {
  GetInternalStateResponseSchema,
  LoadLoRAResponseSchema,
  SetInternalStateResponseSchema,
  UnloadLoRAResponseSchema,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import type { ServedAdapters } from '../lora/served-adapters.ts';
import { toConnectError } from '../to-connect-error.ts';
import { internalState, type StateParts } from './internal-state.ts';

export interface OperatorParts extends StateParts {
  readonly adapters: ServedAdapters;
}

/** What an operator may ask of a running relay beside the gateway's contract. What fails is a status, never `success` false. */
export function operatorService(parts: OperatorParts): ServiceImpl<typeof Operator> {
  const { adapters, running } = parts;
  return {
    async loadLoRA({ adapterId, adapterPath, rank }) {
      try {
        if (rank < 0) throw invalid('rank', 'must be 0, which takes what the files say, or theirs.');
        const ask = { name: adapterId, path: adapterPath, id: '', pinned: false, rank };
        const message = await adapters.load(ask);
        return create(LoadLoRAResponseSchema, { success: true, adapterId, message });
      } catch (error) {
        throw toConnectError(inItsWords(error));
      }
    },

    async unloadLoRA({ adapterId }) {
      try {
        if (adapterId === '') throw invalid('adapter_id', 'must be set.');
        const message = await adapters.unload(adapterId);
        return create(UnloadLoRAResponseSchema, { success: true, message });
      } catch (error) {
        throw toConnectError(inItsWords(error));
      }
    },

    updateWeights() {
      // The manifest that nodes check their files by, and which they tell when they attach, is that of the start.
      throw new ConnectError(
        'UpdateWeights is not served: nodes load the model that the relay was started with. Start it with another --model: open pages load that then.',
        Code.Unimplemented,
      );
    },

    getInternalState({ stateKeys }) {
      try {
        return create(GetInternalStateResponseSchema, { state: internalState(parts, stateKeys) });
      } catch (error) {
        throw toConnectError(error);
      }
    },

    setInternalState({ state }) {
      try {
        running.change(state ?? {});
        return create(SetInternalStateResponseSchema, { success: true });
      } catch (error) {
        throw toConnectError(error);
      }
    },
  };
}

/** The second generation's names of the same fields. */
const FIELDS: ReadonlyMap<string | undefined, string> = new Map([
  ['lora_name', 'adapter_id'],
  ['lora_id', 'adapter_id'],
  ['lora_path', 'adapter_path'],
]);

function inItsWords(error: unknown): unknown {
  if (!(error instanceof ContractError)) return error;
  const { code, message, field } = error;
  const own = FIELDS.get(field);
  return own === undefined ? error : new ContractError(code, message.replace(String(field), own), own);
}
