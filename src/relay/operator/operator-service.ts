import { create } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import { ContractError, invalid, unserved } from '../../contract/contract-error.ts';
import type { Operator } from '../../contract/gen/operator_pb.ts';
import {
  GetInternalStateResponseSchema,
  LoadLoRAResponseSchema,
  SetInternalStateResponseSchema,
  UnloadLoRAResponseSchema,
  UpdateWeightsResponseSchema,
} from '../../contract/gen/sglang_scheduler_pb.ts';
import type { ServedAdapters } from '../lora/served-adapters.ts';
import { toConnectError } from '../to-connect-error.ts';
import { internalState, type StateParts } from './internal-state.ts';
import type { WeightUpdates } from './weight-updates.ts';

export interface OperatorParts extends StateParts {
  readonly adapters: ServedAdapters;
  readonly updates: WeightUpdates;
}

/** What an operator may ask of a running relay beside the gateway's contract. What fails is a status, never `success` false. */
export function operatorService(parts: OperatorParts): ServiceImpl<typeof Operator> {
  const { adapters, running, current, updates } = parts;
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

    async updateWeights({ source, weightName }, { signal }) {
      try {
        const { name } = current.now;
        if (weightName !== '' && weightName !== name)
          throw unserved('weight_name', `must be unset, or ${name}: the weights change as a whole.`);
        if (source.case !== 'diskPath') throw noSource(source.case);
        const message = await updates.update(source.value, signal);
        return create(UpdateWeightsResponseSchema, { success: true, message });
      } catch (error) {
        throw toConnectError(error);
      }
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

const OTHER_SOURCES = { tensorData: 'tensor_data', remoteUrl: 'remote_url' } as const;

/** Nodes read files of the relay's, piece by piece, and each piece's hash is known before. */
function noSource(source: keyof typeof OTHER_SOURCES | undefined): ContractError {
  if (source === undefined) return invalid('disk_path', 'must be set.');
  return unserved(
    OTHER_SOURCES[source],
    "is not served: write the weights to the relay's disk, and name them by disk_path.",
  );
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
